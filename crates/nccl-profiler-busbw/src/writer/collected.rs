//! Calls that ended, by what they have in common: those since the last lines, and sums of all.
//! Not when a call has ended (`settled`).

use std::collections::{BTreeMap, HashMap};

use busbw_watch_file::{Call, Calls, Class, Line, Totals};

use crate::{
    event::{element_bytes, parts, unpacked},
    memory::flag,
    slots::ClassWords,
};

/// Classes whose sums are kept each. What comes later is summed by communicator and operation.
pub(super) const CLASSES: usize = 4_096;
/// Calls of a line: less than [`busbw_watch_file::LONGEST_LINE`].
const CALLS_OF_A_LINE: usize = 4_096;

/// Sums of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    calls: u64,
    bytes: u64,
    timed: u64,
    duration: u64,
}

impl Sum {
    fn add(&mut self, call: &Call, bytes: u64) {
        self.calls += 1;
        self.bytes += bytes;
        if let Some(duration) = call.duration {
            self.timed += 1;
            self.duration += duration;
        }
    }

    fn line(&self, class: Class, at: u64) -> Line {
        let Sum { calls, bytes, timed, duration } = *self;
        Line::Totals(Totals { class, at, calls, bytes, timed, duration })
    }
}

/// A call's class words without what is only for us: whether events of its kernel are to come.
fn key(mut words: ClassWords) -> ClassWords {
    words[0] &= !((flag::KERNEL | flag::PERHAPS_KERNEL) << 40);
    words
}

/// What words say, with what is known of their communicator.
pub(super) fn class(words: &ClassWords, ranks: u32) -> Class {
    let [head, count, ..] = *words;
    let flags = head >> 40 & 0xff;
    let operation = unpacked(&words[2..4]);
    let datatype = unpacked(&words[4..6]);
    let size = size(words[2], count, &datatype, ranks);
    let other = |which: u64| (flags & which != 0).then_some(head as u32);
    Class {
        communicator: (head >> 48) as u32,
        count,
        size,
        algorithm: unpacked(&words[6..8]),
        protocol: unpacked(&words[8..9]),
        channels: (head >> 32 & 0xff) as u32,
        root: other(flag::ROOT),
        peer: other(flag::PEER),
        operation,
        datatype,
    }
}

/// Bytes of a message as nccl-tests counts them (`size` of its table). 0: not known.
fn size(function: u64, count: u64, datatype: &str, ranks: u32) -> u64 {
    let element = element_bytes(datatype.as_bytes()).unwrap_or(0);
    count.saturating_mul(element).saturating_mul(parts(function, ranks))
}

/// What ended.
#[derive(Debug, Default)]
pub(super) struct Collected {
    fresh: HashMap<ClassWords, Vec<Call>>,
    /// The keys of `fresh`, in the order in which they came.
    order: Vec<ClassWords>,
    count: usize,
    sums: HashMap<ClassWords, (Class, Sum)>,
    /// By communicator and operation, without the rest.
    others: BTreeMap<(u32, String), Sum>,
}

impl Collected {
    /// A call ended.
    pub fn add(&mut self, words: ClassWords, ranks: u32, call: Call) {
        let key = key(words);
        let calls = self.fresh.entry(key).or_insert_with(|| {
            self.order.push(key);
            Vec::new()
        });
        calls.push(call);
        self.count += 1;
        if let Some((class, sum)) = self.sums.get_mut(&key) {
            sum.add(&call, class.size);
            return;
        }
        let class = class(&key, ranks);
        if self.sums.len() < CLASSES {
            let bytes = class.size;
            self.sums.entry(key).or_insert((class, Sum::default())).1.add(&call, bytes);
        } else {
            let Class { communicator, operation, size, .. } = class;
            self.others.entry((communicator, operation)).or_default().add(&call, size);
        }
    }

    /// Calls whose lines are not written yet.
    pub fn fresh(&self) -> usize {
        self.count
    }

