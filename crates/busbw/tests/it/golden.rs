//! Real output of nccl-tests 2.19.6 beside ours: header, rows, footer, -J report, and `show` after.
//! Not the figures: times and bandwidths differ, so only their form and their columns are compared.

mod differences;
mod published;
mod report;
mod run;
mod table;

use std::{os::unix::fs::symlink, process::Command};

use run::{BUSBW, Backend, Case, bounded};

/// Runs every combination that the backend can run, and collects everything that is not the same.
fn compare_all(backend: Backend, least: usize) {
    let cases: Vec<Case> = Case::all().into_iter().filter(|case| case.runs_on(backend)).collect();
    assert!(cases.len() >= least, "only {} combinations on {backend:?}", cases.len());
    let mut failures = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        // By the first word, by a link of the program's name, and by one with a suffix.
        let suffix = ["", "", "_mpi"][number % 3];
        let ran = case.run(backend, (number % 3 > 0).then_some(suffix));
        let (lines, exit) = differences::expected(case, backend, suffix);
        let mut found = table::compare(&lines, &ran.finished.stdout, backend);
        if ran.finished.code != exit {
            found.push(format!("exit code {}, expected {exit}", ran.finished.code));
        }
        if ran.shown.stdout != ran.finished.stdout {
            found.push(format!(
                "busbw show prints something else:\n{}",
                table::visible(&ran.shown.stdout)
            ));
        }
        if ran.finished.stderr.contains("secret") || ran.record.contains("secret") {
            found.push("a secret of the environment is on stderr or in the record".to_owned());
        }
        if let Some(golden) = &case.report {
            match &ran.report {
                Some(got) => found.extend(report::compare(golden, got, case, backend)),
                None => found.push("there is no -J report".to_owned()),
            }
        }
        if !found.is_empty() {
            found.push(ran.finished.stderr);
            failures.push(format!("{} ({}):\n{}", case.name, case.command, found.join("\n")));
        }
    }
    let count = failures.len();
    assert!(count == 0, "{count} of {} differ\n\n{}", cases.len(), failures.join("\n\n"));
}

#[test]
fn on_the_cost_model() {
    compare_all(Backend::Fake, 160);
}

#[test]
fn on_this_machine() {
    compare_all(Backend::Host, 150);
}

#[test]
fn on_gpus() {
    compare_all(Backend::Gpu, 40);
}

/// A run whose sizes were lowered needs a machine that is too small, so its record is made: only the
/// line that says so and what the row became are not the run's own.
#[test]
fn lowered_sizes() {
    let golden = include_str!("../golden/reduced.txt");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let line = "all_reduce_perf -b 64G -e 64G -g 2 --backend fake --record";
    let ran = bounded(Command::new(BUSBW).args(line.split(' ')).arg(&path));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        match value["kind"].as_str() {
            Some("run") => value["reduced_max_bytes"] = 48_676_296_021_u64.into(),
            Some("row") => {
                value["size"] = 48_676_296_020_u64.into();
                value["count"] = 12_169_074_005_u64.into();
            }
            _ => {}
        }
        value.to_string() + "\n"
    });
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let shown = bounded(Command::new(BUSBW).arg("show").arg(&path));
    let found = table::compare(&table::lines(golden), &shown.stdout, Backend::Fake);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What nccl-tests runs anyway, with a default instead of what was asked, or answers with its usage
/// and exit code 0: ours says so and exits with 2, and nothing on stdout looks like a table.
#[test]
fn refused_instead_of_guessed() {
    for line in [
        "all_reduce_perf --bogus",
        "all_reduce_perf -Z",
        "all_reduce_perf --n 3",
        "all_reduce_perf -b",
        "all_reduce_perf -b 8 -e 4",
        "all_reduce_perf -b 8 -e 8 -g 0",
        "all_reduce_perf -b 8 -e 8 -g 2 -d bogus",
        "all_reduce_perf -b 8 -e 8 -g 2 -o bogus",
        "all_reduce_perf -b 8 -e 8 -g 2 -n 0",
        "all_reduce_perf -b 8 -e 8 -g 2 -z 4",
        "all_reduce_perf -b 0 -e 8 -f 2 -g 2",
        "broadcast_perf -b 8 -e 8 -g 2 -r 5",
    ] {
        let ran = bounded(Command::new(BUSBW).args(line.split(' ')).env("BUSBW_NO_RECORD", "1"));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{line}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty(), "{line}");
    }
}

/// An old script, unchanged: a link by the old name, a pipe into awk, fields counted from the left
/// and, as parsers do that must survive hypercube's blank redop, from the right.
#[test]
fn an_old_script_works() {
    let folder = tempfile::tempdir().unwrap();
    symlink(BUSBW, folder.path().join("all_reduce_perf")).unwrap();
    let script = r#"./all_reduce_perf -b 8 -e 1M -f 2 -g 4 |
        awk '!/#/ && NF {print $1, $8, $(NF-5), $(NF-1), NF} /Avg bus bandwidth/ {print "avg", $NF}'"#;
    let ran = bounded(
        Command::new("sh")
            .args(["-c", script])
            .current_dir(folder.path())
            .env("BUSBW_NO_RECORD", "1")
            .env("BUSBW_BACKEND", "host")
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|l| l.split(' ').collect()).collect();
    assert_eq!(lines.len(), 19, "{}", ran.stdout);
    let number = |text: &str| text.parse::<f64>().unwrap();
    for (row, fields) in lines[..18].iter().enumerate() {
        assert_eq!(fields[0], (8_u64 << row).to_string(), "{}", ran.stdout);
        assert_eq!(fields[1], fields[2], "out-of-place busbw from both sides: {}", ran.stdout);
        assert!(number(fields[1]) >= 0.0 && number(fields[3]) >= 0.0, "{}", ran.stdout);
        assert_eq!(fields[4], "13", "{}", ran.stdout);
    }
    assert!(number(lines[17][1]) > 0.0 && number(lines[17][3]) > 0.0, "{}", ran.stdout);
    assert!(lines[18][0] == "avg" && number(lines[18][1]) > 0.0, "{}", ran.stdout);
}
