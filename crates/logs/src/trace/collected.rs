//! Brings the reports of all ranks together: each call once, what is left out with its reason, in what ranks disagree.
//! Not how a form is read, and not what the calls add up to (`classes`).

use std::collections::{BTreeMap, HashMap, HashSet};

use busbw_core::{Collective, quantity};

use super::call::{Call, Communicator, LeftOut, Operation, Reporter, Spacing, Trace, TraceSource};
use super::job::{Kind, Reported, Same};

/// The most calls that are kept.
pub(super) const MAX_CALLS: usize = 1 << 20;
/// The most different kinds of calls (operation, type, size, operator) that are kept.
const MAX_KINDS: usize = 1 << 16;
/// The most pairs of a rank and a kind of calls that are counted.
const MAX_COUNTS: usize = 1 << 21;
/// The most communicators that are kept.
const MAX_COMMUNICATORS: usize = 1 << 14;
/// The most ranks whose reports are kept.
const MAX_REPORTERS: usize = 1 << 12;
/// The most different reasons, and sentences about disagreements, that are kept.
const MAX_SENTENCES: usize = 64;
/// Characters of a reason, and of a name in a sentence: both may quote the file.
const MAX_REASON_CHARS: usize = 120;
const MAX_NAME_CHARS: usize = 40;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Collected {
    communicators: Vec<Communicator>,
    communicator_at: HashMap<Communicator, usize>,
    reporters: Vec<Clocked>,
    reporter_at: HashMap<String, usize>,
    members: HashSet<(usize, usize)>,
    calls: Vec<Call>,
    call_at: HashMap<Key, usize>,
    kinds: HashSet<Kind>,
    /// How many calls of a kind a rank reported in a communicator.
    counts: HashMap<(usize, usize, Nth), u32>,
    left_out: BTreeMap<String, u64>,
    disagreements: Vec<String>,
    more_disagreements: u64,
}

#[derive(Debug)]
struct Clocked {
    name: String,
    calls: u64,
    first_us: Option<f64>,
    last_us: Option<f64>,
}

/// What is counted for the n-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Nth {
    Call(Kind, Option<u32>),
    Exchange,
    Message(Kind, Option<u32>, Option<u32>, bool),
}

impl Nth {
    fn name(self) -> String {
        match self {
            Nth::Call(kind, None) | Nth::Message(kind, ..) => describe(kind),
            Nth::Call(kind, Some(root)) => format!("{} with root {root}", describe(kind)),
            Nth::Exchange => "exchanges of sends and receives".to_owned(),
        }
    }
}

/// A call among those of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    communicator: usize,
    which: Which,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Number(Option<Collective>, u64, u32),
    Nth(Nth, u32),
    /// A message of a rank whose number is not known is its own.
    Message(Kind, Option<u32>, Option<u32>, Option<usize>, u32),
    Row(Kind, Option<u32>),
}

impl Collected {
    /// The index of a communicator; `None` beyond those that are kept.
    pub(super) fn communicator(&mut self, id: &str, ranks: u32) -> Option<usize> {
        self.communicator_of(id, ranks, Spacing::Unknown)
    }

    /// The same, where the source says which ranks it has.
    pub(super) fn communicator_of(
        &mut self,
        id: &str,
        ranks: u32,
        spacing: Spacing,
    ) -> Option<usize> {
        let one = Communicator { id: id.to_owned(), ranks, spacing };
        if let Some(&at) = self.communicator_at.get(&one) {
            return Some(at);
        }
        if self.communicators.len() >= MAX_COMMUNICATORS {
            self.leave_out("beyond the communicators that are kept", 1);
            return None;
        }
        self.communicators.push(one.clone());
        self.communicator_at.insert(one, self.communicators.len() - 1);
        Some(self.communicators.len() - 1)
    }

    /// The index of a rank that reports; `None` beyond those that are kept.
    pub(super) fn reporter(&mut self, name: &str) -> Option<usize> {
        if let Some(&at) = self.reporter_at.get(name) {
            return Some(at);
        }
        if self.reporters.len() >= MAX_REPORTERS {
            self.leave_out("beyond the ranks that are kept", 1);
            return None;
        }
        let name = name.to_owned();
        self.reporters.push(Clocked {
            name: name.clone(),
            calls: 0,
            first_us: None,
            last_us: None,
        });
        self.reporter_at.insert(name, self.reporters.len() - 1);
        Some(self.reporters.len() - 1)
    }

