//! Sends and receives that one rank makes together: an all-to-all if they go to and come from every rank, else messages.
//! Not a call of the library's own all-to-all (2.28 on), which has its name.

use std::collections::HashSet;

use busbw_core::{Collective, DataType};

use super::{
    call::Operation,
    collected::Collected,
    job::{Kind, Reported, Same},
};

/// The most sends, and the most receives, of a rank that are single messages although they were made together: a stage of a
/// pipeline sends to and receives from the stages before and behind it.
const MAX_MESSAGES: usize = 2;
/// The most sends and receives that are looked at together.
const MAX_PARTS: usize = 1 << 16;

/// A send or a receive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub is_send: bool,
    pub peer: u32,
    pub bytes: u64,
    pub datatype: Option<DataType>,
    pub at_us: Option<f64>,
    pub took_us: Option<f64>,
}

/// Sends and receives of one rank in one communicator that may belong together.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    parts: Vec<Part>,
    ends: HashSet<(bool, u32)>,
}

/// What they were.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// One exchange between all ranks.
    Whole(Kind, Part),
    /// Messages, each for itself.
    Messages(Vec<Part>),
    /// Several messages at once, of which none can be measured for itself.
    Several(u64),
}

impl Exchange {
    /// Whether this one cannot belong to it: it has that end already, or is full.
    pub(super) fn is_closed_to(&self, part: Part) -> bool {
        self.ends.contains(&(part.is_send, part.peer)) || self.parts.len() >= MAX_PARTS
    }

    /// Hands on what was put together: one exchange of all ranks, messages, or what is left out. `is_group`: the source says
    /// that they were made together.
    pub(super) fn hand_on(
        &mut self,
        (rank, ranks): (u32, u32),
        (communicator, reporter): (usize, usize),
        is_group: bool,
        collected: &mut Collected,
    ) {
        let report = |kind: Kind, part: &Part, same: Same| Reported {
            kind,
            communicator,
            reporter,
            rank: Some(rank),
            root: None,
            at_us: part.at_us,
            took_us: part.took_us,
            same,
        };
        match self.close(ranks, is_group) {
            None => {}
            Some(Outcome::Whole(kind, part)) => {
                collected.add(&report(kind, &part, Same::NthExchange));
            }
            Some(Outcome::Several(calls)) => {
                let reason = match is_group {
                    true => "sends and receives of one group, but not to and from every rank",
                    false => {
                        "sends and receives that may belong together, but not to and from every rank"
                    }
                };
                collected.leave_out(reason, calls);
            }
            Some(Outcome::Messages(parts)) => {
                for part in &parts {
                    let kind = Kind {
                        operation: Operation::Message,
                        datatype: part.datatype,
                        bytes: part.bytes,
                        redop: None,
                    };
                    let (from, to) = match part.is_send {
                        true => (rank, part.peer),
                        false => (part.peer, rank),
                    };
                    let (from, to) = (Some(from), Some(to));
                    let same = Same::Message { from, to, is_send: part.is_send };
                    collected.add(&report(kind, part, same));
                }
            }
        }
    }

    pub(super) fn push(&mut self, part: Part) {
        self.ends.insert((part.is_send, part.peer));
        self.parts.push(part);
    }

    /// Whether every one of `ranks` is sent to and received from, the rank itself, too.
    pub(super) fn is_whole(&self, ranks: u32) -> bool {
        let ranks_of = |is_send: bool| {
            let peers = self.parts.iter().filter(|part| part.is_send == is_send);
            peers.filter(|part| part.peer < ranks).count() as u64
        };
        self.parts.len() as u64 == 2 * u64::from(ranks)
            && ranks_of(true) == u64::from(ranks)
            && ranks_of(false) == u64::from(ranks)
    }

    /// Whether every other one of `ranks` is sent to and received from. Of two ranks these are messages.
    fn is_whole_but_itself(&self, ranks: u32) -> bool {
        let others = u64::from(ranks).saturating_sub(1);
        let sent: HashSet<u32> = self.peers(true);
        ranks > 2
            && self.parts.len() as u64 == 2 * others
            && sent.len() as u64 == others
            && sent.iter().all(|peer| *peer < ranks)
            && sent == self.peers(false)
    }

    fn peers(&self, is_send: bool) -> HashSet<u32> {
        let parts = self.parts.iter().filter(|part| part.is_send == is_send);
        parts.map(|part| part.peer).collect()
    }

