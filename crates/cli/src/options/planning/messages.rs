//! Defaults and checks of tests of messages: how many ranks, how often, and which options mean nothing.
//! Not which ranks exchange messages (`busbw_core::messages`).

use busbw_core::{
    Benchmark,
    alltoallv::Traffic,
    messages::Messages,
    plan::{LargeMessages, Messaging, Style},
    record::Waiver,
};

use super::{
    Asked, BenchArguments,
    part::{Loops, Part},
    ranks::Ranks,
    values::{count, sizes},
    waivers::of_options,
};
use crate::options::BadOption;

/// Sizes where none are given, bytes: OSU's (c/util/osu_util.h: MIN_MESSAGE_SIZE, MAX_MESSAGE_SIZE).
const DEFAULT_SIZES: (u64, u64) = (1, 4 << 20);
/// The largest message.
pub(super) const MAX_MESSAGE_BYTES: u64 = 4 << 30;
/// Beyond so many bytes messages are large, as for OSU (LARGE_MESSAGE_SIZE).
const LARGE_MESSAGE_BYTES: u64 = 8192;

/// Iterations of a batch, timed and untimed, of small messages and of large ones. Less than OSU's,
/// since there are several batches.
const LATENCY_LOOPS: ([u32; 2], [u32; 2]) = ([1000, 100], [100, 10]);
const BANDWIDTH_LOOPS: ([u32; 2], [u32; 2]) = ([20, 2], [5, 1]);

/// Ranks where none are asked for: two, or as many pairs as there are devices.
pub(super) fn default_ranks(test: Messages, there: usize) -> usize {
    if test.is_multiple() { (there / 2 * 2).max(2) } else { 2 }
}

/// The part of a test of messages.
///
/// # Errors
/// An option that it cannot use.
pub(super) fn part(
    asked: &Asked<'_>,
    ranks: &Ranks<'_>,
    test: Messages,
) -> Result<Part, BadOption> {
    let a = asked.arguments;
    let sizes = sizes(a, asked.style != Style::NcclTests, DEFAULT_SIZES)?;
    possible(test, ranks.count(), sizes.1)?;
    Part::of_options(asked, ranks, sizes, loops(test, a)?, Traffic::default())
}

/// How many iterations a batch of messages has, and how they are measured.
fn loops(test: Messages, a: &BenchArguments) -> Result<Loops, BadOption> {
    let ([small, small_warmup], [large, large_warmup]) =
        if test.is_latency() { LATENCY_LOOPS } else { BANDWIDTH_LOOPS };
    let iterations = count("-n", a.iterations, i64::from(small), 1, 1 << 30)? as u32;
    let warmup = count("-w", a.warmup, i64::from(small_warmup), 0, 1 << 30)? as u32;
    // What was asked for holds for all sizes.
    let large = LargeMessages {
        above: LARGE_MESSAGE_BYTES,
        iterations: if a.iterations.is_some() { iterations } else { large },
        warmup: if a.warmup.is_some() { warmup } else { large_warmup },
    };
    let window = count("-W", a.window, i64::from(Messaging::default().window), 1, 1 << 16)? as u32;
    Ok((iterations, warmup, Messaging { window, large: Some(large), ..Messaging::default() }))
}

/// Refuses numbers of ranks and sizes that a test cannot use.
fn possible(test: Messages, ranks: usize, max_bytes: u64) -> Result<(), BadOption> {
    not_too_large(max_bytes)?;
    if test.pairs(ranks).is_some() {
        return Ok(());
    }
    let name = test.name();
    Err(BadOption::new(if test.is_multiple() {
        format!(
            "{name} is between pairs of ranks, and {ranks} is no even number of them: use -g {}",
            (ranks + 1).max(2)
        )
    } else {
        format!(
            "{name} is between two ranks, and there are {ranks}: use -g 2, or two processes of a launcher; for several pairs at once {}",
            if test.is_latency() { "multi_lat" } else { "mbw_mr" }
        )
    }))
}

/// Refuses messages beyond the largest.
pub(super) fn not_too_large(max_bytes: u64) -> Result<(), BadOption> {
    if max_bytes > MAX_MESSAGE_BYTES {
        return Err(BadOption::new(format!(
            "-e {max_bytes}: messages have 4 GiB ({MAX_MESSAGE_BYTES} bytes) at most"
        )));
    }
    Ok(())
}

/// Options of collectives that messages have no use for.
pub(super) fn waived(benchmark: Benchmark, a: &BenchArguments) -> Vec<Waiver> {
    if !benchmark.is_between_pairs() {
        let collectives = "collectives have no windows: their operations follow each other (-n), or are fused (-m)";
        return of_options([("-W", a.window, collectives)]);
    }
    let each = "every iteration of messages is timed alone: their spread stands in the table";
    let text = |option: &str, value: &Option<String>, reason: &str| {
        value
            .as_ref()
            .map(|value| Waiver { option: format!("{option} {value}"), reason: reason.to_owned() })
    };
    let mut waived = of_options([
        ("-m", a.aggregated.filter(|fused| *fused > 1), "messages are in flight together by -W"),
        ("-a", a.average, "the end that begins takes the time; pairs are averaged"),
        ("-z", a.blocking, "every iteration of messages waits for its end"),
        ("-G", a.graph, "an answer ends each iteration: there is no graph to launch"),
        ("-C", a.cpu_time, each),
        ("-I", a.per_iteration, each),
        ("-u", a.unalign, "messages start at aligned addresses"),
    ]);
    if a.latency {
        let (option, reason) = ("--latency".to_owned(), each.to_owned());
        waived.push(Waiver { option, reason });
    }
    waived.extend(text("-o", &a.op, "messages are not reduced"));
    waived.extend(text("-r", &a.root, "messages have no root"));
    waived
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_holds_for_all_sizes() {
        let (iterations, warmup, messaging) =
            loops(Messages::Latency, &BenchArguments::default()).unwrap();
        let large = messaging.large.unwrap();
        assert_eq!((iterations, warmup, large.iterations, large.warmup), (1000, 100, 100, 10));
        let asked = BenchArguments { iterations: Some(7), ..BenchArguments::default() };
        let (iterations, warmup, messaging) = loops(Messages::Bandwidth, &asked).unwrap();
        let large = messaging.large.unwrap();
        assert_eq!((iterations, warmup, large.iterations, large.warmup), (7, 2, 7, 1));
    }

    #[test]
    fn ranks_make_pairs() {
        assert!(possible(Messages::Latency, 2, 8).is_ok());
        let why = possible(Messages::Latency, 8, 8).unwrap_err().to_string();
        assert!(why.contains("there are 8: use -g 2") && why.contains("multi_lat"), "{why}");
        let why = possible(Messages::MultiBandwidth, 5, 8).unwrap_err().to_string();
        assert!(why.contains("use -g 6"), "{why}");
        let why = possible(Messages::Bandwidth, 2, MAX_MESSAGE_BYTES + 1).unwrap_err().to_string();
        assert!(why.contains("4 GiB"), "{why}");
        assert_eq!(default_ranks(Messages::MultiLatency, 7), 6);
        assert_eq!(default_ranks(Messages::MultiLatency, 1), 2);
        assert_eq!(default_ranks(Messages::Bandwidth, 8), 2);
    }
}
