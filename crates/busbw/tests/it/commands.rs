//! Commands from outside: outputs, the record and `show`, sampling options, lint, help.
//! Not faults (faults.rs), not layout (golden.rs), not what we changed (differences.rs).

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use busbw_core::finding::Finding;
use busbw_core::record::{Half, Line, Row};
use busbw_store::line;

fn busbw(line: &str) -> Output {
    command(line).output().unwrap()
}

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    command.args(line.split_whitespace()).env("BUSBW_NO_RECORD", "1");
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn rows(output: &Output) -> Vec<Row> {
    text(&output.stdout)
        .lines()
        .filter_map(|line| match line::from_text(line.as_bytes()).unwrap() {
            Line::Row(row) => Some(*row),
            _ => None,
        })
        .collect()
}

fn halves(row: &Row) -> [&Half; 2] {
    [row.out_of_place.as_ref().unwrap(), row.in_place.as_ref().unwrap()]
}

/// What only our settings made MPI print is kept back; what is for the user passes at once.
#[test]
fn words_of_mpi_are_told_apart() {
    let (ours, theirs) = (
        "[vm:1] select: component ob1 selected\n[1.1] [vm:1:0] w.c:1 UCX  INFO    ep_cfg[1]: tag(sysv/memory)\nbusbw read so far 0\n",
        "WARNING: no such interface\n[vm:1] *** An error occurred in MPI_Init\nno line end",
    );
    let mut command = command("__log_filter");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    for text in [ours, theirs] {
        to.write_all(text.as_bytes()).unwrap();
    }
    drop(to);
    let output = child.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), (ours.to_owned(), theirs.to_owned()));
    assert!(output.status.success());
}

/// The table, CSV and JSON of a run all come again from its record, byte for byte; so does the table
/// from the folded form.
#[test]
fn show_prints_what_the_run_printed() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    let runs = [
        "all_reduce -b 8 -e 4K -f 8 -g 2",
        "alltoallv_perf -b 1K -e 2K -f 2 -g 3 -t 1 --backend host",
        "reduce -b 1K -e 1K -g 2 -r all -d all -n 2",
        "all_gather -b 1K -e 4K -f 2 -t 2 -g 2 --repeat 3 -n 3",
        "hypercube_perf -b 1K -e 1K -g 3 --backend host",
        "all_reduce_perf -b 1K -e 1K -g 2 -I 1 -S 1 -M 1 -C 1 --backend host",
    ];
    for run in runs {
        for format in ["", "--csv", "--json"] {
            let printed = busbw(&format!("{run} {format} --record {}", record.display()));
            assert_eq!(printed.status.code(), Some(0), "{run}: {}", text(&printed.stderr));
            let shown = busbw(&format!("show {} {format}", record.display()));
            assert_eq!(text(&shown.stdout), text(&printed.stdout), "{run} {format}");
        }
        let lines = busbw(&format!("show {} --json", record.display()));
        let folded = busbw_store::parse(&text(&lines.stdout), "lines").unwrap();
        let path = folder.path().join("folded.json");
        fs::write(&path, serde_json::to_string_pretty(&folded).unwrap()).unwrap();
        let again = busbw(&format!("show {} --json", path.display()));
        assert_eq!(text(&again.stdout), text(&lines.stdout), "{run}");
    }
}

#[test]
fn runs_are_found_again_by_name() {
    let data = tempfile::tempdir().unwrap();
    let with_data = |line: &str| {
        let mut command = command(line);
        command.env_remove("BUSBW_NO_RECORD").env("XDG_DATA_HOME", data.path());
        command.output().unwrap()
    };
    let none = with_data("show");
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("there is no record yet"));
    let first = with_data("all_reduce -b 64 -e 64 -g 2");
    assert_eq!(text(&with_data("show").stdout), text(&first.stdout));
    let id = fs::read_dir(data.path().join("busbw/runs")).unwrap().next().unwrap().unwrap();
    let id = id.path().file_stem().unwrap().to_str().unwrap().to_owned();
    assert_eq!(text(&with_data(&format!("show {id}")).stdout), text(&first.stdout));
    assert_eq!(
        text(&with_data(&format!("show {}", &id[..id.len() - 3])).stdout),
        text(&first.stdout)
    );
    assert_eq!(with_data("show nonsense").status.code(), Some(2));
    let other = data.path().join("other.txt");
    fs::write(&other, "no record\n").unwrap();
    let refused = with_data(&format!("show {}", other.display()));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no record of busbw"));
}

