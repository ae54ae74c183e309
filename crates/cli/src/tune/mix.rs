//! The benchmarks of a tuning with their sizes, and what each size weighs: alike, or as a job calls them (`--trace`).
//! Not reading the job's calls (`trace_classes`).

use std::{collections::BTreeMap, ffi::OsString};

use anyhow::Result;
use busbw_core::{
    Benchmark,
    exit::{Exit, ExitError},
};
use busbw_logs::trace::Mix;
use busbw_tune::Call;

use crate::{options::TuneArguments, sweep::say, trace_classes};

/// The benchmark where nobody names one.
const USUAL: &str = "all_reduce";
/// The factor between two sizes that stand for a job's.
const FACTOR: u64 = 4;
/// The most of them: every launch measures all.
const MAX_SIZES: usize = 12;

/// Benchmarks with the words of each.
type Benches = Vec<(String, Vec<OsString>)>;
/// What each call weighs.
type Weights = Vec<(Call, f64)>;

/// The benchmarks, and the weight of each call where a trace says it.
///
/// # Errors
/// The trace cannot be read, or has no collective that is tuned for.
pub(super) fn benches(arguments: &TuneArguments) -> Result<(Benches, Option<Weights>)> {
    let words = &arguments.bench;
    if arguments.trace.is_empty() {
        let named = arguments.benchmarks.iter().cloned();
        let mut names: Vec<String> = named.collect();
        if names.is_empty() {
            names.push(USUAL.to_owned());
        }
        return Ok((names.into_iter().map(|name| (name, words.clone())).collect(), None));
    }
    const SIZES: [&str; 8] =
        ["-b", "-e", "-f", "-i", "--minbytes", "--maxbytes", "--stepfactor", "--stepbytes"];
    let is_size = |word: &OsString| {
        let word = word.to_string_lossy();
        SIZES.iter().any(|option| word.starts_with(option))
    };
    if words.iter().any(is_size) {
        let text = "the trace says which sizes are measured: leave out -b, -e, -f and -i";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let trace = trace_classes::read(&arguments.trace)?;
    say(&trace_classes::table(&trace));
    let named: Vec<Benchmark> =
        arguments.benchmarks.iter().filter_map(|name| Benchmark::from_spelling(name)).collect();
    let is_meant = |mix: &Mix| named.is_empty() || named.contains(&mix.collective.into());
    let (mut benches, mut weights) = (Vec::new(), Vec::new());
    for mix in trace.mix().into_iter().filter(is_meant) {
        let Some((first, sizes)) = grid(&mix.sizes) else { continue };
        let name = mix.collective.name();
        let last = sizes.keys().next_back().copied().unwrap_or(first);
        let mut words = words.clone();
        for (option, value) in [("-b", first), ("-e", last), ("-f", FACTOR)] {
            words.extend([OsString::from(option), value.to_string().into()]);
        }
        benches.push((name.to_owned(), words));
        let call = |size: u64| Call { operation: name.to_owned(), size };
        weights.extend(sizes.into_iter().map(|(size, calls)| (call(size), calls)));
    }
    if benches.is_empty() {
        let text = "--trace: the job calls no collective that is tuned for: see its table above";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    Ok((benches, Some(weights)))
}

/// Sizes a factor apart from the first on, each with the calls of those that it is nearest to; those without calls are left out.
fn grid(sizes: &[(u64, f64)]) -> Option<(u64, BTreeMap<u64, f64>)> {
    let most = sizes.iter().map(|(size, _)| *size).max()?;
    // Powers of two suit every type and number of ranks that a row is rounded to.
    let lower = |size: u64| 1_u64 << (63 - size.max(1).leading_zeros());
    let farthest = lower(most);
    let span = FACTOR.pow(MAX_SIZES as u32 - 1);
    let least = sizes.iter().map(|(size, _)| *size).min()?;
    let first = lower(least).max(farthest / span).max(1);
    let mut grid: BTreeMap<u64, f64> = BTreeMap::new();
    for (size, calls) in sizes {
        let steps = (*size as f64 / first as f64).max(1.0).log(FACTOR as f64).round() as u32;
        *grid.entry(first.saturating_mul(FACTOR.saturating_pow(steps))).or_default() += calls;
    }
    Some((first, grid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_for_the_nearest_of_the_grid() {
        let (first, sizes) =
            grid(&[(1000, 2.0), (1100, 3.0), (9000, 1.0), (150_000, 7.0)]).unwrap();
        assert_eq!(first, 512);
        let all: Vec<(u64, f64)> = sizes.into_iter().collect();
        assert_eq!(all, [(512, 2.0), (2048, 3.0), (8192, 1.0), (131_072, 7.0)]);
        assert_eq!(grid(&[]), None);
        // A wide mix has a bounded number of sizes; the smallest count for the first.
        let wide: Vec<(u64, f64)> = (0..40).map(|power| (1 << power, 1.0)).collect();
        let (first, sizes) = grid(&wide).unwrap();
        assert!(sizes.len() <= MAX_SIZES && sizes.keys().next() == Some(&first));
        assert_eq!(sizes.values().sum::<f64>(), 40.0);
    }
}
