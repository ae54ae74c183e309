//! The matrix of a row of a record, with the names of ranks.
//! Not how it was measured.

use std::collections::BTreeSet;

use super::{Half, Row, Run, VerbsFacts};
use crate::{
    pairs::{Pairs, SCHEMA, Samples, Unit, what},
    plan::Memory,
};
use busbw_stats::median;

impl Pairs {
    /// The matrix of a row, if it has one. A figure is the median over all passes, of the first look and
    /// of a retest. `ports` are those of the ranks, where messages went over RDMA.
    pub fn of_row(run: &Run, ports: &[VerbsFacts], row: &Row) -> Option<Pairs> {
        let (pairs, first) = (row.pairs.as_ref()?, row.out_of_place.as_ref()?);
        let unit = Unit::of(pairs.test);
        let mut samples = Samples::new();
        [Some(first), pairs.retest.as_ref()].into_iter().flatten().for_each(|half| {
            add_samples(half, &mut samples);
        });
        let labels = labels(run, ports);
        let mut values = vec![vec![None; labels.len()]; labels.len()];
        for ((from, to), times) in &samples {
            let cell = values.get_mut(*from).and_then(|row| row.get_mut(*to));
            if let (Some(cell), Some(us)) = (cell, median(times)) {
                *cell = Some(unit.figure(row.size, us));
            }
        }
        let pairs = Pairs {
            pairs_schema: SCHEMA,
            what: Some(what(pairs.test).to_owned()),
            started: Some(run.started.clone()),
            command: Some(run.args.join(" ")),
            labels,
            size: row.size,
            unit,
            values,
            verdict: Some(pairs.verdict.clone()),
        };
        pairs.checked().ok()
    }
}

/// Adds every sample of one look.
fn add_samples(half: &Half, samples: &mut Samples) {
    let Some(figures) = &half.messages else { return };
    for pass in &half.batches_us {
        for (pair, us) in figures.pairs.iter().zip(pass) {
            samples.entry((pair.from, pair.to)).or_default().push(*us);
        }
    }
}

/// A name for each rank: its host and device, or RDMA port; where two would have the same, its host and number.
fn labels(run: &Run, ports: &[VerbsFacts]) -> Vec<String> {
    let kind = match run.plan.memory_of(0) {
        Memory::Gpu => "gpu",
        Memory::Host => "core",
    };
    let devices = &run.devices;
    let label = |rank: usize| devices.iter().find(|device| device.rank == rank);
    let named: Vec<Option<String>> = (0..run.plan.ranks())
        .map(|rank| {
            let device = label(rank)?;
            let port = ports.iter().find(|port| port.rank == rank);
            Some(match port {
                Some(port) => format!("{} {}/{}", device.host, port.device, port.port),
                None => format!("{} {kind} {}", device.host, device.device),
            })
        })
        .collect();
    let distinct: BTreeSet<&String> = named.iter().flatten().collect();
    let apart = distinct.len() == named.len();
    named
        .iter()
        .enumerate()
        .map(|(rank, name)| match (name, label(rank)) {
            (Some(name), _) if apart => name.clone(),
            (_, Some(device)) => format!("{} rank {rank}", device.host),
            _ => format!("rank {rank}"),
        })
        .collect()
}
