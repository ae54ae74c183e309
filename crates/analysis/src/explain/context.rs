//! A run with everything that rules read: its measured figure, its machine, its limit.
//! Not the conclusions (`rules`).

use busbw_hardware::{
    limits::{self, Bottleneck, Candidate, Judgement, Rating, Resource},
    machine::is_amd,
};
use busbw_library_logs::nccl::NcclFacts;
use busbw_logs::measurement::{
    Device, Figure, Measurement, Memory, NcclUse, Origin, Peak, Row, ranks_of_another_run,
};
use busbw_stats as stats;
use serde::Serialize;

use super::{
    growth::{Growth, growing},
    hardware::Hardware,
    limit::{self, Ceiling},
    placement::{self, Known, joined_by_nvlink},
    rules,
};
use busbw_core::{finding::Finding, quantity::bytes, record::Figures};

/// The measured figure is the best of the sizes from this fraction (1/8) of the largest size on.
const LARGE_SIZES_DIVISOR: u64 = 8;

/// Up to this size the time is that of starting the operation: the latency floor.
pub(super) const LATENCY_FLOOR_BYTES: u64 = 1024;

/// The figure of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Size of the message, bytes.
    pub size: u64,
    /// Bus bandwidth (the bandwidth of tests that have only one), GB/s: of the best of the largest
    /// sizes, the mean of in place and out of place where both are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busbw: Option<f64>,
    /// The same, Gb/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busbw_gbit: Option<f64>,
    /// Algorithm bandwidth at that size, GB/s; of nccl-tests before mid-2020 as it is counted since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algbw: Option<f64>,
    /// Time at that size, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<f64>,
    /// The best of all sizes, where that is another size: bytes and GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<(u64, f64)>,
}

/// A run, and what is known about it: the input of every rule.
pub(super) struct Context<'a> {
    pub run: &'a Measurement,
    /// All runs that are explained together; some rules compare two of them.
    pub all: &'a [Measurement],
    pub measured: Option<Measured>,
    pub machine: Option<Known>,
    /// What in the machine's file is a mistake.
    pub mistakes: Vec<Finding>,
    pub candidates: Vec<Candidate>,
    pub ceiling: Option<Ceiling>,
    pub judgement: Judgement,
    /// Where the largest size still gains: nothing limits the run then.
    pub growth: Option<Growth>,
    /// The lowest and the highest busbw of a table of settings that this run is of, GB/s.
    pub settings_range: Option<(f64, f64)>,
}

impl<'a> Context<'a> {
    pub(super) fn new(run: &'a Measurement, hardware: &Hardware, all: &'a [Measurement]) -> Self {
        let measured = measured_figure(run);
        let machine = hardware.of(run);
        let candidates = match (&machine, run.collective()) {
            (Some(known), Some(collective)) if run.test.figure == Figure::Bandwidths => {
                let placed = known.placement.as_ref();
                placed.map_or_else(
                    |_| Vec::new(),
                    |placement| limits::candidates(&known.machine, collective, placement),
                )
            }
            _ => Vec::new(),
        };
        let mut context = Context {
            run,
            all,
            measured,
            machine,
            mistakes: hardware.mistakes.clone(),
            candidates,
            ceiling: None,
            judgement: Judgement::unknown(Vec::new()),
            growth: None,
            settings_range: settings_range(run, all),
        };
        (context.ceiling, context.judgement) = limit::of(&context);
        // At a limit the last gain may be large, too: it was the last one. Of messages that only start operations
        // more is known than that they grow.
        let known = matches!(context.judgement.rating, Some(Rating::At | Rating::Above))
            || context.judgement.bottleneck == Bottleneck::Software;
        context.growth = growing(run).filter(|_| !known);
        if context.growth.is_some() {
            let missing = vec!["a size from which on the bandwidth grows no more".to_owned()];
            let percent = context.judgement.percent;
            context.judgement = Judgement { percent, ..Judgement::unknown(missing) };
        }
        if ranks_of_another_run(run).is_some() {
            let missing = vec!["the head that belongs to the rows".to_owned()];
            (context.ceiling, context.judgement) = (None, Judgement::unknown(missing));
        }
        if context.ceiling.is_some() && rules::uses_half_a_port(&context) {
            context.judgement.bottleneck = Bottleneck::SetBy { resource: Resource::Nic };
        }
        if context.machine.as_ref().is_some_and(|known| !known.contradictions.is_empty()) {
            let missing = vec!["the machine that the run was on (--machine, --nodes)".to_owned()];
            context.judgement.bottleneck = Bottleneck::Unknown { missing };
        }
        context
    }

    /// Measured busbw, GB/s.
    pub(super) fn busbw(&self) -> Option<f64> {
        self.measured.as_ref()?.busbw
    }

    /// Whether NCCL (or RCCL) moved the bytes, so that advice may name its variables.
    pub(super) fn by_nccl(&self) -> bool {
        match self.run.source.form.facts().library {
            NcclUse::Always => true,
            NcclUse::ByBackend => !on_processors(self.run) && !by_mpi(self.run),
            NcclUse::IfLogged => !self.run.library.is_empty(),
            NcclUse::Never => false,
        }
    }

