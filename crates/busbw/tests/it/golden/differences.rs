//! Where our output is meant to differ from nccl-tests', one function each: the original's lines
//! become the lines that we must print. The reasons are in docs/differences.md.
//! Not the comparison, which allows nothing.

use super::{
    run::{Backend, Case},
    table::{is_row, lines},
};

/// Columns of a row before its first figure: size, count, type, redop, root.
pub const LEAD: usize = 52;

/// What we must print for a case, and our exit code.
pub fn expected(case: &Case, backend: Backend, suffix: &str) -> (Vec<String>, i32) {
    let mut lines = lines(&case.stdout);
    name_of_the_program(&mut lines, case, suffix);
    graph_is_waived(&mut lines, backend);
    summaries_follow_their_row(&mut lines);
    skipping_is_said_once(&mut lines);
    no_trace_of_a_failure(&mut lines);
    average_that_does_not_exist(&mut lines, case.ranks());
    one_error_instead_of_many(&mut lines, case);
    let failed = lines.iter().any(|line| line.ends_with(" FAILED"));
    (lines, if failed { 7 } else { 0 })
}

/// Not a difference: the original, too, prints the name that it was called by.
fn name_of_the_program(lines: &mut [String], case: &Case, suffix: &str) {
    for line in lines.iter_mut().filter(|line| line.starts_with("# Collective test ")) {
        *line = line.replace(&case.program, &format!("{}{suffix}", case.program));
    }
}

/// There are no CUDA graphs in host memory; the header says what is done.
fn graph_is_waived(lines: &mut [String], backend: Backend) {
    if backend != Backend::Host {
        return;
    }
    for line in lines.iter_mut().filter(|line| line.starts_with("# nThread ")) {
        let (before, after) = line.split_once(" graph: ").unwrap();
        let (_, unalign) = after.split_once(' ').unwrap();
        *line = format!("{before} graph: 0 {unalign}");
    }
}

/// alltoallv's summaries stand inside the row there, in front of each half; ours follow the row, so
/// that a row stays one line.
fn summaries_follow_their_row(lines: &mut Vec<String>) {
    let (mut moved, mut row, mut notes) = (Vec::new(), None::<String>, Vec::new());
    for line in lines.drain(..) {
        let (row_part, note) = match line.split_once("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY") {
            Some((row_part, note)) => {
                (row_part, Some(format!("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY{note}")))
            }
            None => (line.as_str(), None),
        };
        match (&mut row, note) {
            (None, None) => moved.push(line),
            (None, Some(note)) => (row, notes) = (Some(row_part.to_owned()), vec![note]),
            (Some(row), Some(note)) => {
                row.push_str(row_part);
                notes.push(note);
            }
            (Some(_), None) if line.starts_with('#') => notes.push(line),
            (Some(row_so_far), None) => {
                moved.push(format!("{row_so_far}{line}"));
                moved.append(&mut notes);
                row = None;
            }
        }
    }
    *lines = moved;
}

/// hypercube's "skipping" is printed there by every thread; ours once a sweep.
fn skipping_is_said_once(lines: &mut Vec<String>) {
    lines.dedup_by(|a, b| a == b && a.starts_with("nRanks "));
}

/// Their trace of source lines after a failed run (" .. host pid N: Test failure common.cu:1454"):
/// ours ends with the footer and exit code 7.
fn no_trace_of_a_failure(lines: &mut Vec<String>) {
    lines.retain(|line| !(line.starts_with(" .. ") && line.contains(": Test failure ")));
}

/// With one rank no byte crosses a bus, and without a byte moved there is nothing to average: N/A,
/// where theirs is 0 or -nan, or with one rank of sendrecv a figure. Such an average passes no gate,
/// where their -nan passes every one.
fn average_that_does_not_exist(lines: &mut [String], ranks: usize) {
    let meaningful = lines.iter().any(|line| is_row(line) && !line.starts_with("           0 "));
    if ranks > 1 && meaningful {
        return;
    }
    for line in lines.iter_mut().filter(|line| line.starts_with("# Avg bus bandwidth")) {
        let (_, verdict) = line.rsplit_once(' ').unwrap();
        let verdict = if verdict.is_empty() { "" } else { "FAILED" };
        *line = format!("# Avg bus bandwidth    : N/A {verdict}");
    }
}

/// Not a difference: their library was told to make STUB_WRONG errors a check, ours to make one.
/// It stays where their last digit is.
fn one_error_instead_of_many(lines: &mut [String], case: &Case) {
    let Some(theirs) = case.variable("STUB_WRONG") else { return };
    for line in lines.iter_mut().filter(|line| is_row(line)) {
        let (lead, halves) = line.split_at(LEAD);
        let padded = format!("  {theirs:>6}  ");
        let ours = format!("  {:>1$}  ", 1, theirs.len().max(6));
        *line = format!("{lead}{}", format!("{halves}  ").replace(&padded, &ours).trim_end());
    }
}
