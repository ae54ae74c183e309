//! The calls of a job for `replay`, and for `tune --trace` and `--replay`: files and folders become a trace, and a trace a table of its classes.
//! Not the forms of files (`busbw_logs::trace`), and not which of them are replayed (`options::planning::calls`).

use std::{
    fmt::Write,
    fs::File,
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use busbw_analysis::sweep as sweep_result;
use busbw_core::{
    columns::aligned,
    exit::{Exit, ExitError},
    printable::{Printable, printable},
    quantity::{bytes, count, time},
};
use busbw_logs::{
    import,
    trace::{Class, Reader, Trace, TraceError},
};

/// Rows of the table.
const MAX_ROWS: usize = 32;
/// The largest result of a sweep, bytes.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// Reads a trace: files, folders of them, or stdin for `-`. Files of a folder that are no trace are skipped with a message;
/// of a sweep's result, its records are read.
///
/// # Errors
/// A named file is no trace, files are of different sources, or no call is left; all with the exit code for usage.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Trace> {
    let usage = |error: TraceError| ExitError::new(Exit::Usage, error.to_string());
    let mut reader = Reader::default();
    let (mut skipped, mut last) = (0_u64, None);
    for file in import::files(paths) {
        for path in records_of(&file.path)?.unwrap_or_else(|| vec![file.path.clone()]) {
            match reader.read_path(&path) {
                Ok(()) => {}
                Err(error @ TraceError::Strange { .. }) if file.found => {
                    skipped += 1;
                    last = Some(error);
                }
                Err(error) => return Err(usage(error).into()),
            }
        }
    }
    if skipped > 0 {
        let files = count(skipped, "file");
        let why = last.as_ref().map_or(String::new(), ToString::to_string);
        let text = format!("busbw: trace: {files} of the folder skipped; the last one: {why}");
        // If stderr is closed, the message is lost.
        let _ = writeln!(Printable::new(io::stderr(), false), "{text}");
    }
    Ok(reader.finish().map_err(usage)?)
}

/// The records of a sweep of which `path` is the result; `None` where it is none.
///
/// # Errors
/// It is a result whose records are not kept, or cannot be read.
fn records_of(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    if !path.is_file() {
        return Ok(None);
    }
    let mut head = [0; 64];
    let opened = File::open(path).and_then(|mut file| file.read(&mut head));
    // What cannot be read is said where all files are.
    let Ok(length) = opened else { return Ok(None) };
    let head = String::from_utf8_lossy(&head[..length]);
    if !head.trim_start().starts_with('{') || !head.contains("\"sweep_schema\"") {
        return Ok(None);
    }
    let name = path.display();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_RESULT_BYTES).read_to_string(&mut text))
        .with_context(|| format!("cannot read {name}"))?;
    let refused = |why: String| ExitError::new(Exit::Usage, format!("{name}: {why}"));
    let outcome = sweep_result::read(&text).map_err(refused)?;
    let records = outcome.environments.into_iter().map(|one| one.records);
    let records = records.into_iter().find(|records| !records.is_empty());
    // All launches of a sweep make the same calls.
    match records {
        Some(records) => Ok(Some(records.into_iter().take(1).collect())),
        None => Err(refused("the result of a sweep that kept no records".to_owned()).into()),
    }
}

