//! What `explain` says of a collection of public logs: verdict, percent of the limit, findings above note, run by run.
//! Not how their tables are read (`import`), nor cases that were written for this program (`explain_cases`).

use std::{path::Path, process::Command};

const CORPUS: &str = include_str!("../explain_corpus.tsv");
const COLUMNS: &str = "# file\trun\tsubject\tverdict\tpercent\tabove note";

/// The lines of one file, or that it was refused.
fn lines(corpus: &Path, name: &str) -> Vec<String> {
    let explained = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(["explain", "--json"])
        .arg(corpus.join(name))
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the program starts");
    let text = String::from_utf8(explained.stdout).expect("JSON is UTF-8");
    if text.is_empty() {
        assert_eq!(explained.status.code(), Some(2), "{name}");
        return vec![format!("{name}\t-\t-\trefused\t-\t-")];
    }
    text.lines()
        .enumerate()
        .map(|(run, line)| format!("{name}\t{}\t{}", run + 1, said(line)))
        .collect()
}

/// Subject, verdict, percent and findings above note of one explanation.
fn said(line: &str) -> String {
    let one: serde_json::Value = line.parse().expect("a line is JSON");
    let above: Vec<String> = one["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|finding| {
            [&finding["rule"], &finding["severity"]].map(|word| word.as_str().expect("a word"))
        })
        .filter(|[_, severity]| *severity != "note")
        .map(|[rule, severity]| format!("{rule}:{severity}"))
        .collect();
    let percent = one["percent"].as_f64().map_or("-".to_owned(), |percent| format!("{percent:.1}"));
    let above = if above.is_empty() { "-".to_owned() } else { above.join(" ") };
    let word = |name: &str| one[name].as_str().expect("a word").to_owned();
    format!("{}\t{}\t{percent}\t{above}", word("subject"), word("verdict"))
}

/// No healthy run is accused, in the committed table; with BUSBW_CORPUS=DIR, the program says what the table says.
#[test]
fn public_logs_have_their_verdicts() {
    let rows: Vec<Vec<&str>> =
        CORPUS.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() > 250 && rows.iter().all(|row| row.len() == 6), "{} rows", rows.len());
    // A dip is seen at its own sizes, whatever the largest size reaches.
    let accused: Vec<_> = rows
        .iter()
        .filter(|row| row[3] == "healthy" && !["-", "dip:slow"].contains(&row[5]))
        .collect();
    assert!(accused.is_empty(), "{accused:?}");
    let Some(corpus) = std::env::var_os("BUSBW_CORPUS") else {
        eprintln!("BUSBW_CORPUS is not set: the logs themselves were not read");
        return;
    };
    let mut files: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    files.dedup();
    let now: Vec<String> = files.iter().flat_map(|name| lines(Path::new(&corpus), name)).collect();
    let held: Vec<&str> = CORPUS.lines().skip(1).collect();
    if now != held {
        let table = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus.tsv");
        std::fs::write(&table, format!("{COLUMNS}\n{}\n", now.join("\n"))).expect("a table");
        let differs = now.iter().find(|line| !held.contains(&line.as_str()));
        panic!(
            "what is said now is in {}; the first line that differs: {differs:?}",
            table.display()
        );
    }
}
