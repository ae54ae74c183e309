//! A made-up result of a sweep. Examples and tests begin with it.
//! Not a measurement.

use std::collections::BTreeMap;

use busbw_stats::{median, median_interval};

use super::{Cell, Outcome, SCHEMA, Show, SizeRow, Tried, compare_with};

/// Six launches about this time.
pub fn near(centre: f64) -> Vec<f64> {
    [1.0, 1.002, 0.998, 1.001, 0.999, 1.0].map(|factor| factor * centre).to_vec()
}

/// A result of environments A, B and so on with these launches' times at each size, compared with the
/// first.
pub fn outcome(sizes: &[(u64, Vec<Vec<f64>>)]) -> Outcome {
    let count = sizes.first().map_or(0, |(_, columns)| columns.len());
    let tried = |number: usize| Tried {
        name: char::from(b'A' + number as u8).to_string(),
        variables: BTreeMap::new(),
        options: Vec::new(),
        launches: 6,
        records: Vec::new(),
        cut: false,
        failed: None,
        waived: None,
        transport: None,
    };
    let environments = (0..count).map(tried).collect();
    let row = |(size, columns): &(u64, Vec<Vec<f64>>)| {
        let cell = |times: &Vec<f64>| {
            let time_us = median(times)?;
            Some(Cell {
                launches_us: times.clone(),
                time_us,
                interval_us: median_interval(times),
                algbw: *size as f64 / time_us / 1e3,
                busbw: *size as f64 / time_us / 1e3 * 1.75,
                batches: 6,
                iterations: 20,
                cut: false,
                against: None,
                limit: None,
                is_beside: false,
            })
        };
        let mut cells: Vec<Option<Cell>> = columns.iter().map(cell).collect();
        compare_with(Some(0), &mut cells);
        SizeRow { size: *size, case: Vec::new(), cells }
    };
    Outcome {
        sweep_schema: SCHEMA,
        command: "sweep".to_owned(),
        busbw: "0.1.0".to_owned(),
        started: "2026-01-02 03:04:05".to_owned(),
        args: vec!["busbw".to_owned()],
        program: "all_reduce_perf".to_owned(),
        on: "8 ranks on nccl (NVIDIA H200), NCCL 2.28.9, host vm".to_owned(),
        show: Show::Busbw,
        baseline: Some(0),
        launches: 6,
        time_limit_s: Some(120.0),
        took_s: 61.2,
        interrupted: false,
        environments,
        rows: sizes.iter().map(row).collect(),
    }
}
