//! A measurement from busbw's own record.
//! Not the record's reading (`busbw-store`).

use super::{
    Device, Figure, Form, Known, Measurement, Memory, Row, Source, Test, first_group, hosts_of,
    plan,
};
use busbw_core::{
    Benchmark,
    pairs::Pairs,
    plan::{BackendChoice, BufferMemory, Style},
    record::{self, Figures, Folded},
    shell,
};
use busbw_library_logs::failure::FailureFacts;

impl Measurement {
    /// The rows that stand in the table of a record's run, and what the record knows about it.
    pub fn from_record(record: Folded, name: &str) -> Measurement {
        let unsettled = record.unsettled();
        let shown = record.rows.iter().filter(|row| row.shown);
        let pairs =
            shown.filter_map(|row| Pairs::of_row(&record.run, &record.verbs, row)).collect();
        let Folded { run, library, mpi, net: _, paths, verbs, rows, end } = record;
        let devices: Vec<Device> = run.devices.into_iter().map(Device::from).collect();
        let first = first_group(&devices);
        let ranks = rows.first().map(|row| row.ranks).or(Some(first.len()));
        let hosts = hosts_of(first);
        let benchmark = run.plan.benchmark;
        // Of a replay all calls together: its classes are of several collectives, and sizes alone do not tell them apart.
        let is_replay = benchmark == Benchmark::Replay;
        let counts = |row: &record::Row| !is_replay || row.benchmark == benchmark;
        let [_, version] = run.nccl;
        let mut measurement = Measurement {
            source: Source {
                name: name.to_owned(),
                line: 1,
                form: Form::Record,
                version: Some(run.busbw),
            },
            test: Test {
                name: Some(benchmark.name().to_owned()),
                collective: benchmark.collective().map(Known::stated),
                figure: match benchmark {
                    // Their tables have no bandwidth.
                    Benchmark::Collective(_)
                        if run.plan.latency || run.plan.style == Style::Osu =>
                    {
                        Figure::Latency
                    }
                    Benchmark::Collective(_) => Figure::Bandwidths,
                    Benchmark::Messages(test) => test.into(),
                    Benchmark::Pairs => Figure::PointToPoint,
                    Benchmark::Replay => Figure::Latency,
                },
                memory: memory(&run.plan.backend, run.plan.buffers),
            },
            ranks: ranks.map(Known::stated),
            hosts,
            devices,
            nccl: (version > 0).then(|| version_text(version)),
            id: Some(run.id),
            started: Some(run.started),
            command: Some(shell::line(run.args.iter().map(String::as_str))),
            options: plan::options(&run.plan),
            environment: run.environment,
            machine: Some(run.machine),
            page: None,
            rows: rows.into_iter().filter(|row| row.shown && counts(row)).map(Row::from).collect(),
            rows_left_out: 0,
            pairs,
            out_of_bounds: end.as_ref().map(|end| end.out_of_bounds),
            // A record's average leaves halves out that mean nothing; it is no claim to check.
            stated_average: None,
            announced: None,
            copies: 1,
            failure: FailureFacts::default(),
            errors: match end {
                Some(end) => end.message.into_iter().collect(),
                None => {
                    let mut text =
                        "the record has no end: its writer was killed, or still runs".to_owned();
                    if unsettled > 0 {
                        text.push_str(&format!(
                            "; {unsettled} rows of launches before the last are left out"
                        ));
                    }
                    vec![text]
                }
            },
            library,
            mpi,
            paths,
            verbs,
        };
        measurement.settle_groups();
        measurement
    }
}

/// Where both ends had their buffers, if `--buffers` chose; with one here and one there it is neither. Records from before
/// there was a choice are of host memory.
fn memory(
    backend: &BackendChoice,
    buffers: Option<[busbw_core::plan::Memory; 2]>,
) -> Option<Known<Memory>> {
    if backend.spec().buffers != BufferMemory::Chosen {
        return None;
    }
    let [begins, answers] = buffers.unwrap_or_default();
    let memory = match begins {
        busbw_core::plan::Memory::Host => Memory::Host,
        busbw_core::plan::Memory::Gpu => Memory::Device,
    };
    (begins == answers).then_some(Known::stated(memory))
}

/// `22809` as `2.28.9` (NCCL's src/nccl.h.in, NCCL_VERSION): since 2.9 two digits each for minor
/// and patch, before that one for the minor.
pub fn version_text(code: u32) -> String {
    if code < 10_000 {
        return format!("{}.{}.{}", code / 1000, code / 100 % 10, code % 100);
    }
    format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100)
}

impl From<record::Device> for Device {
    fn from(device: record::Device) -> Device {
        let record::Device { rank, group, host, device, address, name, .. } = device;
        Device { rank, host, device, address, name, group: Some(group) }
    }
}

impl From<record::Row> for Row {
    fn from(row: record::Row) -> Row {
        Row {
            size: row.size,
            group: Some(row.group),
            count: Some(row.count),
            datatype: Some(row.datatype),
            op: Some(row.redop).filter(|op| !op.trim().is_empty() && op != "none"),
            root: Some(row.root).filter(|root| *root >= 0),
            variant: row.variant.map(|variant| variant.given.to_string()),
            out_of_place: row.out_of_place.map(figures),
            in_place: row.in_place.map(figures),
            counters: row.counters,
            other_hosts: row.other_hosts,
        }
    }
}

/// A placement's figures, with one sample a launch, or a batch of the only launch.
fn figures(half: record::Half) -> Figures {
    // The slowest rank's time of a batch, for the others wait for it. Pairs do not wait for each other.
    let pairs = half.messages.is_some();
    let one = |batch: Vec<f64>| match pairs {
        true => Some(batch.iter().sum::<f64>() / batch.len() as f64).filter(|us| us.is_finite()),
        false => batch.into_iter().reduce(f64::max),
    };
    let launches = !half.launches_us.is_empty();
    let samples_us = match launches {
        true => half.launches_us,
        false => half.batches_us.into_iter().filter_map(one).collect(),
    };
    Figures { samples_us, launches, ..half.figures }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_core::plan::Memory::{Gpu, Host};

    #[test]
    fn both_ends_say_where_memory_is() {
        let of = |backend, buffers| memory(&backend, buffers).map(|known| known.value);
        let mpi = |buffers| of(BackendChoice::Mpi, buffers);
        assert_eq!(mpi(Some([Gpu; 2])), Some(Memory::Device));
        assert_eq!(mpi(Some([Gpu, Host])), None);
        assert_eq!(mpi(None), Some(Memory::Host));
        assert_eq!(of(BackendChoice::Host, None), None);
    }
}
