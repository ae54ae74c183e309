//! A run that failed or hung: the cause by its log, what else it says, and what only looks like a failure.
//! Not wrong results (`wrong`), and not which line is the cause (`busbw_library_logs::failure`).

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{bytes, count, list, ranged},
    record::Figures,
};
use busbw_library_logs::failure::{Causality, FailureFacts, Incident, confirm, remedy, sentence};
use busbw_logs::measurement::Measurement;

use super::super::context::Context;

/// Lines of a failure that are shown word for word.
const MAX_LINES_SHOWN: usize = 3;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let run = context.run;
    let failed = match run.failure.cause() {
        Some(cause) => Some(caused(run, cause)),
        None => unexplained(context),
    };
    failed.into_iter().chain(harmless(&run.failure)).collect()
}

/// The incident that caused the others.
fn caused(run: &Measurement, cause: &Incident) -> Finding {
    let sentence = sentence(cause, &run.failure);
    // Whoever reads off a rank's own words is certain; what follows from the behaviour of others is likely.
    let confidence = match cause.kind.causality() {
        Causality::Timeout | Causality::PeerLost | Causality::Network | Causality::Aftermath => {
            Confidence::Likely
        }
        _ => Confidence::Certain,
    };
    let mut finding = Finding::new("failure", Severity::Error, sentence.trim_end_matches('.'))
        .confidence(confidence)
        .evidence(at_place(cause));
    finding.evidence.extend(met_by(run, cause));
    finding.evidence.extend(rows_before(run));
    finding.evidence.extend(followed_by(&run.failure, cause));
    finding.remedy = remedy(cause).map(str::to_owned);
    finding.confirm = confirm(cause).map(str::to_owned);
    finding
}

/// The line, with NCCL's source position where the line does not have it.
fn at_place(cause: &Incident) -> String {
    match &cause.place {
        Some(place) if !cause.text.contains(place.as_str()) => format!("{place}: {}", cause.text),
        _ => cause.text.clone(),
    }
}

/// Who met it: ranks, hosts and how often.
fn met_by(run: &Measurement, cause: &Incident) -> Option<String> {
    let names: Vec<String> = cause.ranks.iter().map(u32::to_string).collect();
    let who = match (names.len(), cause.pids.len()) {
        (0, 0 | 1) => String::new(),
        (0, processes) => format!(" by {processes} ranks, a process each,"),
        (1, _) => format!(" by rank {}", names.concat()),
        (n, _) => {
            let of = run.rank_count().filter(|all| *all >= n);
            let of = of.map_or(String::new(), |all| format!(" of {all}"));
            format!(" by {n}{of} ranks ({})", ranged(&names))
        }
    };
    let hosts: Vec<&String> = cause.hosts.iter().collect();
    let hosts = if hosts.is_empty() { String::new() } else { format!(" on {}", ranged(&hosts)) };
    let often = match cause.count {
        1 => String::new(),
        lines => format!("; {lines} lines say it"),
    };
    let met = format!("met{who}{hosts}").trim_end_matches(',').to_owned();
    (met.len() > 3).then(|| met + &often)
}

/// What was measured before it: those rows are valid.
fn rows_before(run: &Measurement) -> Option<String> {
    // The last row may be cut.
    let measured = |half: &Figures| half.time_us.is_some();
    let whole =
        run.rows.iter().filter(|row| row.out_of_place.iter().chain(&row.in_place).any(measured));
    let sizes: Vec<u64> = whole.map(|row| row.size).collect();
    let (largest, rows) = (sizes.iter().max()?, count(sizes.len() as u64, "row"));
    let verb = if sizes.len() == 1 { "was" } else { "were" };
    Some(format!("{rows} up to {} {verb} measured before", bytes(*largest)))
}

/// What else the log says of failures: it follows from the cause.
fn followed_by(failure: &FailureFacts, cause: &Incident) -> Option<String> {
    let others = failure.incidents.iter();
    let others = others.filter(|one| *one != cause && !one.kind.is_harmless());
    let lines: u64 = others.map(|one| one.count).sum();
    match lines {
        0 => None,
        1 => Some("1 other line of the log follows from it".to_owned()),
        lines => Some(format!("{lines} other lines of the log follow from it")),
    }
}

/// A failure whose cause the log does not tell.
fn unexplained(context: &Context<'_>) -> Option<Finding> {
    let run = context.run;
    let confirm = match (context.by_nccl(), run.errors.is_empty()) {
        (true, false) => "the same command with NCCL_DEBUG=INFO",
        (true, true) => "the same command with NCCL_DEBUG=INFO, and its stderr",
        (false, _) => "the same command, and its stderr",
    };
    let certain = |cause| {
        Finding::new("failure", Severity::Error, cause)
            .confidence(Confidence::Certain)
            .confirm(confirm)
    };
    if run.errors.is_empty() {
        let cut = run.rows.is_empty() && run.library.is_empty() && has_rows(run);
        return cut.then(|| certain("the run has a header and no row: it was cut off, or it hung"));
    }
    let cause = if run.rows.is_empty() {
        "the run failed before its first row"
    } else {
        "the run failed; the rows are those measured before the failure"
    };
    let mut finding = certain(cause).remedy("read the first message: the others follow from it");
    finding.evidence.extend(run.errors.iter().take(MAX_LINES_SHOWN).cloned());
    Some(finding)
}

/// Whether a test prints rows at all: OSU's start-up tests print none, and plugin statistics are no test.
fn has_rows(run: &Measurement) -> bool {
    let name = run.test.name.as_deref().unwrap_or_default();
    let none = ["Hello World", "MPI_Init", "MPI Init"].iter().any(|one| name.contains(one));
    !none && run.source.form.facts().benchmark
}

/// Warnings that healthy runs print too, in one finding.
fn harmless(failure: &FailureFacts) -> Option<Finding> {
    let all = failure.harmless();
    let lines: u64 = all.iter().map(|one| one.count).sum();
    let [first, ..] = all.as_slice() else { return None };
    let cause = match all.as_slice() {
        [only] => format!("a warning without harm, {}", count(only.count, "time")),
        _ => format!("warnings without harm: {}, {} kinds", count(lines, "line"), all.len()),
    };
    let mut finding = Finding::new("harmless-warning", Severity::Note, cause)
        .confidence(Confidence::Likely)
        .evidence(first.text.clone());
    let more: Vec<&str> = all.iter().skip(1).take(2).map(|one| one.text.as_str()).collect();
    if !more.is_empty() {
        finding = finding.evidence(list(&more, "and"));
    }
    Some(finding)
}
