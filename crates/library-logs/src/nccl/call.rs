//! `AllReduce: opCount 0 sendbuff …` (COLL): the calls that a program made, each with its communicator.
//! Not what they mean for a measurement, and no facts of a run: a log has one for every call.
//!
//! The form is that of NCCL's src/enqueue.cc, `ncclEnqueueCheck`, 2.8.3 to 2.32.3:
//! `AllReduce: opCount 1f sendbuff 0x… recvbuff 0x… count 1024 datatype 7 op 0 root 0 comm 0x… [nranks=8] stream 0x…`.
//! `count` is the argument of the call. Until 2.18, NCCL turned those of AllGather, Broadcast, Send and Recv into bytes of
//! type 0 (int8) before it printed them.

use std::collections::HashMap;

use super::communicator::{Named, named};
use super::cursor::Cursor;
use super::message::{self, Level, Origin};
use super::tally::keep;

/// The most addresses of communicators that are kept.
const MAX_ADDRESSES: usize = 65_536;

/// A call, as one rank's log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// NCCL's name of the operation, such as `AllReduce` or `Send`.
    pub operation: &'a str,
    /// Launches of the communicator that used its proxy before: it stays 0 where none does.
    pub op_count: u64,
    /// Elements, as the call was given them.
    pub count: u64,
    /// NCCL's number of the element type (`ncclDataType_t`).
    pub datatype: u32,
    /// NCCL's number of the operator (`ncclRedOp_t`); those of a program begin at 5.
    pub op: u32,
    /// The root; of Send and Recv the other rank.
    pub root: u32,
    /// Ranks of the communicator.
    pub nranks: u32,
    /// The communicator in this process.
    pub communicator: CommunicatorAt<'a>,
    /// What the log says of the communicator's start; absent without lines of INIT.
    pub known: Option<&'a Known>,
}

/// Where a rank of a communicator is: its address means something in its process alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommunicatorAt<'a> {
    /// Host, as NCCL prints it.
    pub host: &'a str,
    /// Process.
    pub pid: u32,
    /// CUDA device of the thread that called, which need not be the communicator's.
    pub device: Option<u32>,
    /// Its address.
    pub address: &'a str,
}

/// A communicator and the rank in it, from the line of its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// NCCL's commId, hexadecimal; absent before 2.18.
    pub id: Option<String>,
    /// The rank.
    pub rank: u32,
    /// Its CUDA device in its process.
    pub cuda_dev: Option<u32>,
    /// How many communicators the address had before: it is given again after a communicator's end.
    pub before: u32,
}

/// Reads the calls of a log, line by line.
#[derive(Debug, Default)]
pub struct CallReader {
    known: HashMap<(String, u32, String), Known>,
    /// Hosts by process and address: what stands before a line may stick to its host's name.
    hosts: HashMap<(u32, String), Vec<String>>,
    messages: u64,
    torn: u64,
}

impl CallReader {
    /// Passes the calls of one line to `say`. Ranks' lines may be interleaved.
    pub fn line(&mut self, line: &str, mut say: impl FnMut(Call<'_>)) {
        let line = message::plain(line);
        message::messages(&line, |message| {
            self.messages += 1;
            if message.level != Level::Info {
                return;
            }
            let at = Cursor::new(message.text, message.cut);
            if let Some(named) = named(at) {
                self.learn(message.origin, &named);
                return;
            }
            let Some(operation) = operation(message.text) else { return };
            let Some(printed) = read(operation, at) else {
                self.torn += 1;
                return;
            };
            let Origin { host, pid, device } = message.origin;
            let host = self.host(host, pid, printed.address);
            let key = (host.to_owned(), pid, printed.address.to_owned());
            say(Call {
                operation,
                op_count: printed.op_count,
                count: printed.count,
                datatype: printed.datatype,
                op: printed.op,
                root: printed.root,
                nranks: printed.nranks,
                communicator: CommunicatorAt { host, pid, device, address: printed.address },
                known: self.known.get(&key),
            });
        });
    }

    /// Messages of NCCL that were read, whatever they say.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Calls of which another rank's message covers a part.
    pub fn torn(&self) -> u64 {
        self.torn
    }

    /// The host of a communicator that is known, behind figures of a table which end where its line begins: `-1node1`.
    fn host<'a>(&self, said: &'a str, pid: u32, address: &str) -> &'a str {
        let known = self.hosts.get(&(pid, address.to_owned())).into_iter().flatten();
        let mut ends = known.filter_map(|host| {
            said.get(said.len().checked_sub(host.len())?..).filter(|end| end == host)
        });
        ends.next().unwrap_or(said)
    }

    fn learn(&mut self, origin: Origin<'_>, named: &Named<'_>) {
        let Named { rank, cuda_dev, .. } = *named;
        let key = (keep(origin.host), origin.pid, keep(named.address));
        let id = named.id.map(keep);
        let room = self.known.len() < MAX_ADDRESSES;
        match self.known.get_mut(&key) {
            // Its other lines: START and COMPLETE, and the line of 2.20 on that has no id.
            Some(known) if id.is_none() || known.id == id => {
                known.rank = rank;
                known.cuda_dev = cuda_dev.or(known.cuda_dev);
            }
            Some(known) => *known = Known { id, rank, cuda_dev, before: known.before + 1 },
            None if room => {
                self.hosts.entry((key.1, key.2.clone())).or_default().push(key.0.clone());
                self.known.insert(key, Known { id, rank, cuda_dev, before: 0 });
            }
            None => {}
        }
    }
}

