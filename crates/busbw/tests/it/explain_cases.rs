//! What `explain`, `topo`, `compare` and `lint` say of files whose verdict was written first: cases of tests/explain_cases,
//! and the logs of real runs that failed, hung or only looked so (tests/failed_runs at the root).
//! Not the wording: patterns test the meaning.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// The most lines of one run, and of each of several.
const MAX_LINES_OF_ONE: usize = 12;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The program's output: stdout, then stderr.
fn output(arguments: &[&str], folder: &Path) -> (String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ran.stdout), text(&ran.stderr))
}

fn pattern(text: &str) -> Regex {
    let built = RegexBuilder::new(text).case_insensitive(true).build();
    built.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn patterns(column: &str, between: &str) -> Vec<Regex> {
    column
        .split(between)
        .map(str::trim)
        .filter(|one| !one.is_empty() && *one != "-")
        .map(pattern)
        .collect()
}

/// Rows of a table with comments, less its header.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.skip(1).map(|line| line.split('\t').collect()).collect()
}

/// Names of files in a text say nothing of what was understood.
fn without_names(text: &str, names: &[String]) -> String {
    names.iter().fold(text.to_owned(), |text, name| text.replace(name, ""))
}

/// How an output differs from what a case wants; empty if it does not.
fn differences(case: &[&str], names: &[String], here: &Path) -> Vec<String> {
    let [_, _, command, verdict, first_line, must, must_not, severity, _] = case else {
        return vec![format!("{} columns", case.len())];
    };
    let arguments: Vec<&str> = command.split(' ').collect();
    let (stdout, stderr) = output(&arguments, here);
    let mut differences = Vec::new();
    // Stdout, then stderr: what is refused has its first line there.
    let first = stdout.lines().chain(stderr.lines()).next().unwrap_or_default();
    let first = without_names(first, names);
    for wanted in patterns(first_line, " && ") {
        if !wanted.is_match(&first) {
            differences.push(format!("first line: not {wanted}: {first}"));
        }
    }
    let all = without_names(&format!("{stdout}\n{stderr}"), names);
    let all = all.split_whitespace().collect::<Vec<&str>>().join(" ");
    for wanted in patterns(must, " && ") {
        if !wanted.is_match(&all) {
            differences.push(format!("not said: {wanted}"));
        }
    }
    for refused in patterns(must_not, " && ") {
        if let Some(found) = refused.find(&all) {
            differences.push(format!("said: {}", found.as_str()));
        }
    }
    match arguments[0] {
        "explain" => {
            differences.extend(explain_differs(&arguments, here, verdict, severity, &stdout));
        }
        "topo" => differences.extend(topo_differs(&arguments, here, verdict, severity)),
        "lint" => {
            let (json, _) = output(&[&*arguments, &["--json"]].concat(), here);
            differences.extend(too_severe(worst(&json_lines(&json)), severity));
        }
        _ => {}
    }
    differences
}

