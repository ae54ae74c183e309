//! Defaults and checks of the matrix of pairs: which pairs, how often, and which options mean nothing.
//! Not the schedule (`busbw_core::pairs`).

use busbw_core::{
    alltoallv::Traffic,
    messages::Messages,
    plan::{BackendChoice, LargeMessages, Messaging, PairSelection, Pairing, Step, Style},
    record::Waiver,
};

use super::{
    Asked, BenchArguments,
    messages::not_too_large,
    part::{Loops, Part},
    ranks::Ranks,
    values::{count, sizes},
    waivers::of_options,
};
use crate::options::BadOption;
use crate::options::pairing::{Only, PairingArguments};

/// Sizes where none are given, bytes: of latency, and of bandwidth.
const DEFAULT_SIZES: (u64, u64) = (8, 64 << 20);
/// Round trips of a sample, timed and untimed.
const LATENCY_LOOPS: [u32; 2] = [200, 20];
/// Windows of a sample, timed and untimed, and the messages of each.
const BANDWIDTH_LOOPS: [u32; 3] = [2, 1, 32];
/// With more ranks than this, each is measured with some others only.
const MAX_RANKS_FOR_ALL_PAIRS: usize = 128;
/// With this many others.
const SAMPLED_PEERS: usize = 16;

/// The part of a matrix of pairs.
///
/// # Errors
/// An option that it cannot use.
pub(super) fn part(asked: &Asked<'_>, ranks: &Ranks<'_>) -> Result<Part, BadOption> {
    let a = asked.arguments;
    let (min, max, _) = sizes(a, asked.style != Style::NcclTests, DEFAULT_SIZES)?;
    not_too_large(max)?;
    // By this step there are two sizes, or one.
    let sizes = (min, max, Step::Bytes(max - min));
    let mut part = Part::of_options(asked, ranks, sizes, loops(a)?, Traffic::default())?;
    part.remarks.extend(drawn(a, ranks.count()));
    part.waived.extend(waived(a));
    Ok(Part { pairing: Some(pairing(a, &ranks.backend, ranks.count())?), ..part })
}

/// Which pairs are measured, and by which tests.
fn pairing(
    a: &BenchArguments,
    backend: &BackendChoice,
    ranks: usize,
) -> Result<Pairing, BadOption> {
    let asked = a.pairing.clone().unwrap_or_default();
    if asked.shared && backend.verbs_options().is_none() {
        return Err(BadOption::new(
            "--shared: only over RDMA others' links are looked at and filled (--backend verbs)",
        ));
    }
    if ranks < 2 {
        return Err(BadOption::new("pairs need two ranks at least: use -g 2"));
    }
    for (option, given) in [
        ("--repeat", a.repeat.is_some_and(|launches| launches > 1)),
        ("-N", a.cycles.is_some_and(|cycles| cycles != 1)),
        ("-I", a.per_iteration.is_some_and(|value| value != 0)),
    ] {
        if given {
            return Err(BadOption::new(format!(
                "{option} is not for pairs, which are gone through several times anyway: leave it out"
            )));
        }
    }
    if asked.rails && backend.spec().shares_memory {
        return Err(BadOption::new(format!(
            "--rails pairs ranks of different hosts, and --backend {} is one: leave it out",
            backend.name()
        )));
    }
    let selection = selection(&asked, ranks);
    let tests = match asked.only {
        None => vec![Messages::Latency, Messages::Bandwidth],
        Some(Only::Latency) => vec![Messages::Latency],
        Some(Only::Bw) => vec![Messages::Bandwidth],
    };
    let adapts = a.iterations.is_none() && a.window.is_none();
    Ok(Pairing { selection, tests, adapts, strict: asked.strict })
}

/// Which pairs of so many ranks are measured.
pub(crate) fn selection(asked: &PairingArguments, ranks: usize) -> PairSelection {
    match asked.sample {
        Some(peers) => PairSelection::Sample(peers as usize),
        None if asked.rails => PairSelection::Rails,
        None if ranks > MAX_RANKS_FOR_ALL_PAIRS => PairSelection::Sample(SAMPLED_PEERS),
        None => PairSelection::All,
    }
}

/// The remark that each of so many ranks is measured with some others only, unless the options select the pairs.
fn drawn(a: &BenchArguments, ranks: usize) -> Option<String> {
    let asked = a.pairing.as_ref().is_some_and(|pairing| pairing.rails || pairing.sample.is_some());
    (ranks > MAX_RANKS_FOR_ALL_PAIRS && !asked).then(|| {
        format!(
            "{ranks} ranks are {} pairs: each rank is measured with {SAMPLED_PEERS} others, chosen at random; --sample {ranks} measures all of them",
            ranks * (ranks - 1) / 2
        )
    })
}

/// How many messages a sample is made of.
fn loops(a: &BenchArguments) -> Result<Loops, BadOption> {
    let [round_trips, untimed] = LATENCY_LOOPS;
    let iterations = count("-n", a.iterations, i64::from(round_trips), 1, 1 << 30)? as u32;
    let warmup = count("-w", a.warmup, i64::from(untimed), 0, 1 << 30)? as u32;
    let [windows, untimed, window] = BANDWIDTH_LOOPS;
    let large = LargeMessages {
        above: 0,
        iterations: if a.iterations.is_some() { iterations } else { windows },
        warmup: if a.warmup.is_some() { warmup } else { untimed },
    };
    let window = count("-W", a.window, i64::from(window), 1, 1 << 16)? as u32;
    Ok((iterations, warmup, Messaging { window, large: Some(large), ..Messaging::default() }))
}

/// Options that mean nothing here, beside those of all messages.
fn waived(a: &BenchArguments) -> Vec<Waiver> {
    let passes = "a pair has as many samples as it takes to tell who is slow (docs/pairs.md)";
    let sizes = "there are two sizes: that of latency (-b) and that of bandwidth (-e)";
    let given = |option: &str, given: bool, reason: &str| {
        given.then(|| Waiver { option: option.to_owned(), reason: reason.to_owned() })
    };
    let mut waived = of_options([("-f", a.step_factor, sizes)]);
    waived.extend(
        [
            given("-i", a.step_bytes.is_some(), sizes),
            given("--batches", a.batches.is_some(), passes),
            given("--precision", a.precision.is_some(), passes),
            given("--max-time", a.max_time.is_some(), passes),
            given("--row-time", a.row_time.is_some(), passes),
        ]
        .into_iter()
        .flatten(),
    );
    waived
}