    /// The busbw command that repeats this test with `options`; a phrase where busbw has no such test.
    pub(super) fn repeat_command(&self, options: &str) -> String {
        match self.run.collective() {
            Some(collective) => format!("busbw {} {options}", collective.name()),
            None => "the same test several times".to_owned(),
        }
    }

    pub(super) fn facts(&self) -> impl Iterator<Item = &'a NcclFacts> {
        self.run.library.iter()
    }

    /// The test, its ranks, hosts and devices, in a few words.
    pub(super) fn subject(&self) -> String {
        let diagnosed = self.facts().any(|facts| facts.diagnostics.is_some());
        if diagnosed && self.run.rows.is_empty() && self.run.test.name.is_none() {
            return "a log with NCCL's own diagnostics".to_owned();
        }
        let mut words = self.run.test_name().to_owned();
        if self.run.test.collective.is_some_and(|known| known.origin == Origin::Deduced) {
            words.push_str(" (by its columns)");
        }
        if let Some(memory) = self.run.test.memory {
            let place = match memory.value {
                Memory::Host => "host memory",
                Memory::Device => "device memory",
            };
            words.push_str(&format!(", {place}"));
        }
        if let Some(ranks) = self.run.ranks {
            words.push_str(&format!(", {} {}", ranks.value, plural(ranks.value, "rank")));
            if ranks.origin == Origin::Deduced && self.run.test.figure == Figure::Bandwidths {
                words.push_str(" (by its figures)");
            }
        }
        if let Some(hosts) = self.run.hosts {
            words.push_str(&format!(" on {hosts} {}", plural(hosts, "host")));
            if hosts > 1 && joined_by_nvlink(self.run).is_some() {
                words.push_str(" joined by NVLink (MNNVL)");
            }
        }
        if let Some(carried) = placement::carried(self.run) {
            words.push_str(&format!(", {carried}"));
        }
        if let Some(setting) = self.run.page.as_ref().and_then(|page| page.setting.as_ref()) {
            words.push_str(&format!(", {setting}"));
        }
        if let Some(group) = self.run.group() {
            words.push_str(&format!(", group {group}"));
        }
        if let Some(variant) = self.run.variant() {
            words.push_str(&format!(", {variant}"));
        }
        if let Some(name) = self
            .run
            .devices
            .first()
            .map(|device| device.name.as_str())
            .filter(|name| !name.is_empty())
            && self.run.devices.iter().all(|device| device.name == name)
        {
            words.push_str(&format!(", {name}"));
        }
        if let Some(nccl) = &self.run.nccl {
            let amd = self.run.devices.first().is_some_and(|device| is_amd(&device.name));
            words.push_str(&format!(", {} {nccl}", if amd { "RCCL" } else { "NCCL" }));
        }
        words
    }

    pub(super) fn assumed(&self) -> Vec<String> {
        let mut assumed = Vec::new();
        if self.run.group().is_some() && self.ceiling.is_some() {
            let alone = "the other groups, which ran at the same time, did not use its links";
            assumed.push(alone.to_owned());
        }
        if let Some(memory) = self.run.test.memory
            && memory.origin == Origin::FileName
        {
            assumed.push(
                "the buffers' memory (host or device): taken from the file's name".to_owned(),
            );
        }
        if let Some(machine) = &self.machine {
            assumed.extend(machine.assumed.iter().cloned());
        }
        if let Some(ceiling) = &self.ceiling {
            assumed.extend(ceiling.assumed.iter().cloned());
        }
        assumed
    }

    /// Whether a result is held against links that nothing but a sentence's name of the GPU tells of: it may be a board with
    /// fewer, or a card.
    pub(super) fn by_assumed_links(&self) -> bool {
        let unknown = matches!(self.judgement.bottleneck, Bottleneck::Unknown { .. });
        let assumed = self.ceiling.as_ref().is_some_and(|ceiling| !ceiling.assumed.is_empty());
        let stated = self.run.page.as_ref().is_some_and(|page| page.states_machine());
        unknown && assumed && stated && self.run.devices.is_empty()
    }

    pub(super) fn missing(&self) -> Vec<String> {
        match &self.judgement.bottleneck {
            // Statistics of the net plugin have no figure that a limit could apply to.
            Bottleneck::Unknown { missing } if self.run.source.form.facts().benchmark => {
                missing.clone()
            }
            _ => Vec::new(),
        }
    }

    /// Rows of sizes above 0: those that moved bytes.
    pub(super) fn nonempty_rows(&self) -> impl Iterator<Item = &'a Row> {
        self.run.rows.iter().filter(|row| row.size > 0)
    }
}

pub(super) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

/// Whether a record's ranks ran on cores: busbw's `host` backend gives them no PCI address.
pub(super) fn on_processors(run: &Measurement) -> bool {
    let no_address = |device: &Device| device.address == "0000:00:00";
    run.source.form.facts().recorded && run.devices.iter().all(no_address)
}