#[test]
fn repeat_shows_medians_over_launches() {
    let all = rows(&busbw("all_reduce -b 1K -e 2K -g 2 --repeat 3 --json"));
    assert_eq!(all.len(), 6);
    let (shown, hidden): (Vec<&Row>, Vec<&Row>) = all.iter().partition(|row| row.shown);
    assert_eq!((shown.len(), hidden.len()), (2, 4));
    for row in shown {
        for (place, half) in halves(row).into_iter().enumerate() {
            assert_eq!(half.launches_us.len(), 3);
            let earlier = hidden.iter().filter(|r| r.index == row.index);
            for (launch, time) in earlier.map(|r| halves(r)[place].figures.time_us).enumerate() {
                assert_eq!(Some(half.launches_us[launch]), time);
            }
            let mut sorted = half.launches_us.clone();
            sorted.sort_by(f64::total_cmp);
            assert_eq!(half.figures.time_us, Some(sorted[1]));
        }
    }
}

#[test]
fn sampling_options_decide_the_batches() {
    let batches = |line: &str| {
        let rows = rows(&busbw(&format!("{line} --json")));
        halves(&rows[0]).map(|half| half.batches_us.len())
    };
    assert_eq!(batches("all_reduce_perf -b 1K -e 1K -g 2 --backend host"), [1, 1]);
    assert_eq!(batches("all_reduce -b 1K -e 1K -g 2"), [6, 6]);
    assert_eq!(batches("all_reduce -b 1K -e 1K -g 2 --batches 9"), [9, 9]);
    // On the cost model nothing varies: the second look is content.
    assert_eq!(batches("all_reduce -b 1K -e 1K -g 2 --backend fake --precision 2%"), [8, 8]);
    // A precision out of reach ends with the time.
    let short = "all_reduce -b 1K -e 1K -g 2 --precision 0.000001% --max-time 0.2";
    assert!(batches(short).iter().all(|batches| *batches > 8));
    let output = busbw(&format!("{short} --json"));
    assert!(text(&output.stderr).contains("--precision was not reached"));
    // Launches have an interval of their own, which the rule does not look at.
    let reached = "all_reduce -b 1K -e 1K -g 2 --backend fake --precision 2% --repeat 3";
    assert!(!text(&busbw(reached).stderr).contains("--precision was not reached"));
}

/// A backend that runs behind its queue still knows when each iteration passed.
#[test]
fn iterations_of_the_cost_model_are_alike() {
    let rows = rows(&busbw("all_reduce_perf -b 1M -e 1M -g 4 -I 1 --backend fake --json"));
    for half in halves(&rows[0]) {
        let times = &half.iterations.as_ref().unwrap().times_us;
        assert_eq!(times.len(), 20);
        let median = half.figures.time_us.unwrap();
        assert!(times.iter().all(|time| (time / median - 1.0).abs() < 1e-9), "{times:?}");
    }
}

#[test]
fn lint_reads_files_and_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("job.sh");
    fs::write(&script, "export NCCL_IMEX_ENABLE=1\n./all_reduce_perf -b 8 -e 8G -f 2 -i 100\n")
        .unwrap();
    let found = busbw(&format!("lint {}", script.display()));
    assert_eq!(found.status.code(), Some(1));
    assert!(
        text(&found.stdout).contains("job.sh:1: NCCL_IMEX_ENABLE=1"),
        "{}",
        text(&found.stdout)
    );
    assert!(text(&found.stdout).contains("-n 100"), "{}", text(&found.stdout));
    let json = busbw(&format!("lint --json {}", script.display()));
    let found: Vec<Finding> =
        text(&json.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<_> = found.iter().map(|f| (&*f.rule, f.line(), f.variable())).collect();
    let want =
        [("not-read", Some(1), Some("NCCL_IMEX_ENABLE")), ("test-option", Some(2), Some("-i"))];
    assert_eq!(lines, want);
    let file = found[0].place.as_ref().and_then(|place| place.file.as_deref());
    assert_eq!(file, script.to_str());
    assert_eq!(lint_stdin("export NCCL_DEBUG=INFO\n").status.code(), Some(0));
    assert_eq!(lint_stdin("export NCLL_DEBUG=INFO\n").status.code(), Some(1));
    assert_eq!(busbw("lint /does/not/exist").status.code(), Some(2));
    assert_eq!(busbw("lint --nccl new /dev/null").status.code(), Some(2));
}