    /// Counts calls that are left out.
    pub(super) fn leave_out(&mut self, reason: &str, count: u64) {
        if count == 0 {
            return;
        }
        let reason = shortened(reason, MAX_REASON_CHARS);
        let room = self.left_out.len() < MAX_SENTENCES;
        let reason =
            if room || self.left_out.contains_key(reason) { reason } else { "other reasons" };
        *self.left_out.entry(reason.to_owned()).or_default() += count;
    }

    /// Takes a rank's report of a call.
    pub(super) fn add(&mut self, reported: &Reported) {
        if reported.kind.bytes == 0 {
            self.leave_out("calls that move no bytes", 1);
            return;
        }
        if self.counts.len() >= MAX_COUNTS {
            self.leave_out("beyond the ranks and kinds of calls that are kept", 1);
            return;
        }
        let (at_us, gap_us) = self.clock(reported.reporter, reported.at_us);
        let key = self.key(reported);
        self.members.insert((reported.communicator, reported.reporter));
        if let Some(&at) = self.call_at.get(&key) {
            self.meet(at, reported);
            return;
        }
        if self.calls.len() >= MAX_CALLS {
            self.leave_out("beyond the first 1,048,576 calls", 1);
            return;
        }
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains(&reported.kind) {
            self.leave_out("beyond the first 65,536 kinds of calls", 1);
            return;
        }
        self.kinds.insert(reported.kind);
        self.call_at.insert(key, self.calls.len());
        let Kind { operation, datatype, bytes, redop } = reported.kind;
        self.calls.push(Call {
            operation,
            datatype,
            bytes,
            communicator: reported.communicator,
            root: reported.root,
            redop,
            at_us,
            gap_us,
            took_us: reported.took_us,
            rank: reported.rank,
            reporter: reported.reporter,
            other_end: None,
        });
    }

    /// The time of a report after its reporter's first, and since the one before it.
    fn clock(&mut self, reporter: usize, at_us: Option<f64>) -> (Option<f64>, Option<f64>) {
        let Some(clock) = self.reporters.get_mut(reporter) else { return (None, None) };
        clock.calls += 1;
        let Some(now) = at_us.filter(|at| at.is_finite()) else { return (None, None) };
        let first = *clock.first_us.get_or_insert(now);
        let before = clock.last_us.replace(now);
        // A file is in the order in which calls were recorded; a clock that was set back gives no gap.
        (Some(now - first), before.map(|before| now - before).filter(|gap| *gap >= 0.0))
    }

    fn key(&mut self, reported: &Reported) -> Key {
        let Reported { communicator, reporter, kind, root, .. } = *reported;
        let mut count = |what: Nth| {
            let counted = self.counts.entry((communicator, reporter, what)).or_default();
            *counted += 1;
            *counted
        };
        let which = match reported.same {
            Same::Number { lane, number, part } => Which::Number(lane, number, part),
            Same::Nth => {
                let nth = Nth::Call(kind, root);
                Which::Nth(nth, count(nth))
            }
            Same::NthExchange => Which::Nth(Nth::Exchange, count(Nth::Exchange)),
            Same::Message { from, to, is_send } => {
                let alone = (from.is_none() || to.is_none()).then_some(reporter);
                let n = count(Nth::Message(kind, from, to, is_send));
                Which::Message(kind, from, to, alone, n)
            }
            Same::Row => Which::Row(kind, root),
        };
        Key { communicator, which }
    }