/// The verdict, the severities and the number of lines.
fn explain_differs(
    arguments: &[&str],
    here: &Path,
    verdict: &str,
    severity: &str,
    stdout: &str,
) -> Vec<String> {
    const VERDICTS: [&str; 7] =
        ["failed", "hanging", "wrong-figures", "slow", "not-there-yet", "healthy", "unknown"];
    let mut differences = Vec::new();
    let (json, _) = output(&[arguments, &["--json"]].concat(), here);
    let explanations = json_lines(&json);
    let words = explanations.iter().filter_map(|one| one["verdict"].as_str());
    let found = words.min_by_key(|word| VERDICTS.iter().position(|known| known == word));
    if found != Some(verdict) {
        differences.push(format!("verdict {}, not {verdict}", found.unwrap_or("none")));
    }
    let findings: Vec<Value> = explanations
        .iter()
        .filter_map(|one| one["findings"].as_array())
        .flatten()
        .cloned()
        .collect();
    differences.extend(too_severe(worst(&findings), severity));
    let most = if explanations.len() > 1 { explanations.len() + 1 } else { MAX_LINES_OF_ONE };
    let lines = stdout.lines().count();
    if lines > most {
        differences.push(format!("{lines} lines, and {most} are the most"));
    }
    differences
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const SEVERITIES: [&str; 7] = ["fine", "absent", "note", "unknown", "warning", "slow", "error"];

/// The highest severity of findings, by its place in `SEVERITIES`.
fn worst(findings: &[Value]) -> usize {
    let severity = |finding: &Value| {
        let word = finding["severity"].as_str()?;
        SEVERITIES.iter().position(|known| *known == word)
    };
    findings.iter().filter_map(severity).max().unwrap_or(0)
}

/// Whether a severity is above what a case allows.
fn too_severe(highest: usize, allowed: &str) -> Option<String> {
    let most = match allowed {
        "none" => 1,
        "note" => 3,
        "slow" => 5,
        _ => 6,
    };
    (highest > most)
        .then(|| format!("a finding is {}, and {allowed} is allowed", SEVERITIES[highest]))
}

/// `topo` has no verdict of its own: something is wrong, something costs speed, or neither.
fn topo_differs(arguments: &[&str], here: &Path, verdict: &str, severity: &str) -> Vec<String> {
    let (json, stderr) = output(&[arguments, &["--json"]].concat(), here);
    let Ok(report) = serde_json::from_str::<Value>(&json) else {
        let refused = verdict == "unknown" || stderr.is_empty();
        return (!refused).then(|| format!("refused: {stderr}")).into_iter().collect();
    };
    let highest = worst(report["findings"].as_array().map_or(&[], Vec::as_slice));
    let found = match SEVERITIES[highest] {
        "error" => "wrong-figures",
        "slow" | "warning" => "slow",
        _ => "healthy",
    };
    let differs = (found != verdict).then(|| format!("verdict {found}, not {verdict}"));
    differs.into_iter().chain(too_severe(highest, severity)).collect()
}

/// Every case that is not listed as open is met, and every listed one is not: a list that is out of date fails.
fn compare(results: Vec<(String, Vec<String>)>, open: &str) {
    let open: BTreeSet<&str> = open
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let all = results.len();
    let unmet: Vec<&(String, Vec<String>)> =
        results.iter().filter(|(_, differences)| !differences.is_empty()).collect();
    let names: BTreeSet<&str> = unmet.iter().map(|(name, _)| name.as_str()).collect();
    println!("{} of {all} met", all - unmet.len());
    for (name, differences) in unmet.iter().filter(|(name, _)| !open.contains(name.as_str())) {
        println!("{name}:\n  {}", differences.join("\n  "));
    }
    let broken: Vec<&&str> = names.difference(&open).collect();
    let met: Vec<&&str> = open.difference(&names).collect();
    assert!(
        broken.is_empty() && met.is_empty(),
        "not met: {broken:?}; met, but listed as open: {met:?}"
    );
}

#[test]
fn files_with_their_verdict() {
    let here = folder("tests/explain_cases");
    let table = fs::read_to_string(here.join("cases.tsv")).unwrap();
    let mut names: Vec<String> = fs::read_dir(&here)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let results = rows(&table)
        .iter()
        .map(|case| {
            (
                format!("{} {}", case[0], case[2].split(' ').next().unwrap_or_default()),
                differences(case, &names, &here),
            )
        })
        .collect();
    compare(results, &fs::read_to_string(here.join("open.txt")).unwrap_or_default());
}

#[test]
fn runs_that_failed_hung_or_only_looked_so() {
    let here = folder("../../tests/failed_runs");
    let table = fs::read_to_string(here.join("kinds.tsv")).unwrap();
    let logs = here.join("logs");
    let mut results = Vec::new();
    for kind in rows(&table) {
        let [name, _, _, _, must, must_not] = kind.as_slice() else { panic!("{kind:?}") };
        let file = format!("{name}.log");
        if !logs.join(&file).exists() {
            println!(
                "{name}: waived: it could not be made on that machine (tests/failed_runs/made.txt)"
            );
            continue;
        }
        let (stdout, _) = output(&["explain", &file], &logs);
        let first = stdout.lines().next().unwrap_or_default().replace(&file, "");
        let mut differences: Vec<String> = patterns(must, " ; ")
            .iter()
            .filter(|wanted| !wanted.is_match(&first))
            .map(|wanted| format!("first line: not {wanted}: {first}"))
            .collect();
        let refused = patterns(must_not, " ; ");
        differences.extend(
            refused
                .iter()
                .filter_map(|one| one.find(&first))
                .map(|found| format!("first line says: {}", found.as_str())),
        );
        results.push(((*name).to_owned(), differences));
    }
    assert!(results.len() >= 40, "only {} logs", results.len());
    compare(results, &fs::read_to_string(here.join("open.txt")).unwrap_or_default());
}
