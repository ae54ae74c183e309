//! NCCL's log of its calls (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,COLL), of all ranks in one text or in a file each.
//! Not the form of a line (`busbw_library_logs::nccl::CallReader`).
//!
//! Lines of INIT name a communicator; without them its address in one process is all that there is. Then the addresses of
//! ranks that begin with the same calls are taken for one communicator.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use busbw_core::{Benchmark, Collective, DataType, ReduceOp};
use busbw_library_logs::nccl::{Call as Line, CallReader};

use super::collected::Collected;
use super::exchange::{Exchange, Outcome, Part};
use super::job::{Kind, Reported, Same};
use super::{call::Operation, sizes};

/// Calls by which communicators without a name are told apart.
const FIRST_CALLS: usize = 16;
/// The most addresses of communicators that are kept.
const MAX_VIEWS: usize = 1 << 16;

/// The log of all files.
#[derive(Debug, Default)]
pub(super) struct Log {
    reader: CallReader,
    /// What one rank does in one communicator, by host, process, address and how often the address was given.
    views: HashMap<(String, u32, String, u32), View>,
    order: Vec<(String, u32, String, u32)>,
    alike: Alike,
    calls: u64,
}

/// A communicator as one rank sees it.
#[derive(Debug)]
struct View {
    reporter: usize,
    rank: Option<u32>,
    ranks: u32,
    communicator: Option<usize>,
    /// The first calls, until the communicator is known.
    waiting: Vec<Spoken>,
    exchange: Exchange,
    op_count: u64,
}

/// A call of a view.
#[derive(Debug, Clone, Copy, Hash)]
enum Spoken {
    Collective { kind: Kind, root: Option<u32> },
    Message { is_send: bool, peer: u32, bytes: u64, datatype: DataType, op_count: u64 },
}

/// Communicators without a name.
#[derive(Debug, Default)]
struct Alike {
    /// How many ranks began with these calls in their n-th communicator of this kind.
    ranks: HashMap<(u64, u32), u32>,
    /// How many communicators of this kind a rank has.
    of_rank: HashMap<(usize, u64), u32>,
    /// The numbers of communicators, as they are named here.
    numbers: HashMap<(u64, u32, u32), usize>,
}

impl Log {
    /// Reads a line.
    pub(super) fn line(&mut self, line: &str, collected: &mut Collected) {
        let Log { reader, views, order, alike, calls } = self;
        reader.line(line, |call| {
            *calls += 1;
            let spoken = match spoken(&call) {
                Ok(spoken) => spoken,
                Err(reason) => return collected.leave_out(&reason, 1),
            };
            let at = call.communicator;
            let before = call.known.map_or(0, |known| known.before);
            let key = (at.host.to_owned(), at.pid, at.address.to_owned(), before);
            if !views.contains_key(&key) {
                let device = call.known.and_then(|known| known.cuda_dev).or(at.device);
                let device = device.map_or(String::new(), |device| format!(" [{device}]"));
                let name = format!("{}:{}{device}", at.host, at.pid);
                let Some(reporter) = collected.reporter(&name) else { return };
                if views.len() >= MAX_VIEWS {
                    return collected.leave_out("beyond the communicators that are kept", 1);
                }
                let id = call.known.and_then(|known| known.id.as_deref());
                let view = View {
                    reporter,
                    rank: call.known.map(|known| known.rank),
                    ranks: call.nranks,
                    communicator: id.and_then(|id| collected.communicator(id, call.nranks)),
                    waiting: Vec::new(),
                    exchange: Exchange::default(),
                    op_count: 0,
                };
                views.insert(key.clone(), view);
                order.push(key.clone());
            }
            let Some(view) = views.get_mut(&key) else { return };
            if view.communicator.is_some() {
                return view.take(spoken, collected);
            }
            view.waiting.push(spoken);
            if view.waiting.len() >= FIRST_CALLS {
                view.settle(alike, collected);
            }
        });
    }

    /// How many messages of NCCL were read so far, and how many calls.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.reader.messages(), self.calls)
    }

    /// The end of all files.
    pub(super) fn finish(mut self, collected: &mut Collected) {
        for key in &self.order {
            let Some(view) = self.views.get_mut(key) else { continue };
            if view.communicator.is_none() {
                view.settle(&mut self.alike, collected);
            }
            view.close(collected);
        }
        collected
            .leave_out("calls of which another rank's output covers a part", self.reader.torn());
    }
}

impl View {
    /// Finds the communicator of a view without a name, and takes what waited for it.
    fn settle(&mut self, alike: &mut Alike, collected: &mut Collected) {
        let mut hasher = DefaultHasher::new();
        (self.ranks, &self.waiting).hash(&mut hasher);
        let begins = hasher.finish();
        let nth = alike.of_rank.entry((self.reporter, begins)).or_default();
        *nth += 1;
        let ranks = alike.ranks.entry((begins, *nth)).or_default();
        let beside = *ranks / self.ranks.max(1);
        *ranks += 1;
        let next = alike.numbers.len() + 1;
        let number = *alike.numbers.entry((begins, *nth, beside)).or_insert(next);
        let id = format!("without a name, {number}");
        self.communicator = collected.communicator(&id, self.ranks);
        for spoken in std::mem::take(&mut self.waiting) {
            self.take(spoken, collected);
        }
    }