/// Whether a record's data were moved by MPI.
pub(super) fn by_mpi(run: &Measurement) -> bool {
    run.options.get("backend").is_some_and(|backend| backend == "mpi")
}

/// Times of the sizes up to [`LATENCY_FLOOR_BYTES`], microseconds.
pub(super) fn small_times(run: &Measurement) -> Vec<f64> {
    // Where no byte moves a collective does not even start.
    let starts = |size| size > 0 || run.collective().is_none();
    let small = run.rows.iter().filter(|row| row.size <= LATENCY_FLOOR_BYTES && starts(row.size));
    small.filter_map(|row| row.out_of_place.as_ref()?.time_us).collect()
}

/// The latency floor: the median time of small sizes, microseconds. None with fewer than 3 of them.
pub(super) fn latency_floor_us(run: &Measurement) -> Option<f64> {
    let times = small_times(run);
    let several = times.len() >= 3 && run.test.figure != Figure::PointToPoint;
    stats::median(&times).filter(|_| several)
}

/// The range of the figures of a table of settings: runs of one test, machine and size, one behind the other.
fn settings_range(run: &Measurement, all: &[Measurement]) -> Option<(f64, f64)> {
    let of_table = |one: &Measurement| {
        let page = one.page.as_ref().filter(|page| page.setting.is_some())?;
        Some((one.source.name.clone(), one.collective(), one.rank_count(), page.size, page.nics))
    };
    let ours = of_table(run)?;
    let alike = all.iter().filter(|other| of_table(other).as_ref() == Some(&ours));
    let figures = alike.filter_map(|one| row_speed(one, one.rows.first()?));
    Some(figures.fold((f64::INFINITY, 0.0), |(low, high), one| (one.min(low), one.max(high))))
}

/// The mean busbw (or bandwidth) of a row's valid placements, GB/s. A latency test has none, even where its record computes one.
pub(super) fn row_speed(run: &Measurement, row: &Row) -> Option<f64> {
    if run.test.figure == Figure::Latency {
        return None;
    }
    let speeds: Vec<f64> = run
        .halves(row)
        .filter_map(|(in_place, half)| Peak { row, half, in_place }.figure())
        .filter(|speed| speed.is_finite())
        .collect();
    (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64)
}

/// The mean of a figure over a row's valid placements.
pub(super) fn row_mean(
    run: &Measurement,
    row: &Row,
    of: impl Fn(&Figures) -> Option<f64>,
) -> Option<f64> {
    let values: Vec<f64> = run.halves(row).filter_map(|(_, half)| of(half)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean busbw of a row's valid placements by the columns that say most, GB/s.
fn precise(run: &Measurement, row: &Row) -> Option<f64> {
    let speeds: Vec<f64> =
        run.halves(row).filter_map(|(_, half)| run.figures(row, half).1).collect();
    (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64)
}

fn measured_figure(run: &Measurement) -> Option<Measured> {
    let has_speed = run.test.figure != Figure::Latency;
    let speeds = || {
        run.rows.iter().filter(|_| has_speed).filter_map(|row| Some((row, row_speed(run, row)?)))
    };
    let best = |a: &(&Row, f64), b: &(&Row, f64)| a.1.total_cmp(&b.1);
    let largest = run.rows.iter().map(|row| row.size).max()?;
    let best_large =
        speeds().filter(|(row, _)| row.size >= largest / LARGE_SIZES_DIVISOR).max_by(best);
    let Some((row, speed)) = best_large else {
        // A latency test: the figure is the time of its smallest message.
        let row = run
            .rows
            .iter()
            .filter(|row| row_mean(run, row, |half| half.time_us).is_some())
            .min_by_key(|row| row.size)?;
        let time_us = row_mean(run, row, |half| half.time_us);
        return Some(Measured {
            size: row.size,
            busbw: None,
            busbw_gbit: None,
            algbw: None,
            time_us,
            peak: None,
        });
    };
    let old = run.counted_without_own_share();
    let recounted = old.map_or(1.0, |ranks| ranks as f64 / (ranks - 1) as f64);
    let peak = speeds().max_by(best).filter(|(at, _)| at.size != row.size);
    // Two decimals tell little of a figure below 1; the time beside it has more digits.
    let speed = if speed < 1.0 { precise(run, row).unwrap_or(speed) } else { speed };
    Some(Measured {
        size: row.size,
        busbw: Some(speed),
        busbw_gbit: Some(speed * 8.0),
        algbw: row_mean(run, row, |half| half.algbw).map(|algbw| algbw * recounted),
        time_us: row_mean(run, row, |half| half.time_us),
        peak: peak.map(|(row, speed)| (row.size, speed)),
    })
}

/// ` at 1 MiB` behind a bandwidth; empty where its source does not say the size.
pub(super) fn of_size(size: u64) -> String {
    if size == 0 { String::new() } else { format!(" {}", at(size)) }
}

/// `at 1 MiB`.
pub(super) fn at(size: u64) -> String {
    format!("at {}", bytes(size))
}
