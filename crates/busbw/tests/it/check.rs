//! `busbw check` as people run it on this host: its lines, its exit codes, and the files that it writes.
//! Not hosts with faults of their own (tests/check.sh), and not the rates of false faults (tests of `busbw-analysis`).

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use busbw_analysis::check::{Check, CheckReport, Decision, Verdict};

const SMALL: &str = "--backend host -g 2 -b 4K -e 4K";

fn command(words: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_busbw"), "check"]).args(words.split_whitespace());
    command.env("BUSBW_NO_RECORD", "1").stdin(Stdio::null());
    command
}

fn check(words: &str) -> Output {
    command(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn report(output: &Output) -> CheckReport {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

fn verdict(report: &CheckReport, check: Check) -> Verdict {
    let line = report.lines.iter().find(|line| line.check == check);
    line.unwrap_or_else(|| panic!("no line of {}: {report:?}", check.name())).verdict
}

#[test]
fn this_host_is_checked_within_the_time() {
    let output = check(&format!("{SMALL} --json"));
    let report = report(&output);
    assert!(report.decision.lets_start(), "{report:?}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(verdict(&report, Check::Collective), Verdict::Pass);
    assert_eq!((report.ranks, report.hosts.len()), (Some(2), 1));
    let took: f64 = report.lines.iter().map(|line| line.took_s).sum();
    assert!(took <= report.took_s && report.took_s <= report.within_s, "{report:?}");
}

#[test]
fn only_what_is_asked_for_is_looked_at() {
    let output = check("--only doctor,settings --json");
    let report = report(&output);
    assert_eq!(verdict(&report, Check::Collective), Verdict::Waived);
    assert_eq!(report.ranks, None);
    let table = check("--only doctor");
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.lines().any(|line| line.contains("waived") && line.contains("pairs")), "{text}");
    assert!(text.lines().last().unwrap().starts_with("# "), "{text}");
}

#[test]
fn wrong_data_in_every_launch_blocks_and_says_so() {
    let output = check(&format!("{SMALL} --json --fault rank=1,phase=timed,do=corrupt:3"));
    let report = report(&output);
    assert_eq!((report.decision, output.status.code()), (Decision::Blocked, Some(1)), "{report:?}");
    let line = report.lines.iter().find(|line| line.check == Check::Collective).unwrap();
    assert!(line.blocks() && line.measured == 2, "{line:?}");
    assert!(said(&output).contains("not fit: collective: "), "{}", said(&output));
}

#[test]
fn the_end_of_the_time_lets_the_job_start_and_fail_closed_inverts_that() {
    let words = format!("{SMALL} --within 3s --fault rank=1,phase=timed,do=stop");
    let open = check(&words);
    assert_eq!(open.status.code(), Some(0), "{}", said(&open));
    assert!(said(&open).contains("cannot tell, and the job may start: "), "{}", said(&open));
    let closed = check(&format!("{words} --fail-closed"));
    assert_eq!(closed.status.code(), Some(1), "{}", said(&closed));
    assert!(said(&closed).contains("must not start (--fail-closed)"), "{}", said(&closed));
}

#[test]
fn a_launcher_that_fails_lets_the_job_start() {
    let words =
        "--launcher ssh --launcher-command false -H nowhere:2 --backend net --within 10s --json";
    let output = check(words);
    let report = report(&output);
    assert_eq!((report.decision, output.status.code()), (Decision::LetThrough, Some(0)));
    assert!(report.lines.iter().all(|line| line.verdict == Verdict::CannotTell), "{report:?}");
    assert_eq!(check(&format!("{words} --fail-closed")).status.code(), Some(1));
}

/// Two processes as torchrun starts them: process 0 decides and prints, both exit with its code.
#[test]
fn a_launchers_job_is_checked_by_its_processes() {
    for (fault, expected) in [("", 0), ("--fault rank=1,phase=timed,do=corrupt:3", 1)] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let start = |rank: &str| {
            command(&format!("--backend net -b 4K -e 4K --json {fault}"))
                .envs([("RANK", rank), ("LOCAL_RANK", rank)])
                .envs([("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")])
                .envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port.to_string())])
                .env("BUSBW_JOB_SECRET", "check")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let [first, second] = ["0", "1"].map(start).map(|child| child.wait_with_output().unwrap());
        assert_eq!(first.status.code(), Some(expected), "{}", said(&first));
        assert_eq!(second.status.code(), Some(expected), "{}", said(&second));
        assert!(second.stdout.is_empty());
        let report = report(&first);
        assert_eq!(report.ranks, Some(2), "{report:?}");
        assert_eq!(report.decision == Decision::Blocked, expected == 1);
    }
}