/// The trace as a table, a row a class.
pub(crate) fn table(trace: &Trace) -> String {
    let classes = trace.classes();
    let of = |number: usize, one: &str| count(number as u64, one);
    let mut text = format!(
        "# trace from {}: {} of {} in {}, reported by {}\n",
        trace.source.name(),
        of(trace.calls.len(), "call"),
        kinds(classes.len()),
        of(trace.communicators.len(), "communicator"),
        of(trace.ranks.iter().filter(|rank| rank.calls > 0).count(), "rank"),
    );
    text.push_str("# size: as busbw's size column; calls: of the rank with the most; bytes: share of calls × size\n");
    if classes.iter().any(|class| class.gap_us.is_some()) {
        text.push_str("# gap: median time from the call before, start to start\n");
    }
    text.push_str("#\n");
    let head =
        ["operation", "size", "type", "redop", "ranks", "comms", "calls", "bytes", "gap", "time"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(classes.iter().take(MAX_ROWS).map(row));
    text.push_str(&aligned(&lines));
    if let Some(rest) = classes.get(MAX_ROWS..).filter(|rest| !rest.is_empty()) {
        let share: f64 = rest.iter().map(|class| class.share).sum();
        let _ = writeln!(
            text,
            "# and {} more with {:.1} % of the bytes",
            kinds(rest.len()),
            100.0 * share
        );
    }
    for one in &trace.left_out {
        let _ = writeln!(text, "# left out: {} ({})", printable(&one.reason), one.count);
    }
    for sentence in &trace.disagreements {
        let _ = writeln!(text, "# ranks disagree: {}", printable(sentence));
    }
    if trace.more_disagreements > 0 {
        let _ = writeln!(text, "# ranks disagree {} more times", trace.more_disagreements);
    }
    text
}

fn kinds(number: usize) -> String {
    if number == 1 { "1 class".to_owned() } else { format!("{number} classes") }
}

fn row(class: &Class) -> Vec<String> {
    let absent = || "-".to_owned();
    vec![
        class.operation.name().to_owned(),
        bytes(class.bytes),
        class.datatype.map_or_else(absent, |one| one.name().to_owned()),
        class.op.map_or_else(absent, |one| one.name().to_owned()),
        class.ranks.to_string(),
        class.communicators.to_string(),
        class.calls.to_string(),
        format!("{:.1} %", 100.0 * class.share),
        class.gap_us.map_or_else(absent, time),
        class.took_us.map_or_else(absent, time),
    ]
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Cursor};

    use super::*;

    /// A recorder's dump of a rank.
    fn dump(calls: &[(&str, &str, u64)]) -> String {
        let entries: Vec<_> = calls
            .iter()
            .enumerate()
            .map(|(number, (name, dtype, elements))| {
                let output = if *name == "nccl:_all_gather_base" { elements * 8 } else { *elements };
                serde_json::json!({
                    "process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": 0,
                    "profiling_name": name, "time_created_ns": 1_000_000 * number, "duration_ms": 0.25,
                    "input_sizes": [[elements]], "input_dtypes": [dtype],
                    "output_sizes": [[output]], "output_dtypes": [dtype],
                })
            })
            .collect();
        let group = serde_json::json!({"0": {"name": "0", "desc": "", "ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"}});
        serde_json::json!({"version": "2.10", "pg_config": group, "entries": entries}).to_string()
    }

    fn example() -> Trace {
        let mut reader = Reader::default();
        let calls = [
            ("nccl:all_reduce", "BFloat16", 1 << 20),
            ("nccl:all_reduce", "BFloat16", 1 << 20),
            ("nccl:_all_gather_base", "BFloat16", 1 << 12),
            ("nccl:all_reduce", "Float", 1),
            ("nccl:barrier", "Float", 1),
        ];
        let other = [&calls[..3], &[("nccl:all_reduce", "Float", 2)]].concat();
        for (name, calls) in [("rank_0", &calls[..]), ("rank_1", &other[..])] {
            reader.read(&mut Cursor::new(dump(calls)), name).expect("a dump");
        }
        reader.finish().expect("calls")
    }

    #[test]
    fn a_table_of_classes() {
        insta::assert_snapshot!(table(&example()), @r"
        # trace from a dump of PyTorch's flight recorder: 4 calls of 3 classes in 1 communicator, reported by 2 ranks
        # size: as busbw's size column; calls: of the rank with the most; bytes: share of calls × size
        # gap: median time from the call before, start to start
        #
        #  operation    size      type  redop  ranks  comms  calls   bytes      gap    time
          all_reduce   2 MiB  bfloat16      -      8      1      2  98.5 %  1000 us  250 us
          all_gather  64 KiB  bfloat16      -      8      1      1   1.5 %  1000 us  250 us
          all_reduce     4 B     float      -      8      1      1   0.0 %  1000 us  250 us
        # left out: barriers (1)
        # ranks disagree: communicator 0 of ranks 0,1,2,3,4,5,6,7, call 3: rank_0 says all_reduce of 4 B float, rank_1 says all_reduce of 8 B float
        ");
    }

    #[test]
    fn folders_and_what_is_in_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let rank = file("a", &dump(&[("nccl:all_reduce", "Float", 4)]));
        let prose = file("notes.txt", "not a trace\n");
        assert_eq!(read(&[folder.path().to_owned()]).expect("a trace").calls.len(), 1);
        let refused = |paths: &[PathBuf]| {
            let error = read(paths).expect_err("refused");
            let exit = error.downcast_ref::<ExitError>().map(|error| error.exit());
            assert_eq!(exit, Some(Exit::Usage), "{error:#}");
            error.to_string()
        };
        assert!(
            refused(&[rank, prose.clone()]).contains("notes.txt has no calls of a job: it is text")
        );
        assert!(refused(&[folder.path().join("none")]).contains("cannot read"));
        let other = tempfile::tempdir().expect("a folder");
        fs::copy(&prose, other.path().join("x")).expect("a file");
        assert!(refused(&[other.path().to_owned()]).contains("no file was a trace"));
    }

    /// The rows of a record are calls; of a sweep, those of its first record.
    #[test]
    fn records_and_sweeps() {
        let record = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../busbw/tests/records/gpu-all_reduce.jsonl");
        let trace = read(std::slice::from_ref(&record)).expect("a record");
        assert_eq!(trace.source, busbw_logs::trace::TraceSource::Record);
        let sizes: Vec<u64> = trace.mix()[0].sizes.iter().map(|(size, _)| *size).collect();
        assert_eq!(sizes, [8, 64, 512, 4096, 32_768, 262_144, 2_097_152]);
        let folder = tempfile::tempdir().expect("a folder");
        let result = folder.path().join("result.json");
        let mut outcome = sweep_result::example::outcome(&[(8, vec![vec![1.0; 6]])]);
        fs::write(&result, serde_json::to_string(&outcome).expect("JSON")).expect("a file");
        let error = read(std::slice::from_ref(&result)).expect_err("refused").to_string();
        assert!(error.contains("the result of a sweep that kept no records"), "{error}");
        outcome.environments[0].records = vec![record.clone(), record];
        fs::write(&result, serde_json::to_string(&outcome).expect("JSON")).expect("a file");
        assert_eq!(read(&[result]).expect("a sweep"), trace);
    }
}
