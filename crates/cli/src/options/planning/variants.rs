//! The variants of calls: `--algorithm`, `--min-ctas`, `--max-ctas`, and several values of `-x`.
//! Not whether the NCCL that is loaded takes them: the backend knows that.

use busbw_core::{
    Benchmark,
    plan::{ALGORITHMS, AUTO, CONFIGURABLE, MovedBy, Variant},
};
use busbw_lint::nearest::nearest;

use super::{Asked, BadOption, ranks::Ranks};
use crate::options::BenchArguments;

/// The most CTAs of a call (MAXCHANNELS of NCCL's src/include/device.h).
const MAX_CTAS: u32 = 64;
/// The most variants of a run: each has a row for every size.
const MAX_VARIANTS: usize = 64;

/// Every combination of the values that are given; none where no option is.
///
/// # Errors
/// A value is unknown or out of range, a combination contradicts itself, or the benchmark has no such calls.
pub(super) fn of(asked: &Asked<'_>, ranks: &Ranks<'_>) -> Result<Vec<Variant>, BadOption> {
    let a = asked.arguments;
    let policies = policies(a)?;
    let given = [
        a.calls.algorithm.as_ref().map(|_| "--algorithm"),
        a.calls.min_ctas.as_ref().map(|_| "--min-ctas"),
        a.calls.max_ctas.as_ref().map(|_| "--max-ctas"),
        (!policies.is_empty()).then_some("-x with several values"),
    ];
    let Some(option) = given.into_iter().flatten().next() else { return Ok(Vec::new()) };
    usable(option, asked.benchmark, ranks)?;
    let algorithms = values(a.calls.algorithm.as_deref(), algorithm)?;
    if let (Some(name), Some(algorithm)) =
        (asked.environment.choosing.first(), algorithms.iter().flatten().next())
    {
        // Measured with 2.32.3: docs/data/h100x1-per-call.txt. Its log does not say it.
        return Err(BadOption::new(format!(
            "--algorithm {algorithm}: {name} is set, and NCCL then ignores what a call asks for; unset it"
        )));
    }
    let least = values(a.calls.min_ctas.as_deref(), |word| ctas("--min-ctas", word))?;
    let most = values(a.calls.max_ctas.as_deref(), |word| ctas("--max-ctas", word))?;
    let policies = if policies.is_empty() { vec![None] } else { policies };
    let mut variants = Vec::new();
    for algorithm in &algorithms {
        for (&min_ctas, &max_ctas) in
            least.iter().flat_map(|min| most.iter().map(move |max| (min, max)))
        {
            if let (Some(min), Some(max)) = (min_ctas, max_ctas)
                && min > max
            {
                return Err(BadOption::new(format!(
                    "--min-ctas {min} with --max-ctas {max}: the least must not be above the most"
                )));
            }
            let algorithm = algorithm.clone();
            variants.extend(policies.iter().map(|&cta_policy| Variant {
                algorithm: algorithm.clone(),
                min_ctas,
                max_ctas,
                cta_policy,
            }));
        }
    }
    distinct(&variants)?;
    Ok(variants)
}

/// Whether the benchmark has calls that take a configuration.
fn usable(option: &str, benchmark: Benchmark, ranks: &Ranks<'_>) -> Result<(), BadOption> {
    let backend = &ranks.backend;
    if backend.spec().moved_by != MovedBy::Nccl {
        return Err(BadOption::impossible(format!(
            "{option} says what NCCL's calls are given, and the {} backend makes none: use --backend nccl",
            backend.name()
        )));
    }
    if benchmark.collective().is_some_and(|collective| CONFIGURABLE.contains(&collective)) {
        return Ok(());
    }
    let names: Vec<&str> = CONFIGURABLE.iter().map(|collective| collective.name()).collect();
    Err(BadOption::new(format!(
        "{option}: {} is made of sends and receives, which take no configuration; {} do",
        benchmark.name(),
        names.join(", ")
    )))
}

/// The values of a list; one that is left to NCCL where there is none.
fn values<T: Clone>(
    text: Option<&str>,
    read: impl Fn(&str) -> Result<Option<T>, BadOption>,
) -> Result<Vec<Option<T>>, BadOption> {
    match text {
        None => Ok(vec![None]),
        Some(text) => text.split(',').map(|word| read(word.trim())).collect(),
    }
}

/// NCCL's spelling of an algorithm's name; nothing for `auto`.
fn algorithm(word: &str) -> Result<Option<String>, BadOption> {
    if word.eq_ignore_ascii_case(AUTO) {
        return Ok(None);
    }
    let known = ALGORITHMS.iter().find(|name| name.eq_ignore_ascii_case(word));
    if let Some(name) = known {
        return Ok(Some((*name).to_owned()));
    }
    let all = || ALGORITHMS.into_iter().chain([AUTO]);
    let upper = word.to_ascii_uppercase();
    let hint = nearest(&upper, all())
        .map_or(String::new(), |(_, near)| format!(", perhaps {}", near.join(" or ")));
    Err(BadOption::new(format!(
        "--algorithm {word} is none of NCCL's{hint}; its names are {}",
        all().collect::<Vec<_>>().join(", ")
    )))
}

/// A number of CTAs; nothing for `auto`.
fn ctas(option: &str, word: &str) -> Result<Option<u32>, BadOption> {
    if word.eq_ignore_ascii_case(AUTO) {
        return Ok(None);
    }
    match word.parse() {
        Ok(count) if (1..=MAX_CTAS).contains(&count) => Ok(Some(count)),
        _ => Err(BadOption::new(format!(
            "{option} {word}: it must be a number from 1 to {MAX_CTAS}, or {AUTO}"
        ))),
    }
}

/// The policies of calls: those of `-x`, if it has several. A single one is the communicator's.
fn policies(a: &BenchArguments) -> Result<Vec<Option<i32>>, BadOption> {
    let several = a.cta_policy.as_deref().unwrap_or_default();
    if several.len() < 2 {
        return Ok(Vec::new());
    }
    several
        .iter()
        .map(|&policy| match policy {
            -1 => Ok(None),
            0..=2 => Ok(Some(policy as i32)),
            _ => Err(BadOption::new(format!("-x {policy}: it must be between -1 and 2"))),
        })
        .collect()
}

/// Whether every variant is there once, and not too many.
fn distinct(variants: &[Variant]) -> Result<(), BadOption> {
    if variants.len() > MAX_VARIANTS {
        return Err(BadOption::new(format!(
            "{} combinations of algorithms, CTAs and policies: {MAX_VARIANTS} at most are measured in one run",
            variants.len()
        )));
    }
    let again = variants.iter().enumerate().find(|(at, one)| variants[..*at].contains(one));
    match again {
        Some((_, one)) => {
            Err(BadOption::new(format!("{one} is given twice: each variant is one row of a size")))
        }
        None => Ok(()),
    }
}
