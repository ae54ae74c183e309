//! Converts a run and its explanation into the data of the page.
//! Not the explanation itself (`busbw-analysis`).

use std::{collections::BTreeSet, path::Path};

use busbw_logs::measurement::{Figure, Measurement, NcclUse, Row};
use busbw_stats::median_interval;

use super::data::{Answer, Fact, Last, Line, LineKind, Run, Series};
use super::{answer, command, summary};
use busbw_analysis::explain::{Ceiling, Explanation, RateKind};
use busbw_core::{
    finding::Finding,
    quantity::{bytes, count, rate, time},
    record::Figures,
};

/// A name for each run, short and different from all others: its file's, or what differs between runs of its test
/// where the file's name is busbw's own or that of several runs.
pub(super) fn names(runs: &[Measurement]) -> Vec<String> {
    if let [only] = runs {
        return vec![only.test_name().to_owned()];
    }
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let of_file = runs.iter().filter(|other| other.source.name == run.source.name).count();
        let stem = stem(&run.source.name);
        let is_id = run.id.as_deref() == Some(stem.as_str());
        let mut name = match of_file > 1 || is_id {
            true => run.test_name().to_owned(),
            false => stem.clone(),
        };
        if of_file > 1 || is_id {
            let mut differs = differs(run, runs);
            let alike = runs.iter().filter(|other| other.test_name() == run.test_name());
            if differs.is_empty() && alike.count() > 1 {
                differs.extend(run.started.clone());
            }
            if !differs.is_empty() {
                name = format!("{name}, {}", differs.join(", "));
            }
            let files = runs.iter().any(|other| other.source.name != run.source.name);
            if of_file > 1 && files && !is_id {
                name = format!("{stem} {name}");
            }
        }
        if let Some(group) = run.group() {
            name = format!("{name} group {group}");
        }
        let same = names.iter().filter(|other| **other == name).count();
        let mut number = same + 1;
        let mut candidate = if same == 0 { name.clone() } else { format!("{name} ({number})") };
        while names.contains(&candidate) {
            number += 1;
            candidate = format!("{name} ({number})");
        }
        names.push(candidate);
    }
    names
}

/// What of a run's settings and machine is not the same in all runs of its test.
pub(super) fn differs(run: &Measurement, runs: &[Measurement]) -> Vec<String> {
    let alike: Vec<&Measurement> =
        runs.iter().filter(|other| other.test_name() == run.test_name()).collect();
    let mut said = Vec::new();
    let names: BTreeSet<&String> = alike.iter().flat_map(|run| run.environment.keys()).collect();
    for name in names {
        if alike.iter().any(|other| other.environment.get(name) != run.environment.get(name)) {
            said.push(match run.environment.get(name) {
                Some(value) => format!("{name}={value}"),
                None => format!("{name} unset"),
            });
        }
    }
    let facts: [fn(&Measurement) -> Option<String>; 6] = [
        |run| Some(count(run.rank_count()? as u64, "rank")),
        |run| Some(count(run.hosts? as u64, "host")),
        |run| Some(run.devices.first()?.name.clone()).filter(|name| !name.is_empty()),
        |run| Some(format!("NCCL {}", run.nccl.as_ref()?)),
        |run| Some(run.rows.first()?.datatype?.name().to_owned()),
        |run| run.options.get("backend").cloned(),
    ];
    for fact in facts {
        let ours = fact(run);
        if alike.iter().any(|other| fact(other) != ours) {
            said.extend(ours);
        }
    }
    said
}

