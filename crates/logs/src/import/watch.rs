//! Files of busbw's profiler as runs: one for each collective of each communicator, a row for each size.
//! Not their lines (`busbw_watch_file`), and not who is late (`busbw watch`).
//!
//! A row's time is that from when the last rank entered, as far as files of its ranks are there: of one process alone it has
//! what that rank waited for the others.

use std::{fs, path::Path};

use busbw_core::record::Figures;
use busbw_watch::{Group, Job, Speed, matched, speeds_by_size};
use busbw_watch_file::WatchFile;

use super::ImportError;
use crate::measurement::{Device, Form, Known, Measurement, Memory, Row, Source, Test};

/// How every such file begins.
pub(super) const HEAD: &str = "{\"kind\":\"process\"";

/// The runs of the text of one process's file.
///
/// # Errors
/// It is no such file, or of another version.
pub(super) fn of_text(text: &str, name: &str) -> Result<Vec<Measurement>, ImportError> {
    let file = WatchFile::parse(text.as_bytes())
        .map_err(|why| ImportError::Json { name: name.to_owned(), why: why.to_string() })?;
    Ok(runs(vec![(name.to_owned(), file)], name))
}

/// The runs of all processes whose files are in a folder, taken together; none where there is no such file.
pub(super) fn of_folder(folder: &Path) -> Vec<Measurement> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let read = |path: std::path::PathBuf| {
        let file = WatchFile::parse(&fs::read(&path).ok()?).ok()?;
        Some((path.display().to_string(), file))
    };
    runs(paths.filter_map(read).collect(), &folder.display().to_string())
}

fn runs(files: Vec<(String, WatchFile)>, name: &str) -> Vec<Measurement> {
    let jobs = Job::of(files);
    let of_job = |job: &Job| -> Vec<Measurement> {
        job.groups.iter().flat_map(|group| of_group(job, group, name)).collect()
    };
    jobs.iter().flat_map(of_job).collect()
}

fn of_group(job: &Job, group: &Group, name: &str) -> Vec<Measurement> {
    let mut speeds: Vec<Speed> = speeds_by_size(group, &matched(job, group));
    speeds.retain(|speed| speed.collective.is_some() && speed.time_us.is_some());
    speeds.sort_by(|a, b| a.operation.cmp(&b.operation).then(a.most.cmp(&b.most)));
    let mut runs: Vec<Measurement> = Vec::new();
    for of_one in speeds.chunk_by(|a, b| a.operation == b.operation) {
        let Some(collective) = of_one.first().and_then(|speed| speed.collective) else { continue };
        runs.push(Measurement {
            source: Source { name: name.to_owned(), line: 1, form: Form::Watch, version: None },
            test: Test {
                name: Some(format!("{} of communicator {}", of_one[0].operation, group.id)),
                collective: Some(Known::stated(collective)),
                memory: Some(Known::stated(Memory::Device)),
                ..Test::default()
            },
            ranks: (group.ranks > 0).then(|| Known::stated(group.ranks as usize)),
            hosts: (group.nodes > 0).then_some(group.nodes as usize),
            devices: if group.missing().is_empty() { devices(job, group) } else { Vec::new() },
            rows: of_one.iter().map(row).collect(),
            copies: 1,
            ..Measurement::default()
        });
    }
    runs
}

fn devices(job: &Job, group: &Group) -> Vec<Device> {
    let device = |member: &busbw_watch::Member| Device {
        rank: member.rank as usize,
        host: job.peers[member.peer].process.host.clone(),
        ..Device::default()
    };
    group.members.iter().map(device).collect()
}

fn row(speed: &Speed) -> Row {
    let figures = Figures {
        time_us: speed.time_us,
        algbw: speed.algbw,
        busbw: speed.busbw,
        algorithm: (!speed.choice.is_empty()).then(|| speed.choice.clone()),
        ..Figures::default()
    };
    Row { size: speed.most, out_of_place: Some(figures), ..Row::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use busbw_core::Collective;

    use crate::import;

    const FILE: &str = r#"{"kind":"process","version":1,"busbw":"0.1.0","host":"a","pid":7,"began":5,"interface":6,"mask":70}
{"kind":"communicator","number":0,"id":"0xab","nodes":1,"ranks":2,"rank":RANK,"at":1}
{"kind":"calls","communicator":0,"operation":"AllReduce","count":262144,"datatype":"ncclFloat32","size":1048576,"algorithm":"RING","protocol":"SIMPLE","channels":2,"calls":[[0,10,20,TIME],[1,40,50,TIME]]}
"#;

    fn file(rank: u32, time: u64) -> String {
        FILE.replace("RANK", &rank.to_string()).replace("TIME", &time.to_string())
    }

    #[test]
    fn a_file_is_a_run_and_a_folder_has_the_ranks_together() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [(0, 100_000), (1, 80_000)].map(|(rank, time)| {
            let text = file(rank, time).replace("\"pid\":7", &format!("\"pid\":{}", 7 + rank));
            let path = folder.path().join(format!("a.{rank}.jsonl"));
            std::fs::write(&path, text).unwrap();
            path
        });
        let alone = import::read_path(&paths[0]).unwrap().measurements;
        let together = import::watched(folder.path());
        for (runs, time_us, devices) in [(alone, 100.0, 0), (together, 80.0, 2)] {
            let [run] = runs.as_slice() else { panic!("{runs:?}") };
            assert_eq!(
                (run.collective(), run.rank_count()),
                (Some(Collective::AllReduce), Some(2))
            );
            let figures = run.rows[0].out_of_place.as_ref().unwrap();
            assert_eq!(
                (run.rows.len(), run.rows[0].size, figures.time_us),
                (1, 1 << 20, Some(time_us))
            );
            // Two ranks: the factor is 1.
            assert!((figures.busbw.unwrap() - 1_048_576.0 / 1e3 / time_us).abs() < 1e-9);
            assert_eq!(run.devices.len(), devices);
        }
    }
}