    fn take(&mut self, spoken: Spoken, collected: &mut Collected) {
        match spoken {
            Spoken::Collective { kind, root } => {
                self.close(collected);
                self.report(kind, root, Same::Nth, collected);
            }
            Spoken::Message { is_send, peer, bytes, datatype, op_count } => {
                let datatype = Some(datatype);
                let part = Part { is_send, peer, bytes, datatype, at_us: None, took_us: None };
                // Launches in between: they were not made together.
                if self.op_count != op_count || self.exchange.is_closed_to(part) {
                    self.close(collected);
                }
                self.op_count = op_count;
                self.exchange.push(part);
                if self.exchange.is_whole(self.ranks) {
                    self.close(collected);
                }
            }
        }
    }

    /// Ends what may be an exchange.
    fn close(&mut self, collected: &mut Collected) {
        match self.exchange.close(self.ranks, false) {
            None => {}
            Some(Outcome::Whole(kind, _)) => self.report(kind, None, Same::NthExchange, collected),
            Some(Outcome::Several(calls)) => collected.leave_out(
                "sends and receives that may belong together, but not to and from every rank",
                calls,
            ),
            Some(Outcome::Messages(parts)) => {
                for part in parts {
                    if self.rank.is_none() && !part.is_send {
                        let reason = "receives of a rank whose number the log does not say: its peer's sends count";
                        collected.leave_out(reason, 1);
                        continue;
                    }
                    let kind = Kind {
                        operation: Operation::Message,
                        datatype: part.datatype,
                        bytes: part.bytes,
                        redop: None,
                    };
                    let (from, to) = match part.is_send {
                        true => (self.rank, Some(part.peer)),
                        false => (Some(part.peer), self.rank),
                    };
                    let same = Same::Message { from, to, is_send: part.is_send };
                    self.report(kind, None, same, collected);
                }
            }
        }
    }

    fn report(&self, kind: Kind, root: Option<u32>, same: Same, collected: &mut Collected) {
        let Some(communicator) = self.communicator else {
            return collected.leave_out("beyond the communicators that are kept", 1);
        };
        collected.add(&Reported {
            kind,
            communicator,
            reporter: self.reporter,
            rank: self.rank,
            root,
            at_us: None,
            took_us: None,
            same,
        });
    }
}

/// A line as a call; else why not.
fn spoken(call: &Line<'_>) -> Result<Spoken, String> {
    let Some(datatype) = DataType::ALL.get(call.datatype as usize).copied() else {
        return Err(format!("element type {} of NCCL, which busbw does not know", call.datatype));
    };
    let absurd = || "calls of more bytes than any machine has".to_owned();
    let is_send = call.operation == "Send";
    if is_send || call.operation == "Recv" {
        let bytes = call.count.checked_mul(datatype.bytes() as u64).and_then(sizes::plausible);
        return Ok(Spoken::Message {
            is_send,
            peer: call.root,
            bytes: bytes.ok_or_else(absurd)?,
            datatype,
            op_count: call.op_count,
        });
    }
    let collective = collective(call.operation)
        .ok_or_else(|| format!("{}, which busbw does not measure", call.operation))?;
    if collective == Collective::AllToAllV {
        // RCCL's: its line has no sizes of its own.
        return Err(format!("{}, whose sizes the log does not say", call.operation));
    }
    let bytes = sizes::bytes(collective, call.count, datatype.bytes(), call.nranks);
    let redop = collective.reduces().then_some(match call.op {
        0 => ReduceOp::Sum,
        1 => ReduceOp::Prod,
        2 => ReduceOp::Max,
        3 => ReduceOp::Min,
        4 => ReduceOp::Avg,
        // Of `ncclRedOpCreatePreMulSum`: nothing else makes operators.
        _ => ReduceOp::Mulsum,
    });
    let kind = Kind {
        operation: Operation::Collective(collective),
        datatype: Some(datatype),
        bytes: bytes.ok_or_else(absurd)?,
        redop,
    };
    Ok(Spoken::Collective { kind, root: collective.rooted().then_some(call.root) })
}

/// The collective by its name in a library: `AllReduce`, `AlltoAll`.
pub(super) fn collective(name: &str) -> Option<Collective> {
    let known = Benchmark::from_spelling(name).and_then(Benchmark::collective);
    // busbw's own of these names are other things than a library's.
    known.filter(|one| {
        !matches!(one, Collective::SendRecv | Collective::HyperCube | Collective::Barrier)
    })
}