#[test]
fn mistakes_are_the_users() {
    for (words, expected) in [
        ("--within soon", "60s, 10m or 1h"),
        ("--only everything", "everything"),
        ("--fail-below-limit 180%", "80%"),
        ("--baseline /no/such/run", "--baseline /no/such/run"),
        ("--backend host -o nonsense", "nonsense"),
        ("--no-such-option", "no-such-option"),
    ] {
        let output = check(words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words}: {}", said(&output));
    }
}

#[test]
fn files_are_written_beside_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let records = path("records");
    let output = command(SMALL)
        .arg("--junit")
        .arg(path("check.xml"))
        .arg("--openmetrics")
        .arg(path("check.prom"))
        .arg("--record")
        .arg(&records)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let xml = fs::read_to_string(path("check.xml")).unwrap();
    assert!(xml.contains("<testcase classname=\"busbw.check.collective\""), "{xml}");
    let metrics = fs::read_to_string(path("check.prom")).unwrap();
    assert!(metrics.ends_with("# EOF\n") && metrics.contains("busbw_check_decision"), "{metrics}");
    let kept: CheckReport =
        serde_json::from_slice(&fs::read(records.join("check.json")).unwrap()).unwrap();
    assert!(kept.decision.lets_start());
    let launches = fs::read_dir(&records).unwrap().count() - 1;
    assert!(launches >= 4, "{launches}");
    // The records of one check are the baseline of the next.
    with_baseline(&records);
    for more in ["02-collective.jsonl", "03-collective.jsonl", "04-collective.jsonl"] {
        fs::remove_file(records.join(more)).unwrap();
    }
    with_a_single_launch(&records);
}

fn with_baseline(records: &Path) {
    let output = command(SMALL).arg("--baseline").arg(records).arg("--json").output().unwrap();
    let report = report(&output);
    let line = report.lines.iter().find(|line| line.check == Check::Baseline).unwrap();
    // Processors of a shared machine may be slower now; the text says so with both figures.
    assert!(line.text.contains("times as fast ("), "{}", line.text);
    assert!(line.figure.as_ref().is_some_and(|figure| figure.wanted.is_some()), "{line:?}");
    assert_eq!(output.status.code(), Some(i32::from(!report.decision.lets_start())));
}

/// From one launch there is no verdict, whatever it measured.
fn with_a_single_launch(records: &Path) {
    let output = command(SMALL).arg("--baseline").arg(records).arg("--json").output().unwrap();
    let report = report(&output);
    let line = report.lines.iter().find(|line| line.check == Check::Baseline).unwrap();
    assert_eq!((line.verdict, line.blocks()), (Verdict::CannotTell, false), "{line:?}");
    assert!(line.text.contains("at least 4 launches a side are needed"), "{}", line.text);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_file_that_cannot_be_written_changes_no_decision() {
    let output = check(&format!("{SMALL} --only doctor --junit /no/such/folder/check.xml"));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("cannot write /no/such/folder/check.xml"), "{}", said(&output));
}

#[test]
fn an_interrupted_check_ends_soon_and_leaves_nothing() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args("check --backend host -g 2 -b 4K -e 4K --fault rank=1,phase=timed,do=stop".split(' '))
        .env("BUSBW_NO_RECORD", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Its first launch hangs for 10 s.
    thread::sleep(Duration::from_secs(3));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let due = Instant::now() + Duration::from_secs(30);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < due, "it does not end");
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(130));
}
