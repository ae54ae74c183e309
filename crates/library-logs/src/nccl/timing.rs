//! The time that communicators took to initialise, as NCCL measured it: the slowest rank, part by
//! part.
//! Not how long a collective takes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::keep;

/// The most distinct calls and sizes, and parts of each, that are kept.
const MAX_TIMINGS: usize = 64;

/// The initialisation of communicators of one size by one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InitTime {
    /// The call, such as `ncclCommInitRank`; 2.22 does not print it. `Bootstrap` is the exchange of
    /// addresses alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Size of the communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nranks: Option<u32>,
    /// Messages: one of each rank and communicator.
    pub said: u64,
    /// The slowest rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<u32>,
    /// Its time, seconds.
    pub total_s: f64,
    /// Its parts in seconds, by NCCL's names.
    pub parts_s: BTreeMap<String, f64>,
}

/// The times read so far.
#[derive(Debug, Default)]
pub(super) struct Timings {
    all: BTreeMap<(Option<String>, Option<u32>), InitTime>,
    left_out: u64,
}

impl Timings {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, cursor: Cursor<'_>) -> Option<()> {
        let time = time(cursor)?;
        let key = (time.call.clone(), time.nranks);
        if self.all.len() >= MAX_TIMINGS && !self.all.contains_key(&key) {
            self.left_out += 1;
            return Some(());
        }
        let known = self.all.entry(key).or_insert_with(|| InitTime { said: 0, ..time.clone() });
        let said = known.said + 1;
        if time.total_s > known.total_s {
            *known = time;
        }
        known.said = said;
        Some(())
    }

    /// By call, then size.
    pub(super) fn finish(self, left_out: &mut u64) -> Vec<InitTime> {
        *left_out += self.left_out;
        self.all.into_values().collect()
    }
}

/// `Init timings - ncclCommInitRank: rank 2 nranks 4 total 3.44 (kernels 3.30, …)` (2.23 on), the
/// same with `Init timings: rank` (2.22), and `Bootstrap timings total 0.07 (create 0.00, …)`.
fn time(mut at: Cursor<'_>) -> Option<InitTime> {
    let (mut call, mut slowest, mut nranks) = (None, None, None);
    if at.has("Bootstrap timings") {
        call = Some("Bootstrap".to_owned());
    } else {
        at.literal("Init timings")?;
        if at.has(" - ") {
            call = Some(keep(at.until(":")?));
        } else {
            at.literal(":")?;
        }
        slowest = Some(at.field(" rank ")?);
        nranks = Some(at.field(" nranks ")?);
    }
    at.literal(" total ")?;
    let total_s = at.decimal()?;
    at.literal(" (")?;
    let mut parts_s = BTreeMap::new();
    for _ in 0..MAX_TIMINGS {
        let name = keep(at.until(" ")?);
        parts_s.insert(name, at.decimal()?);
        if at.has(")") {
            at.end()?;
            return Some(InitTime { call, nranks, said: 1, slowest, total_s, parts_s });
        }
        at.literal(", ")?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_is_kept() {
        let mut timings = Timings::default();
        for text in [
            "Init timings - ncclCommInitRank: rank 2 nranks 4 total 3.44 (kernels 3.30, alloc 0.07, rest 0.00)",
            "Init timings - ncclCommInitRank: rank 3 nranks 4 total 3.45 (kernels 3.20, alloc 0.17, rest 0.00)",
            "Init timings - ncclCommInitRank: rank 1 nranks 4 total 0.45 (kernels 0.20, alloc 0.17, rest 0.00)",
            "Init timings: rank 0 nranks 8 total 1.00 (kernels 0.50, bootstrap 0.25, rest 0.25)",
            "Bootstrap timings total 0.071224 (create 0.000053, send 0.000186, recv 0.070395)",
        ] {
            assert!(timings.read(Cursor::new(text, false)).is_some(), "{text}");
        }
        let unfinished = "Init timings - x: rank 1 nranks 4 total 0.45 (kernels 0.20, connectio";
        assert_eq!(timings.read(Cursor::new(unfinished, false)), None);
        let all = timings.finish(&mut 0);
        assert_eq!(all.len(), 3);
        let rank = all
            .iter()
            .find(|t| t.call.as_deref() == Some("ncclCommInitRank"))
            .expect("it is there");
        assert_eq!((rank.said, rank.slowest, rank.total_s), (3, Some(3), 3.45));
        assert_eq!(rank.parts_s["kernels"], 3.2);
    }
}
