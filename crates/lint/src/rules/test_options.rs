//! Options of nccl-tests that are read as something else than meant, and runs that do not compare.
//! It does not know all options; `perf` reads those asked about here.

use std::collections::HashMap;

use busbw_core::finding::{Finding, Place, Severity};

use crate::document::Document;
use crate::perf::Run;

/// A byte step this small was meant as a count.
const SMALL_STEP_BYTES: u64 = 1000;

/// nccl-tests' own default for `-n` and `-e`.
const DEFAULT_ITERATIONS: u64 = 20;
const DEFAULT_LAST_SIZE_BYTES: u64 = 32 << 20;

pub(super) fn check(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: HashMap<&str, &Run> = HashMap::new();
    for run in &document.runs {
        findings.extend(step(run));
        findings.extend(validation(run));
        match first.get(run.program.as_str()) {
            Some(earlier) => findings.extend(unequal(run, earlier)),
            None => {
                first.insert(&run.program, run);
            }
        }
    }
    findings
}

fn step(run: &Run) -> Option<Finding> {
    let value = run.option('i')?;
    let count = run.number('i');
    let multiplies = run.option('f').is_some_and(|factor| factor != "1");
    let small = count.is_some_and(|count| count <= SMALL_STEP_BYTES);
    let cause = match (multiplies, small) {
        (true, _) => "-i is the byte step, ignored with -f",
        (false, true) => "-i is the byte step, and sizes grow by that many bytes",
        (false, false) => return None,
    };
    let remedy = match count {
        Some(count) => format!("for {count} iterations use -n {count}"),
        None => "leave it out".to_owned(),
    };
    Some(option(run, "-i", value, Severity::Warning, cause, remedy))
}

fn validation(run: &Run) -> Option<Finding> {
    let value = run.option('c')?;
    let count = run.number('c')?;
    let cause = "-c is the number of validation iterations, not channels";
    match count {
        0 => None,
        1 => {
            let cause = format!("{cause}, and 1 is the default");
            let remedy =
                "leave it out, and for channels set NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS";
            Some(option(run, "-c", value, Severity::Note, cause, remedy))
        }
        _ => {
            let remedy =
                "use -c 1 to validate once, -n for iterations, NCCL_MIN_NCHANNELS for channels";
            Some(option(run, "-c", value, Severity::Warning, cause, remedy))
        }
    }
}

fn option(
    run: &Run,
    name: &str,
    value: &str,
    severity: Severity,
    cause: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    let place = Place { value: Some(value.to_owned()), ..Place::at(Some(run.line), name) };
    Finding::new("test-option", severity, cause).remedy(remedy).place(place)
}

/// A run cut shorter than another of the same test gives another figure, whatever the fabric.
fn unequal(run: &Run, earlier: &Run) -> Option<Finding> {
    let (last, earlier_last) = (last_size(run)?, last_size(earlier)?);
    let (count, earlier_count) = (iterations(run)?, iterations(earlier)?);
    if (last, count) == (earlier_last, earlier_count) {
        return None;
    }
    let cause = format!(
        "this run ends at {last} bytes with {count} iterations, the one in line {} at {earlier_last} with {earlier_count}",
        earlier.line
    );
    let remedy = "give both the same -e and -n before you compare them";
    let finding = Finding::new("unequal-runs", Severity::Note, cause).remedy(remedy);
    Some(finding.place(Place::at(Some(run.line), &run.program)))
}

fn last_size(run: &Run) -> Option<u64> {
    if run.option('e').is_some() { run.size('e') } else { Some(DEFAULT_LAST_SIZE_BYTES) }
}

fn iterations(run: &Run) -> Option<u64> {
    if run.option('n').is_some() { run.number('n') } else { Some(DEFAULT_ITERATIONS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<Finding> {
        lint_text(text, &Options::default())
    }

    #[test]
    fn i_100_is_not_iterations() {
        let found = found("mpirun -np 16 ./all_reduce_perf -b 8 -e 8G -f 2 -i 100");
        assert_eq!(
            found[0].to_string(),
            "line 1: -i 100: -i is the byte step, ignored with -f; for 100 iterations use -n 100"
        );
    }

    #[test]
    fn a_true_step_is_silent() {
        assert_eq!(found("all_reduce_perf -b 1M -e 64M -i 1048576"), []);
        assert_eq!(found("all_reduce_perf -b 1M -e 64M -i 4M -f 1"), []);
        assert!(
            found("all_reduce_perf -b 1M -e 64M -i 50")[0]
                .remedy
                .as_deref()
                .unwrap()
                .contains("-n 50")
        );
    }

    #[test]
    fn c_is_not_channels() {
        let warned = found("all_reduce_perf -c 100");
        assert_eq!(warned[0].severity, Severity::Warning);
        assert!(
            warned[0].cause.starts_with("-c is the number of validation iterations, not channels")
        );
        assert_eq!(found("all_reduce_perf -c 1")[0].severity, Severity::Note);
        assert_eq!(found("all_reduce_perf -c 0"), []);
    }

    #[test]
    fn runs_cut_differently_do_not_compare() {
        let text = "all_reduce_perf -e 16G\nall_reduce_perf -e 1G -n 10\nbroadcast_perf -e 1M\n";
        let found = found(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line(), found[0].severity), (Some(2), Severity::Note));
        assert!(found[0].cause.contains("1073741824 bytes with 10"), "{}", found[0]);
    }

    #[test]
    fn equal_or_unknown_runs_are_silent() {
        assert_eq!(found("all_reduce_perf -e 1G\nall_reduce_perf -e 1024M -n 20\n"), []);
        assert_eq!(found("N=1\nall_reduce_perf -e 1G\nall_reduce_perf -e 1G -n $N\n"), []);
    }
}
