//! What belongs together: NCCL's lines or its plugin's counts and the table they are about, tables of one size each; and what
//! does not: the communicators of one run.
//! Not the reading (`busbw_logs::import`).

use busbw_logs::measurement::{Measurement, deduce};
use nccl_plugin_abi::net_stats::NetStats;

use super::page::share_topologies;

/// Joins NCCL's lines of a source without a table to the table, where there is only one, and tables of
/// one size each, which a loop over sizes leaves, to one table. Each communicator is a run of its own, and
/// each variant.
pub(super) fn gather(runs: &mut Vec<Measurement>) {
    join_library(runs);
    join_paths(runs);
    let each = runs.drain(..).flat_map(Measurement::communicators);
    *runs = each.flat_map(Measurement::variants).collect();
    join_sizes(runs);
    share_topologies(runs);
}

fn join_library(runs: &mut Vec<Measurement>) {
    let table = |run: &Measurement| !run.rows.is_empty();
    if runs.iter().filter(|run| table(run)).count() != 1 {
        return;
    }
    let silent = |run: &Measurement| {
        run.rows.is_empty() && run.errors.is_empty() && run.failure.cause().is_none()
    };
    let (mut facts, mut incidents) = (Vec::new(), Vec::new());
    for run in runs.iter_mut().filter(|run| silent(run)) {
        facts.append(&mut run.library);
        incidents.append(&mut run.failure.incidents);
    }
    if facts.is_empty() {
        return;
    }
    runs.retain(|run| !silent(run));
    if let Some(run) = runs.iter_mut().find(|run| table(run)) {
        run.library.append(&mut facts);
        run.failure.incidents.append(&mut incidents);
    }
}

/// Joins what the net plugin counted in several processes; adds it to the table where there is only one.
fn join_paths(runs: &mut Vec<Measurement>) {
    let apart = |run: &Measurement| !run.source.form.facts().benchmark && !run.paths.is_empty();
    let (mut counted, mut others): (Vec<Measurement>, Vec<Measurement>) =
        runs.drain(..).partition(apart);
    let processes = counted.len();
    let mut paths: Vec<NetStats> = counted.iter_mut().flat_map(|run| run.paths.drain(..)).collect();
    if let ([run], false) = (others.as_mut_slice(), counted.is_empty()) {
        run.paths.append(&mut paths);
    } else if let Some(mut first) = counted.into_iter().next() {
        if processes > 1 {
            let name = format!("busbw's net plugin in {processes} processes");
            first.test.name = Some(name);
            first.source.name += &format!(" and {} more", processes - 1);
        }
        first.paths = paths;
        others.push(first);
    }
    *runs = others;
}

fn join_sizes(runs: &mut Vec<Measurement>) {
    let mut joined: Vec<Measurement> = Vec::with_capacity(runs.len());
    for run in runs.drain(..) {
        // The communicators of one run stand between tables that follow each other.
        let group = run.group();
        let last = joined.last().is_some_and(|last| last.group().is_some());
        let before = match last {
            true => joined.iter_mut().rfind(|before| before.group() == group),
            false => joined.last_mut(),
        };
        match before {
            Some(before) if goes_on(before, &run) => {
                before.out_of_bounds = match (before.out_of_bounds, run.out_of_bounds) {
                    (Some(a), Some(b)) => Some(a.saturating_add(b)),
                    (one, other) => one.or(other),
                };
                before.stated_average = None;
                before.rows.extend(run.rows);
                before.rows_left_out += run.rows_left_out;
                before.library.extend(run.library);
                before.failure.incidents.extend(run.failure.incidents);
                deduce(before);
            }
            _ => joined.push(run),
        }
    }
    *runs = joined;
}

/// Whether a table of one size follows another of the same test, with a larger size.
fn goes_on(before: &Measurement, next: &Measurement) -> bool {
    let places = |run: &Measurement| -> Vec<(usize, String, String)> {
        let each = run.devices.iter();
        each.map(|one| (one.rank, one.host.clone(), one.address.clone())).collect()
    };
    let ([.., last], [row]) = (before.rows.as_slice(), next.rows.as_slice()) else { return false };
    // What follows from the figures of one size may not follow from those of another.
    fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a == b || a.is_none() || b.is_none()
    }
    row.size > last.size
        && (before.rows.len() == 1 || before.stated_average.is_none())
        && before.source.name == next.source.name
        && before.test.name == next.test.name
        && before.test.figure == next.test.figure
        && same(before.collective(), next.collective())
        && same(before.rank_count(), next.rank_count())
        && before.group() == next.group()
        && before.variant() == next.variant()
        && before.hosts == next.hosts
        && before.copies == next.copies
        && (row.datatype, &row.op, row.root) == (last.datatype, &last.op, last.root)
        && before.errors.is_empty()
        && next.errors.is_empty()
        && before.failure.cause().is_none()
        && next.failure.cause().is_none()
        && places(before) == places(next)
}

#[cfg(test)]
mod tests {
    use busbw_core::record::Figures;
    use busbw_logs::measurement::Row;

    use super::*;

    fn table(sizes: &[u64]) -> Measurement {
        let half = Figures { busbw: Some(1.0), ..Figures::default() };
        let row =
            |size: &u64| Row { size: *size, out_of_place: Some(half.clone()), ..Row::default() };
        Measurement { rows: sizes.iter().map(row).collect(), ..Measurement::default() }
    }

    #[test]
    fn tables_of_one_size_are_one_table() {
        let mut runs = vec![table(&[8]), table(&[16]), table(&[32]), table(&[8]), table(&[8, 16])];
        gather(&mut runs);
        let sizes = |run: &Measurement| run.rows.iter().map(|row| row.size).collect::<Vec<_>>();
        let all: Vec<Vec<u64>> = runs.iter().map(sizes).collect();
        assert_eq!(all, [vec![8, 16, 32], vec![8], vec![8, 16]]);
    }

    #[test]
    fn communicators_are_apart_and_a_loop_over_sizes_joins_each() {
        let split = |size: u64| {
            let mut run = table(&[size, size]);
            run.rows[0].group = Some(0);
            run.rows[1].group = Some(1);
            run
        };
        let mut runs = vec![split(8), split(16)];
        gather(&mut runs);
        let told = |run: &Measurement| (run.group(), run.rows.len());
        assert_eq!(runs.iter().map(told).collect::<Vec<_>>(), [(Some(0), 2), (Some(1), 2)]);
    }

    #[test]
    fn another_test_is_another_table() {
        let mut other = table(&[16]);
        other.test.name = Some("other".to_owned());
        let mut runs = vec![table(&[8]), other];
        gather(&mut runs);
        assert_eq!(runs.len(), 2);
    }
}