fn lint_stdin(script: &str) -> Output {
    let mut child = command("lint -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn help_and_version_go_to_stdout() {
    for line in
        ["--help", "-h", "all_reduce --help", "alltoall_perf -h", "lint --help", "--version"]
    {
        let output = busbw(line);
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{line}");
    }
    assert!(text(&busbw("all_reduce -h").stdout).contains("Measure all_reduce"));
    assert_eq!(busbw("").status.code(), Some(2));
    assert_eq!(busbw("nonsense").status.code(), Some(2));
}

/// `-q` leaves the table and errors, `-v` adds how rows were measured; neither changes the table.
#[test]
fn quiet_and_verbose_are_about_stderr() {
    let line = "all_reduce -b 8 -e 16 -f 2 -i 100 -g 2 -n 3 --backend fake --batches 1";
    let [usual, quiet, verbose] = ["", "-q", "-v"].map(|option| busbw(&format!("{line} {option}")));
    assert!(text(&usual.stderr).contains("for 100 iterations use -n 100"));
    assert_eq!(text(&quiet.stderr), "");
    let said = text(&verbose.stderr);
    for words in
        ["for 100 iterations", "busbw: backend fake, 2 ranks", "8 B: out of place 1 batch;"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let rows = |output: &Output| {
        text(&output.stdout)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&quiet), rows(&usual));
    assert_eq!(rows(&verbose), rows(&usual));
    // The first run on a machine measures its algorithms, and says so.
    let first = |option: &str| {
        let cache = tempfile::tempdir().unwrap();
        let line = format!("all_reduce -b 8 -e 64K -n 2 -g 2 --backend host {option}");
        text(&command(&line).env("XDG_CACHE_HOME", cache.path()).output().unwrap().stderr)
    };
    assert!(first("").contains("measured once"));
    assert_eq!(first("-q"), "");
    let loud = busbw(
        "all_reduce -b 48 -e 48 -g 2 -q --backend host --fault rank=1,phase=timed,row=0,do=corrupt:0",
    );
    assert_eq!(loud.status.code(), Some(7));
    assert!(text(&loud.stderr).contains("wrong data"), "errors are said: {}", text(&loud.stderr));
}

/// The header names the unit that the figures have, and nothing but the table has another one than GB/s.
#[test]
fn units_are_those_of_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    for test in ["all_reduce", "all_reduce_perf", "bw"] {
        let plain = busbw(&format!(
            "{test} -b 1M -e 1M -g 2 -n 3 --backend host --record {}",
            record.display()
        ));
        let table = text(&plain.stdout);
        let figures = |table: &str| -> Vec<f64> {
            let row = table.lines().find(|line| line.trim_start().starts_with("1048576")).unwrap();
            row.split_whitespace().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect()
        };
        let at = if test == "bw" { 2 } else { 6 };
        for (unit, factor) in [("GB/s", 1.0), ("Gb/s", 8.0), ("GiB/s", 1e9 / f64::from(1 << 30))] {
            let shown = busbw(&format!("show {} --units {unit}", record.display()));
            let shown = text(&shown.stdout);
            assert_eq!(shown == table, unit == "GB/s", "{test} {unit}");
            let heads = shown.matches(&format!("({unit})")).count();
            assert_eq!(heads, if test == "bw" { 1 } else { 4 }, "{shown}");
            assert_eq!(unit == "GB/s", shown.contains("(GB/s)"), "{shown}");
            let (got, want) = (figures(&shown)[at], factor * figures(&table)[at]);
            // Both are rounded to hundredths.
            let rounding = 0.0051 * (factor + 1.0);
            assert!((got - want).abs() < rounding, "{test} {unit}: {got} {want}\n{shown}");
            if test != "bw" && unit != "GB/s" {
                let average =
                    shown.lines().find(|line| line.contains("Avg bus bandwidth")).unwrap();
                assert!(average.contains(unit), "{average}");
            }
            // A column's header ends where its figures end.
            let end = |line: &str| line.find(&format!("({unit})")).map(|at| at + unit.len() + 2);
            let head = shown.lines().find(|line| line.contains(&format!("({unit})"))).unwrap();
            let row = shown.lines().find(|line| line.trim_start().starts_with("1048576")).unwrap();
            let column = &row[..end(head).unwrap()];
            assert!(column.ends_with(|c: char| c.is_ascii_digit()), "{shown}");
            assert!(row[column.len()..].starts_with(' '), "{shown}");
        }
    }
    for refused in ["latency", "barrier", "pairs", "all_reduce --latency", "bw --json"] {
        let output = busbw(&format!("{refused} -g 2 --backend host --units Gb/s"));
        assert_eq!(output.status.code(), Some(2), "{refused}: {}", text(&output.stderr));
    }
}