fn stem(source: &str) -> String {
    if source == "-" {
        return "stdin".to_owned();
    }
    let stem = Path::new(source).file_stem();
    stem.map_or_else(|| source.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The data of a run.
pub(super) fn run(
    name: &str,
    run: &Measurement,
    explanation: &Explanation,
    differs: Vec<String>,
    last: Option<Last>,
) -> Run {
    let checked: Vec<u64> = halves(run).filter_map(|half| half.wrong).collect();
    let wrong = (!checked.is_empty()).then(|| checked.iter().sum());
    let failed = run.errors.iter().any(|error| !error.trim().is_empty());
    let line =
        if run.source.line > 1 { format!(", line {}", run.source.line) } else { String::new() };
    Run {
        name: name.to_owned(),
        test: run.test_name().to_owned(),
        source: format!("{}{line}", run.source.name),
        subject: explanation.subject.clone(),
        measured: measured(explanation),
        limit: explanation.limit.as_ref().map(|limit| {
            let by = limit.choice.algorithm.name();
            format!(
                "{} GB/s {}, {by} through {}",
                rate(limit.busbw),
                limit.rate.name(),
                set_by(limit)
            )
        }),
        percent: explanation.percent,
        answer: Answer { last, ..answer::of_run(name, explanation, wrong) },
        differs: differs
            .into_iter()
            .filter(|one| !explanation.subject.contains(one.as_str()))
            .collect(),
        wrong,
        complete: failed.then_some(false),
        sentence: explanation.sentence.clone(),
        findings: explanation
            .findings
            .iter()
            .map(|found| Finding { cause: summary::sentence(&found.cause), ..found.clone() })
            .collect(),
        assumed: explanation.assumed.clone(),
        missing: explanation.missing.clone(),
        unchecked: explanation.unchecked.clone(),
        errors: run.errors.clone(),
        machine: machine(run),
        versions: versions(run),
        environment: facts(run.environment.iter().map(|(n, v)| (n.clone(), v.clone()))),
        devices: run.devices.clone(),
        command: run.command.as_ref().map(|command| command::reproduce(run, command)),
    }
}

fn halves(run: &Measurement) -> impl Iterator<Item = &Figures> {
    run.rows.iter().flat_map(|row| run.halves(row).map(|(_, half)| half))
}

fn measured(explanation: &Explanation) -> Option<String> {
    let measured = explanation.measured.as_ref()?;
    let figure = match (measured.busbw, measured.time_us) {
        (Some(busbw), _) => format!("{} GB/s", rate(busbw)),
        (None, us) => time(us?),
    };
    Some(format!("{figure} at {}", bytes(measured.size)))
}

fn facts(facts: impl IntoIterator<Item = (String, String)>) -> Vec<Fact> {
    facts.into_iter().map(|(name, value)| Fact { name, value }).collect()
}

fn machine(run: &Measurement) -> Vec<Fact> {
    let mut known: Vec<(&str, String)> = Vec::new();
    known.extend(run.started.as_ref().map(|started| ("started", started.clone())));
    if let Some(hosts) = run.hosts {
        known.push(("hosts", hosts.to_string()));
    }
    if let Some(ranks) = run.rank_count() {
        known.push(("ranks", ranks.to_string()));
    }
    let mut devices: Vec<&str> = run.devices.iter().map(|device| device.name.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    devices.retain(|name| !name.is_empty());
    if !devices.is_empty() {
        known.push(("devices", devices.join(", ")));
    }
    if let Some(machine) = &run.machine {
        let cpu = &machine.cpu;
        known.push(("host of rank 0", machine.host.clone()));
        known.push(("processor", cpu.model.clone()));
        known.push((
            "cores, sockets, NUMA nodes",
            format!("{}, {}, {}", cpu.cores.len(), cpu.sockets, cpu.numa_nodes),
        ));
        known.push(("memory", bytes(machine.memory_total)));
        if let Some(limit) = machine.memory_limit {
            known.push(("memory of the control group", bytes(limit)));
        }
        known.push(("GPUs on the PCI bus", machine.gpus.len().to_string()));
        let nics = machine.nics.iter().map(|nic| {
            let speed = nic
                .speed_mbps
                .map_or("speed unknown".to_owned(), |mbps| format!("{} Gb/s", mbps as f64 / 1e3));
            format!("{} ({}, {speed})", nic.name, nic.kind)
        });
        known.push(("network interfaces", nics.collect::<Vec<_>>().join(", ")));
        known.push(("operating system", machine.os.clone()));
        known.push(("kernel", machine.kernel.clone()));
    }
    for (name, said) in [
        ("network of NCCL", keys(run, |facts| facts.networks.keys().cloned().collect())),
        ("interface where ranks met", keys(run, |facts| facts.bootstrap.keys().cloned().collect())),
    ] {
        if !said.is_empty() {
            known.push((name, said.join(", ")));
        }
    }
    known.retain(|(_, value)| !value.is_empty());
    facts(known.into_iter().map(|(name, value)| (name.to_owned(), value)))
}

fn keys(
    run: &Measurement,
    of: impl Fn(&busbw_library_logs::nccl::NcclFacts) -> Vec<String>,
) -> Vec<String> {
    let mut all: Vec<String> = run.library.iter().flat_map(of).collect();
    all.sort();
    all.dedup();
    all
}

fn versions(run: &Measurement) -> Vec<Fact> {
    let form = run.source.form.facts();
    let unknown = || "not stated".to_owned();
    let mut known =
        vec![(form.program.to_owned(), run.source.version.clone().unwrap_or_else(unknown))];
    // A record of ranks on processors has no NCCL; only then its absence is an answer.
    let nccl = match (&run.nccl, form.recorded) {
        (Some(version), _) => version.clone(),
        (None, true) => "not used".to_owned(),
        (None, false) => unknown(),
    };
    if form.library != NcclUse::IfLogged || run.nccl.is_some() {
        known.push(("NCCL".to_owned(), nccl));
    }
    let driver = keys(run, |facts| facts.cuda_driver.keys().cloned().collect());
    if !driver.is_empty() {
        known.push(("CUDA of the driver".to_owned(), driver.join(", ")));
    }
    facts(known)
}

/// The series that charts draw of a run.
pub fn series(name: &str, run: &Measurement, explanation: &Explanation) -> Series {
    let place = |row: &Row, in_place: bool| {
        run.halves(row).find(|(place, _)| *place == in_place).map(|(_, half)| shown(half))
    };
    let rows = run.rows.iter().map(|row| Row {
        out_of_place: place(row, false),
        in_place: place(row, true),
        counters: Vec::new(),
        other_hosts: Vec::new(),
        ..row.clone()
    });
    let rows = rows.filter(|row| row.both().next().is_some()).collect();
    Series {
        name: name.to_owned(),
        test: run.test_name().to_owned(),
        latency: run.test.figure == Figure::Latency,
        rows,
        lines: lines(explanation),
    }
}

/// What a page shows of a half: numbers, and the interval in place of the samples.
fn shown(half: &Figures) -> Figures {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let time_us = finite(half.time_us);
    let interval = median_interval(&half.samples_us);
    Figures {
        time_us,
        algbw: finite(half.algbw),
        busbw: finite(half.busbw),
        samples_us: Vec::new(),
        interval_us: interval.filter(|interval| time_us.is_some_and(|us| interval.contains(us))),
        ..half.clone()
    }
}

/// The resource that sets a limit, by its name on the machine.
fn set_by(limit: &Ceiling) -> &str {
    let part = limit.resources.iter().find(|part| part.resource == limit.set_by);
    part.map_or(limit.set_by.name(), |part| &part.name)
}

fn lines(explanation: &Explanation) -> Vec<Line> {
    let Some(limit) = &explanation.limit else { return Vec::new() };
    let by = format!("{}, {}", limit.choice.algorithm.name(), set_by(limit));
    let framed = limit.rate == RateKind::Payload;
    let mut lines = Vec::new();
    if framed {
        lines.push(Line { kind: LineKind::Payload, by: by.clone(), busbw: limit.busbw });
    }
    lines.push(Line { kind: LineKind::Line, by: by.clone(), busbw: limit.line_busbw });
    if let Some(busbw) = limit.nccl_expects {
        lines.push(Line {
            kind: LineKind::Expected,
            by: limit.choice.algorithm.name().to_owned(),
            busbw,
        });
    }
    lines.retain(|line| line.busbw.is_finite() && line.busbw > 0.0);
    lines
}