    /// Lines of the calls since the last time; `ranks` says those of a communicator.
    pub fn lines(&mut self, ranks: impl Fn(u32) -> u32, mut line: impl FnMut(Line)) {
        for key in self.order.drain(..) {
            let Some(calls) = self.fresh.remove(&key) else { continue };
            let class = class(&key, ranks((key[0] >> 48) as u32));
            for calls in calls.chunks(CALLS_OF_A_LINE) {
                line(Line::Calls(Calls { class: class.clone(), calls: calls.to_vec() }));
            }
        }
        self.count = 0;
    }

    /// Lines of all that was so far.
    pub fn totals(&self, at: u64, mut line: impl FnMut(Line)) {
        let mut sums: Vec<&(Class, Sum)> = self.sums.values().collect();
        sums.sort_by(|one, other| one.0.cmp(&other.0));
        for (class, sum) in sums {
            line(sum.line(class.clone(), at));
        }
        for ((communicator, operation), sum) in &self.others {
            let class = Class {
                communicator: *communicator,
                operation: operation.clone(),
                count: 0,
                datatype: String::new(),
                size: 0,
                algorithm: String::new(),
                protocol: String::new(),
                channels: 0,
                root: None,
                peer: None,
            };
            line(sum.line(class, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::packed;

    fn words(head: u64, count: u64) -> ClassWords {
        let function: [u64; 2] = packed(c"ReduceScatter".as_ptr());
        let datatype: [u64; 2] = packed(c"ncclBfloat16".as_ptr());
        let algorithm: [u64; 2] = packed(c"COLLNET_DIRECT".as_ptr());
        let [protocol]: [u64; 1] = packed(c"SIMPLE".as_ptr());
        let [a, b] = function;
        let [c, d] = datatype;
        let [e, f] = algorithm;
        [head, count, a, b, c, d, e, f, protocol]
    }

    #[test]
    fn words_say_what_a_class_is() {
        let head = 3 << 48 | (flag::PEER | flag::KERNEL) << 40 | 12 << 32 | 5;
        let said = class(&words(head, 100), 4);
        assert_eq!(
            (said.communicator, said.channels, said.peer, said.root),
            (3, 12, Some(5), None)
        );
        assert_eq!(
            (said.operation.as_str(), said.datatype.as_str()),
            ("ReduceScatter", "ncclBfloat16")
        );
        assert_eq!((said.algorithm.as_str(), said.protocol.as_str()), ("COLLNET_DIRECT", "SIMPLE"));
        assert_eq!((said.count, said.size), (100, 800));
        assert_eq!(class(&words(head, 100), 0).size, 0);
    }

    #[test]
    fn sums_are_of_all_calls_however_many_classes_there_are() {
        let mut collected = Collected::default();
        let call = Call { sequence: 0, enqueued: 0, started: Some(1), duration: Some(7) };
        let untimed = Call { started: None, duration: None, ..call };
        let most = CLASSES as u64 + 10;
        for round in 0..2 {
            for count in 1..=most {
                collected.add(words(0, count), 2, if round == 0 { call } else { untimed });
            }
        }
        // The same class, whether its kernel is told of or not.
        collected.add(words(flag::KERNEL << 40, 1), 2, call);
        let mut lines = 0;
        collected.lines(
            |_| 2,
            |line| {
                let Line::Calls(calls) = line else { panic!() };
                lines += calls.calls.len() as u64;
            },
        );
        assert_eq!((lines, collected.fresh()), (2 * most + 1, 0));
        let (mut all, mut others) = (Sum::default(), 0);
        collected.totals(0, |line| {
            let Line::Totals(one) = line else { panic!() };
            others += u64::from(one.class.count == 0) * one.calls;
            all.calls += one.calls;
            all.bytes += one.bytes;
            all.timed += one.timed;
            all.duration += one.duration;
        });
        let bytes = 4 * (most * (most + 1) + 1);
        assert_eq!((all.calls, all.bytes, others), (2 * most + 1, bytes, 20));
        assert_eq!((all.timed, all.duration), (most + 1, 7 * (most + 1)));
    }
}