struct Printed<'a> {
    op_count: u64,
    count: u64,
    datatype: u32,
    op: u32,
    root: u32,
    address: &'a str,
    nranks: u32,
}

/// The name before `: opCount `.
fn operation(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once(": ")?;
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    (named && rest.starts_with("opCount ")).then_some(name)
}

/// Reads what follows the name. Words between the known ones, as releases may add them, are skipped up to the next known one.
fn read<'a>(operation: &str, mut at: Cursor<'a>) -> Option<Printed<'a>> {
    at.literal(operation)?;
    at.literal(": opCount ")?;
    let op_count = u64::from_str_radix(at.hex()?, 16).ok()?;
    at.until(" count ")?;
    let count = at.number()?;
    let datatype = at.field(" datatype ")?;
    let op = at.field(" op ")?;
    let root = at.field(" root ")?;
    at.literal(" comm ")?;
    let address = at.word()?;
    at.literal(" [nranks=")?;
    let nranks = at.number()?;
    at.literal("]")?;
    Some(Printed { op_count, count, datatype, op, root, address, nranks })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "AllReduce: opCount 1f sendbuff 0x720000000 recvbuff (nil) count 2097152 datatype 7 op 0 root 0 comm 0x5a [nranks=2] stream 0x55";

    /// Operation, launches, count, type, operator, root, ranks, rank and id of each call.
    type Told = (String, u64, u64, u32, u32, u32, u32, Option<(u32, Option<String>)>);

    fn told(lines: &[String]) -> (Vec<Told>, u64) {
        let mut reader = CallReader::default();
        let mut found = Vec::new();
        for line in lines {
            reader.line(line, |call| {
                found.push((
                    call.operation.to_owned(),
                    call.op_count,
                    call.count,
                    call.datatype,
                    call.op,
                    call.root,
                    call.nranks,
                    call.known.map(|known| (known.rank, known.id.clone())),
                ));
            });
        }
        (found, reader.torn())
    }

    #[test]
    fn a_call_with_its_communicator() {
        let start = "mew0:65704:65722 [0] NCCL INFO ncclCommInitRankConfig comm 0x5a rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 17000 commId 0xde84 - Init START";
        let call = format!("mew0:65704:65704 [0] NCCL INFO {CALL}");
        let (found, torn) = told(&[call.clone(), start.to_owned(), call]);
        let expected = |known| ("AllReduce".to_owned(), 31, 2_097_152, 7, 0, 0, 2, known);
        assert_eq!(found, [expected(None), expected(Some((1, Some("0xde84".to_owned()))))]);
        assert_eq!(torn, 0);
    }

    #[test]
    fn an_address_is_another_communicator_after_a_second_start() {
        let start =
            |id| format!("h:1:1 [0] NCCL INFO comm 0x5a rank 0 nranks 2 commId {id} - Init START");
        let mut reader = CallReader::default();
        let mut before = Vec::new();
        for id in ["0x1", "0x1", "0x2"] {
            reader.line(&start(id), |_| {});
            reader.line(&format!("h:1:1 [0] NCCL INFO {CALL}"), |call| {
                before.push(call.known.map(|known| known.before));
            });
        }
        assert_eq!(before, [Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn a_row_of_a_table_may_end_at_the_host() {
        let lines = [
            "mew0:6:6 [0] NCCL INFO comm 0x5a rank 1 nranks 2 cudaDev 0 busId 1 commId 0xde - Init START".to_owned(),
            format!("  8388608  2097152  float  sum  -1mew0:6:6 [0] NCCL INFO {CALL}"),
            format!("  8388608  2097152  float  sum  -1mew1:6:6 [0] NCCL INFO {CALL}"),
        ];
        let (found, _) = told(&lines);
        let known: Vec<_> = found.iter().map(|call| call.7.clone()).collect();
        assert_eq!(known, [Some((1, Some("0xde".to_owned()))), None]);
    }

    #[test]
    fn torn_calls_are_counted() {
        // Two ranks in one line: the first lacks its communicator.
        let line = "s:36:36 [1] NCCL INFO Send: opCount 0 sendbuff (nil) recvbuff 0x7f count 256 datatype 2 s:37:37 [2] NCCL INFO Send: opCount 0 sendbuff (nil) recvbuff 0x7f count 256 datatype 2 op 0 root 3 comm 0x55 [nranks=4] stream 0x1";
        let (found, torn) = told(&[line.to_owned()]);
        assert_eq!((found.len(), torn), (1, 1));
        assert_eq!((found[0].0.as_str(), found[0].5), ("Send", 3));
        for text in [
            "AllReduce: opCount zz sendbuff",
            "AllReduce: opCount 0",
            "AllReduce: opCount 0 count x",
        ] {
            let (found, torn) = told(&[format!("h:1:1 [0] NCCL INFO {text}")]);
            assert_eq!((found.len(), torn), (0, 1), "{text}");
        }
        for text in ["All Reduce: opCount 0", "AllReduce: 1024 Bytes", ": opCount 0"] {
            let (found, torn) = told(&[format!("h:1:1 [0] NCCL INFO {text}")]);
            assert_eq!((found.len(), torn), (0, 0), "{text}");
        }
    }
}
