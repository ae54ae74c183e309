//! `busbw import` as people call it: every log of the collection gives exactly its rows, or its reason.
//! Not the readers' details, which are tested beside them.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

const CORPUS: &str = include_str!("../import/corpus.tsv");

fn import(arguments: &[&str], stdin: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_busbw"))
        .arg("import")
        .args(arguments)
        .env_remove("BUSBW_NO_RECORD")
        .stdin(stdin)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs, rows and lines of NCCL of a file, as the table has them.
fn counts(path: &Path) -> String {
    let name = path.to_string_lossy();
    let printed = import(&[&name, "--json"], Stdio::null());
    let runs: Vec<serde_json::Value> =
        text(&printed.stdout).lines().map(|line| line.parse().expect("a line is JSON")).collect();
    let rows = runs.iter().map(|run| {
        let kept = run["rows"].as_array().map_or(0, Vec::len) as u64;
        kept + run["end"]["rows_left_out"].as_u64().unwrap_or(0)
    });
    let told = text(&import(&[&name], Stdio::null()).stdout);
    let nccl = told.split_once(" of NCCL").map_or("0", |(before, _)| {
        before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or("")
    });
    assert_eq!(printed.status.code(), Some(if runs.is_empty() { 2 } else { 0 }), "{name}");
    format!("{}\t{}\t{nccl}", runs.len(), rows.sum::<u64>())
}

/// Without BUSBW_CORPUS only the table itself is checked.
#[test]
fn corpus_files() {
    let rows: Vec<(&str, &str)> =
        CORPUS.lines().skip(1).map(|line| line.split_once('\t').expect("columns")).collect();
    assert!(rows.len() >= 81, "{} rows", rows.len());
    assert!(rows.iter().all(|(_, counts)| counts.split('\t').count() == 3));
    let Some(corpus) = std::env::var_os("BUSBW_CORPUS") else {
        eprintln!("BUSBW_CORPUS is not set: the collection itself was not read");
        return;
    };
    let wrong: Vec<String> = rows
        .iter()
        .map(|(name, want)| (name, want, counts(&Path::new(&corpus).join(name))))
        .filter(|(_, want, got)| got != *want)
        .map(|(name, _, got)| format!("{name}\t{got}"))
        .collect();
    assert_eq!(wrong, [""; 0], "the table says otherwise");
}

#[test]
fn field_reports_in_a_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explain");
    let read = import(&[folder, "--json"], Stdio::null());
    // A file of the folder that is no log (README.md, the XML) is told and is no failure.
    assert_eq!(read.status.code(), Some(0));
    assert_eq!(text(&read.stdout).lines().count(), 12);
    let said = text(&read.stderr);
    assert!(said.contains("README.md") && said.contains("14 files: 12 runs"), "{said}");
    assert!(said.contains("2 refused"), "{said}");
    // What was printed is a source as well.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &read.stdout).expect("it is written");
    let again = import(&[&file.path().to_string_lossy(), "--json"], Stdio::null());
    assert_eq!(text(&again.stdout), text(&read.stdout));
}

#[test]
fn what_disagrees_is_named() {
    let log = include_str!("../explain/16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt");
    let told = |content: String| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), content).expect("it is written");
        text(&import(&[&file.path().to_string_lossy()], Stdio::null()).stdout)
    };
    assert!(log.contains("392.76"), "the best busbw in place");
    let (plain, changed) = (told(log.to_owned()), told(log.replace("392.76", "999.90")));
    assert!(!plain.contains("disagrees"), "{plain}");
    assert!(
        changed.contains(
            "disagrees: busbw 999.9 GB/s of 8 GiB in place, where size and time give 392.8"
        ),
        "{changed}"
    );
}

#[test]
fn what_cannot_be_read_is_one_line_and_exit_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("it is written");
        path.to_string_lossy().into_owned()
    };
    let cases = [
        (path("empty", b""), "is empty"),
        (path("binary", b"\x7fELF\0"), "zero byte"),
        (path("newer", b"{\"kind\":\"run\",\"schema\":99}\n"), "schema 99"),
        (path("prose", b"hello\n"), "is not a log"),
        (path("half", b"{\"run\":{\"imported\":"), "damaged JSON"),
        (folder.path().join("none").to_string_lossy().into_owned(), "cannot read"),
    ];
    for (path, reason) in cases {
        let read = import(&[&path], Stdio::null());
        let said = text(&read.stderr);
        assert_eq!(read.status.code(), Some(2), "{path}");
        assert!(said.contains(reason) && said.lines().count() == 1, "{said}");
        assert_eq!(text(&read.stdout), "");
    }
}

#[test]
fn pipes_are_read_and_what_has_no_end_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = include_str!("../explain/16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt");
    let file = folder.path().join("log.txt");
    std::fs::write(&file, log).expect("it is written");
    let piped = Command::new("bash")
        .args(["-c", "\"$0\" import --json <(cat \"$1\")", env!("CARGO_BIN_EXE_busbw")])
        .arg(&file)
        .output()
        .expect("bash starts");
    assert_eq!((piped.status.code(), text(&piped.stdout).lines().count()), (Some(0), 1));
    for path in ["/dev/zero", "/proc/kmsg"] {
        let read = import(&[path], Stdio::null());
        let said = text(&read.stderr);
        assert_eq!(read.status.code(), Some(2), "{path}");
        assert!(said.contains("name a file or a pipe") && said.lines().count() == 1, "{said}");
    }
    // A pipe in a folder would be waited for, and the kernel's folders are not looked into.
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
    std::os::unix::fs::symlink("/proc", folder.path().join("proc")).expect("a link");
    std::os::unix::fs::symlink("/proc/kmsg", folder.path().join("kmsg")).expect("a link");
    let read = import(&[&folder.path().to_string_lossy(), "--json"], Stdio::null());
    assert_eq!((read.status.code(), text(&read.stdout).lines().count()), (Some(0), 1));
    assert_eq!(text(&read.stderr), "");
    let read = import(&["/sys", "--json"], Stdio::null());
    assert_eq!(read.status.code(), Some(2));
    assert!(text(&read.stderr).contains("/sys is skipped"), "{}", text(&read.stderr));
}
