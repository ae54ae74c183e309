//! The tuner of one communicator: what it chooses, written where NCCL looks.
//! Not NCCL's pointers (`exported`), and not which entry is for a call (`busbw_tuner_file::Choices`).

use std::{ffi::c_int, path::Path};

use busbw_tuner_file::{Algorithm, Choices, Collective, Entry, Protocol};
use nccl_plugin_abi::tuner::FORCED;

use crate::{
    before::{Before, Refusal},
    names::VARIABLE,
    setting::{Failure, Setting},
};

/// What a communicator's tuner has.
#[derive(Debug)]
pub struct Tuner {
    choices: Choices,
    before: Option<Before>,
}

impl Tuner {
    /// A tuner for a communicator, with a line about it for the log; `open` loads the tuner before this one.
    ///
    /// # Errors
    /// The other tuner cannot be asked.
    pub fn new(
        setting: &Setting,
        ranks: usize,
        nodes: usize,
        open: impl FnOnce(&Path) -> Result<Before, Refusal>,
    ) -> Result<(Self, String), Failure> {
        let before = setting.before.as_deref().map(open).transpose()?;
        let choices = match &setting.file {
            Some((_, file)) => Choices::new(file, ranks as u64, nodes as u64),
            None => Choices::default(),
        };
        let count =
            |number: usize, one| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
        let mut said = match &setting.file {
            None => format!("{} is not set: this tuner chooses nothing", VARIABLE),
            Some((reference, file)) => format!(
                "{} of {} entries of {reference} are for this communicator of {} on {}",
                choices.len(),
                file.entries.len(),
                count(ranks, "rank"),
                count(nodes, "node")
            ),
        };
        if let Some(file) = &setting.before {
            said.push_str(&format!("; elsewhere {} is asked", file.display()));
        }
        Ok((Self { choices, before }, said))
    }

    /// The entry for a call, by what all ranks know alike.
    #[must_use]
    pub fn choice(&self, function: c_int, bytes: usize, pipe_ops: c_int) -> Option<&Entry> {
        let collective = Collective::numbered(function)?;
        self.choices.choose(collective, bytes as u64, u32::try_from(pipe_ops).unwrap_or(0))
    }

    /// The tuner that is asked where there is no entry.
    #[must_use]
    pub fn before(&self) -> Option<&Before> {
        self.before.as_ref()
    }
}

/// Makes NCCL take the entry's pair, with its channels. Where NCCL cannot run the pair, so that its cost is negative,
/// and where the table has no such place, all stays as it is, channels too: forcing LL128 where it is unsafe corrupts
/// data silently.
pub fn choose_by_costs(
    entry: &Entry,
    costs: &mut [f32],
    protocols: usize,
    channels: Option<&mut c_int>,
) {
    if force(costs, protocols, (entry.algorithm.number(), entry.protocol.number())) {
        choose_channels(entry, channels);
    }
}

/// The same for a pair, an algorithm and a protocol by NCCL's numbers. Whether NCCL can run it.
pub fn force(costs: &mut [f32], protocols: usize, (algorithm, protocol): (usize, usize)) -> bool {
    let cost = match protocol < protocols {
        true => costs.get_mut(algorithm * protocols + protocol),
        false => None,
    };
    let can = cost.filter(|cost| **cost >= 0.0);
    can.map(|cost| *cost = FORCED).is_some()
}

/// The same without a table of costs (v2, NCCL 2.21): only what every machine can run, Ring and Tree with LL and Simple.
pub fn choose_directly(
    entry: &Entry,
    algorithm: Option<&mut c_int>,
    protocol: Option<&mut c_int>,
    channels: Option<&mut c_int>,
) {
    let everywhere = matches!(entry.algorithm, Algorithm::Ring | Algorithm::Tree)
        && matches!(entry.protocol, Protocol::Ll | Protocol::Simple);
    if let (true, Some(algorithm), Some(protocol)) = (everywhere, algorithm, protocol) {
        *algorithm = entry.algorithm.number() as c_int;
        *protocol = entry.protocol.number() as c_int;
        choose_channels(entry, channels);
    }
}

fn choose_channels(entry: &Entry, channels: Option<&mut c_int>) {
    if let (Some(count), Some(channels)) = (entry.channels, channels) {
        *channels = c_int::from(count);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use busbw_tuner_file::TunerFile;

    fn entry(line: &str) -> Entry {
        TunerFile::parse(line.as_bytes()).unwrap().entries[0]
    }

    #[test]
    fn a_pair_that_nccl_cannot_run_changes_nothing() {
        let ring_ll128 = entry("allreduce,0,9,ring,ll128,4,-1,-1");
        let before = [-1.0, 3.0, 2.0, 7.0, -1.0, 5.0];
        let (mut costs, mut channels) = (before, 0);
        choose_by_costs(&ring_ll128, &mut costs, 3, Some(&mut channels));
        assert_eq!((costs, channels), (before, 0));
        // Not a number is no cost either, and a smaller table has no such place.
        costs[4] = f32::NAN;
        choose_by_costs(&ring_ll128, &mut costs, 3, Some(&mut channels));
        choose_by_costs(&ring_ll128, &mut costs[..4], 3, Some(&mut channels));
        choose_by_costs(&ring_ll128, &mut costs, 1, Some(&mut channels));
        assert!(costs[4].is_nan() && channels == 0);
        costs[4] = 8.0;
        choose_by_costs(&ring_ll128, &mut costs, 3, Some(&mut channels));
        assert_eq!((costs, channels), ([-1.0, 3.0, 2.0, 7.0, 0.0, 5.0], 4));
    }

    #[test]
    fn without_costs_only_what_every_machine_runs() {
        for (line, chosen) in [
            ("allreduce,0,9,tree,ll,4,-1,-1", (0, 0, 4)),
            ("allreduce,0,9,ring,simple,0,-1,-1", (1, 2, 9)),
            ("allreduce,0,9,ring,ll128,4,-1,-1", (-1, -1, 9)),
            ("allreduce,0,9,nvls,simple,-1,-1,-1", (-1, -1, 9)),
        ] {
            let (mut algorithm, mut protocol, mut channels) = (-1, -1, 9);
            choose_directly(
                &entry(line),
                Some(&mut algorithm),
                Some(&mut protocol),
                Some(&mut channels),
            );
            assert_eq!((algorithm, protocol, channels), chosen, "{line}");
        }
    }
}