    /// Another report of a call.
    fn meet(&mut self, at: usize, reported: &Reported) {
        let Some(call) = self.calls.get_mut(at) else { return };
        let shorter = |known: f64| reported.took_us.map_or(known, |took| took.min(known));
        call.took_us = call.took_us.map(shorter).or(reported.took_us);
        if call.operation == Operation::Message {
            let other = Some(reported.reporter).filter(|other| *other != call.reporter);
            call.other_end = call.other_end.or(other);
        }
        let before = Kind {
            operation: call.operation,
            datatype: call.datatype,
            bytes: call.bytes,
            redop: call.redop,
        };
        let uneven = Operation::Collective(Collective::AllToAllV);
        if before == reported.kind {
            return;
        }
        if before.is_exchange()
            && reported.kind.is_exchange()
            && (before.operation == uneven || reported.kind.operation == uneven)
        {
            // Each rank knows its own part: the busiest one's counts.
            call.operation = uneven;
            call.bytes = before.bytes.max(reported.kind.bytes);
            return;
        }
        let who = [call.reporter, reported.reporter].map(|one| self.name(one));
        let told = [before, reported.kind].map(describe);
        let id = self.id(reported.communicator);
        let number = match reported.same {
            Same::Number { number, .. } => format!(", call {number}"),
            _ => String::new(),
        };
        let sentence = format!(
            "communicator {id}{number}: {} says {}, {} says {}",
            who[0], told[0], who[1], told[1]
        );
        self.disagree(sentence);
    }

    fn name(&self, reporter: usize) -> &str {
        let name = self.reporters.get(reporter).map_or("", |one| one.name.as_str());
        shortened(name, MAX_NAME_CHARS)
    }

    fn id(&self, communicator: usize) -> &str {
        let id = self.communicators.get(communicator).map_or("", |one| one.id.as_str());
        shortened(id, MAX_NAME_CHARS)
    }

    fn disagree(&mut self, sentence: String) {
        if self.disagreements.len() < MAX_SENTENCES {
            self.disagreements.push(sentence);
        } else {
            self.more_disagreements += 1;
        }
    }

    /// Ranks of a communicator that made fewer calls of a kind than others of it.
    fn compare_counts(&mut self, members: &[Vec<usize>]) {
        let mut of: HashMap<(usize, Nth), HashMap<usize, u32>> = HashMap::new();
        for ((communicator, reporter, nth), count) in &self.counts {
            // A rank that sends need not receive.
            if !matches!(nth, Nth::Message(..)) {
                of.entry((*communicator, *nth)).or_default().insert(*reporter, *count);
            }
        }
        let mut sentences = Vec::new();
        for ((communicator, nth), counts) in &of {
            let most = counts.values().copied().max().unwrap_or_default();
            let members = members.get(*communicator).into_iter().flatten();
            let count = |rank: &usize| counts.get(rank).copied().unwrap_or_default();
            let mut fewer = members.filter(|rank| count(rank) < most);
            let Some(first) = fewer.next() else { continue };
            let others = match fewer.count() {
                0 => String::new(),
                others => {
                    format!(", and {} fewer, too", quantity::count(others as u64, "other rank"))
                }
            };
            sentences.push(format!(
                "communicator {}, {}: {} made {} calls where others made {most}{others}",
                self.id(*communicator),
                nth.name(),
                self.name(*first),
                count(first),
            ));
        }
        // A hash table has no order of its own.
        sentences.sort_unstable();
        sentences.into_iter().for_each(|sentence| self.disagree(sentence));
    }

    /// The trace.
    pub(super) fn finish(mut self, source: TraceSource) -> Trace {
        let mut members = vec![Vec::new(); self.communicators.len()];
        for &(communicator, reporter) in &self.members {
            if let Some(members) = members.get_mut(communicator) {
                members.push(reporter);
            }
        }
        members.iter_mut().for_each(|one| one.sort_unstable());
        self.compare_counts(&members);
        let reporter = |one: Clocked| Reporter { name: one.name, calls: one.calls };
        let left_out = self.left_out.into_iter().map(|(reason, count)| LeftOut { reason, count });
        Trace {
            source,
            calls: self.calls,
            communicators: self.communicators,
            ranks: self.reporters.into_iter().map(reporter).collect(),
            left_out: left_out.collect(),
            disagreements: self.disagreements,
            more_disagreements: self.more_disagreements,
            members,
        }
    }
}

/// The beginning of a text.
fn shortened(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// `all_reduce of 4 MiB float (sum)`.
fn describe(kind: Kind) -> String {
    let datatype = kind.datatype.map_or(String::new(), |one| format!(" {}", one.name()));
    let redop = kind.redop.map_or(String::new(), |one| format!(" ({})", one.name()));
    format!("{} of {}{datatype}{redop}", kind.operation, quantity::bytes(kind.bytes))
}