    /// What they were, and an empty exchange again. `is_group` says that the source itself calls them a group.
    pub(super) fn close(&mut self, ranks: u32, is_group: bool) -> Option<Outcome> {
        let first = *self.parts.first()?;
        let whole = self.is_whole(ranks) || (is_group && self.is_whole_but_itself(ranks));
        let parts = std::mem::take(&mut self.parts);
        self.ends.clear();
        if whole {
            return Some(together(&parts, first, ranks));
        }
        let of = |is_send: bool| parts.iter().filter(|part| part.is_send == is_send).count();
        if of(true) > MAX_MESSAGES || of(false) > MAX_MESSAGES {
            return Some(Outcome::Several(parts.len() as u64));
        }
        Some(Outcome::Messages(parts))
    }
}

/// The exchange that these are.
fn together(parts: &[Part], first: Part, ranks: u32) -> Outcome {
    let sum = |is_send: bool| {
        let parts = parts.iter().filter(|part| part.is_send == is_send);
        parts.fold(0_u64, |sum, part| sum.saturating_add(part.bytes))
    };
    let even = parts.iter().all(|part| part.bytes == first.bytes);
    let kind = match even {
        true => {
            Kind::collective(Collective::AllToAll, first.bytes.saturating_mul(u64::from(ranks)))
        }
        false => Kind::collective(Collective::AllToAllV, sum(true).max(sum(false))),
    };
    let alike = parts.iter().all(|part| part.datatype == first.datatype);
    let datatype = first.datatype.filter(|_| alike);
    let longest = parts.iter().filter_map(|part| part.took_us).reduce(f64::max);
    Outcome::Whole(Kind { datatype, ..kind }, Part { took_us: longest, ..first })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(is_send: bool, peer: u32, bytes: u64) -> Part {
        let datatype = Some(DataType::Int32);
        Part { is_send, peer, bytes, datatype, at_us: None, took_us: None }
    }

    fn closed(parts: &[(bool, u32, u64)], ranks: u32, is_group: bool) -> Option<Outcome> {
        let mut exchange = Exchange::default();
        for (is_send, peer, bytes) in parts {
            let part = part(*is_send, *peer, *bytes);
            assert!(!exchange.is_closed_to(part));
            exchange.push(part);
        }
        let outcome = exchange.close(ranks, is_group);
        assert_eq!(exchange.close(ranks, is_group), None, "it is empty again");
        outcome
    }

    #[test]
    fn to_and_from_every_rank() {
        let all: Vec<_> = (0..4).flat_map(|peer| [(true, peer, 64), (false, peer, 64)]).collect();
        let Some(Outcome::Whole(kind, _)) = closed(&all, 4, false) else { panic!("{all:?}") };
        let even = Kind::collective(Collective::AllToAll, 256);
        assert_eq!(kind, Kind { datatype: Some(DataType::Int32), ..even });
        let uneven: Vec<_> =
            all.iter().map(|(send, peer, bytes)| (*send, *peer, bytes << peer)).collect();
        let Some(Outcome::Whole(kind, _)) = closed(&uneven, 4, false) else { panic!("{uneven:?}") };
        let sum = Kind::collective(Collective::AllToAllV, 64 * 15);
        assert_eq!(kind, Kind { datatype: Some(DataType::Int32), ..sum });
    }

    #[test]
    fn a_group_without_the_rank_itself() {
        let others: Vec<_> =
            (1..4).flat_map(|peer| [(true, peer, 64), (false, peer, 64)]).collect();
        assert!(matches!(closed(&others, 4, true), Some(Outcome::Whole(..))));
        assert_eq!(closed(&others, 4, false), Some(Outcome::Several(6)));
        // With one more it would be a part of an exchange of five.
        assert_eq!(closed(&others, 5, true), Some(Outcome::Several(6)));
    }

    #[test]
    fn a_stage_of_a_pipeline_makes_messages() {
        let parts = [(true, 1, 64), (false, 1, 64)];
        assert!(
            matches!(closed(&parts, 2, true), Some(Outcome::Messages(parts)) if parts.len() == 2)
        );
        let mut exchange = Exchange::default();
        exchange.push(part(true, 1, 64));
        assert!(exchange.is_closed_to(part(true, 1, 64)));
        assert!(!exchange.is_closed_to(part(false, 1, 64)));
    }
}
