//! What a matrix of pairs over RDMA loads, said before it begins, and asked for: other jobs share those links.
//! Not whether they are in use just now, and not the schedule (`busbw_core::pairs`).

use std::io::{self, Write};

use anyhow::Result;
use busbw_core::{
    Benchmark,
    environment::SWEPT,
    exit::{Exit, ExitError},
    pairs::{retest::FIRST_PASSES, schedule::Schedule},
    plan::{MovedBy, PairSelection},
    printable::Printable,
};
use busbw_job::launched::Launched;

use crate::{
    consent::{Answer, answer_to},
    options::{self, BenchArguments},
};

/// Seconds of one sample of a pair, as `busbw_runner` keeps it.
const SAMPLE_S: f64 = 0.05;
/// A second look at suspects takes about as long again as the first.
const LOOKS: f64 = 2.0;

/// The ranks of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Hosts.
    pub(crate) hosts: usize,
    /// Ranks of all hosts together.
    pub(crate) ranks: usize,
}

impl Load {
    /// Those of a job that another launcher has started. Where it does not say how many hosts there are, two are the
    /// fewest.
    pub(crate) fn of_launched(launched: &Launched, ranks: usize) -> Load {
        let hosts = match launched.local_size {
            _ if launched.one_host => 1,
            Some(local) => launched.size.div_ceil(local.max(1)),
            None => 2,
        };
        Load { hosts, ranks }
    }

    /// The rounds of a matrix of these pairs, and how many pairs all of them and the fullest have.
    fn rounds(self, selection: PairSelection) -> (usize, usize, usize) {
        let each = self.ranks / self.hosts.max(1);
        let of = |host: usize| (host * each..(host + 1) * each).collect();
        let hosts: Vec<Vec<usize>> = (0..self.hosts).map(of).collect();
        let schedule = match selection {
            PairSelection::All => Schedule::by_hosts(&hosts),
            PairSelection::Rails => Schedule::by_rails(&hosts),
            // Which of them are drawn is of no importance here.
            PairSelection::Sample(peers) => Schedule::sample(self.ranks, peers, 0),
        };
        let fullest = schedule.rounds.iter().map(Vec::len).max().unwrap_or(0);
        (schedule.rounds.len(), schedule.pairs().count(), fullest)
    }

    fn said(self, selection: PairSelection) -> String {
        let (rounds, pairs, at_once) = self.rounds(selection);
        let samples = (rounds * FIRST_PASSES * 2) as f64;
        format!(
            "{pairs} pairs of {} ranks on {} hosts are measured over RDMA, both ways, up to {at_once} at once, for about {:.0} s; their links are full meanwhile, and other jobs on them are slowed",
            self.ranks,
            self.hosts,
            (2.0 * samples * SAMPLE_S * LOOKS).max(1.0)
        )
    }
}

/// Says what a matrix of `load` does to the network, and asks unless `--yes`; other benchmarks, and matrices of one
/// host, are not asked about.
///
/// # Errors
/// The answer is no, or there is nobody to ask.
pub(crate) fn ask(benchmark: Benchmark, arguments: &BenchArguments, load: Load) -> Result<()> {
    let over_rdma = arguments.backend.is_some_and(|b| b.spec().moved_by == MovedBy::Verbs);
    // A launch of another command, which has asked.
    let is_launch = std::env::var_os(SWEPT).is_some();
    if benchmark != Benchmark::Pairs || !over_rdma || load.hosts < 2 || is_launch {
        return Ok(());
    }
    let asked = arguments.pairing.clone().unwrap_or_default();
    let said = load.said(options::pair_selection(&asked, load.ranks));
    if arguments.launching.yes {
        if !arguments.quiet {
            let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {said}");
        }
        return Ok(());
    }
    let refused = |text: String| Err(ExitError::new(Exit::Impossible, text).into());
    match answer_to(&format!("{said}. Measure them?")) {
        Answer::Yes => Ok(()),
        Answer::No => refused("nothing was measured: the answer was no".to_owned()),
        Answer::NobodyThere => {
            refused(format!("nobody is here to ask: {said}; --yes measures them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use busbw_core::plan::{BackendChoice, VerbsOptions};

    use super::*;

    fn arguments(yes: bool) -> BenchArguments {
        let mut arguments = BenchArguments {
            backend: Some(BackendChoice::Verbs(VerbsOptions::default())),
            ..BenchArguments::default()
        };
        arguments.launching.yes = yes;
        arguments.quiet = true;
        arguments
    }

    #[test]
    fn every_pair_is_counted() {
        let load = Load { hosts: 2, ranks: 16 };
        assert_eq!(load.rounds(PairSelection::All), (15, 120, 8));
        assert_eq!(load.rounds(PairSelection::Rails), (1, 8, 8));
        assert_eq!(load.rounds(PairSelection::Sample(3)).1, 24);
        let said = load.said(PairSelection::All);
        assert!(said.starts_with("120 pairs of 16 ranks on 2 hosts"), "{said}");
        assert!(said.contains("up to 8 at once, for about 42 s"), "{said}");
    }

    #[test]
    fn only_a_network_is_asked_about() {
        let (two, one) = (Load { hosts: 2, ranks: 4 }, Load { hosts: 1, ranks: 4 });
        assert!(ask(Benchmark::Pairs, &arguments(true), two).is_ok());
        assert!(ask(Benchmark::Pairs, &arguments(false), one).is_ok());
        let latency = busbw_core::messages::Messages::Latency.into();
        assert!(ask(latency, &arguments(false), two).is_ok());
        let net = BenchArguments { backend: Some(BackendChoice::Net), ..arguments(false) };
        assert!(ask(Benchmark::Pairs, &net, two).is_ok());
        // Where a test has a terminal somebody could answer it.
        if !std::io::IsTerminal::is_terminal(&io::stdin()) {
            let why = ask(Benchmark::Pairs, &arguments(false), two).unwrap_err().to_string();
            assert!(why.contains("--yes measures them"), "{why}");
        }
    }
}