#[test]
fn colours_are_asked_for_or_not() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explain/8x-h800-nvlink-all-reduce.txt");
    for (line, has) in [
        (format!("explain {log} --color always"), true),
        (format!("--color=always explain {log}"), true),
        (format!("explain {log} --color never"), false),
        (format!("explain {log}"), false),
        ("all_reduce --help --color always".to_owned(), true),
        ("all_reduce --help".to_owned(), false),
    ] {
        let told = text(&busbw(&line).stdout);
        assert_eq!(told.contains('\x1b'), has, "{line}");
    }
    assert_eq!(busbw("list --color sometimes").status.code(), Some(2));
}

/// Remarks are said on stderr, once, and the run goes on.
#[test]
fn questions_do_not_stop_a_run() {
    let output = busbw("all_reduce_perf -b 8 -e 16 -f 2 -i 100 -g 2 --backend host");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr).matches("for 100 iterations use -n 100").count(), 1);
}

/// `explain` takes tables, records and stdin; what is no log is exit code 2, and the rest is
/// explained all the same.
#[test]
fn explain_takes_logs_records_and_stdin() {
    let logs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explain");
    let log = format!("{logs}/8x-h800-nvlink-all-reduce.txt");
    let told = busbw(&format!("explain {log} --machine hgx-h800"));
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    assert!(text(&told.stdout).contains("bottleneck: NVLink"), "{}", text(&told.stdout));
    assert!(!text(&told.stdout).contains('\x1b'), "no colour without a terminal");

    let mut child =
        command("explain - --json").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(&log).unwrap()).unwrap();
    let json = text(&child.wait_with_output().unwrap().stdout);
    let told: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(told["source"]["name"], "-");
    assert!((told["measured"]["busbw"].as_f64().unwrap() - 165.2).abs() < 0.1);
    assert!(told["findings"].as_array().unwrap().iter().all(|finding| finding["rule"].is_string()));

    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    busbw(&format!("all_reduce -b 8 -e 64K -f 8 -g 2 -n 2 --record {}", record.display()));
    let told = busbw(&format!("explain {}", record.display()));
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    assert!(text(&told.stdout).contains("all_reduce, 2 ranks on 1 host"), "{}", text(&told.stdout));

    let other = folder.path().join("other.txt");
    fs::write(&other, "Avg bus bandwidth is 230.167\n").unwrap();
    let mixed = busbw(&format!("explain {} {log}", other.display()));
    assert_eq!(mixed.status.code(), Some(2));
    assert!(text(&mixed.stderr).contains("is not a log of nccl-tests"), "{}", text(&mixed.stderr));
    assert!(text(&mixed.stdout).contains("all_reduce"));
    // A folder is what is in it.
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(busbw(&format!("explain {logs}")).status.code(), Some(0));
    for bad in [format!("{log} --machine no-such-machine"), empty.display().to_string()] {
        let refused = busbw(&format!("explain {bad}"));
        assert_eq!(refused.status.code(), Some(2), "{bad}");
        assert_eq!(text(&refused.stderr).lines().count(), 1, "{}", text(&refused.stderr));
    }
}
