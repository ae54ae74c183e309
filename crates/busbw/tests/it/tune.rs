//! `busbw tune` from its command line to its last line, on the fake backend with settings whose best is known.
//! Not the search over many landscapes (crates/tune/tests).

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const BUSBW: &str = env!("CARGO_BIN_EXE_busbw");

/// Buffers and socket threads help, a pair of channels and buffers too; one value crashes, one hangs, one is wrong.
const LANDSCAPE: &str = r#"{
  "seed": 7, "launch_noise": 0.01, "batch_noise": 0.02,
  "variables": {
    "NCCL_BUFFSIZE": {"1048576": 0.2, "8388608": -0.25, "16777216": -0.1},
    "NCCL_SOCKET_NTHREADS": {"2": -0.05, "4": -0.2, "8": -0.1}
  },
  "fails": [
    {"when": {"NCCL_MAX_NCHANNELS": "32"}, "how": "crash"},
    {"when": {"NCCL_NET_GDR_READ": "1"}, "how": "hang"},
    {"when": {"NCCL_IB_QPS_PER_CONNECTION": "16"}, "how": "wrong"}
  ]
}"#;
const FLAT: &str = r#"{"seed": 9, "launch_noise": 0.01, "batch_noise": 0.03}"#;

struct Bed {
    folder: TempDir,
}

impl Bed {
    fn new(landscape: &str) -> Bed {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("landscape.json"), landscape).unwrap();
        Bed { folder }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(BUSBW);
        command.args(line.split_whitespace()).stdin(Stdio::null());
        command.env("BUSBW_FAKE", self.folder.path().join("landscape.json"));
        command.env("XDG_DATA_HOME", self.folder.path());
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NCCL_")) {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, line: &str) -> Output {
        // Each ends within its --time, and the wait of a launch that hangs.
        self.command(line).output().unwrap()
    }
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

fn environment(tuned: &Value) -> Vec<String> {
    let all = tuned["outcome"]["environment"].as_array().unwrap().iter();
    all.map(|one| {
        format!("{}={}", one["name"].as_str().unwrap(), one["value"].as_str().unwrap_or(""))
    })
    .collect()
}

/// How each failure is named, once each.
fn failures(tuned: &Value) -> Vec<String> {
    let all = tuned["outcome"]["disqualified"].as_array().unwrap().iter();
    let mut all: Vec<String> = all.map(|one| one["failure"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn the_ladder_finds_both_settings_and_survives_what_fails() {
    let bed = Bed::new(LANDSCAPE);
    let output = bed.run("tune all_reduce --backend fake -g 4 -T 1 --time 90s --yes --json");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let tuned = json(&output);
    let set = environment(&tuned);
    assert!(set.contains(&"NCCL_BUFFSIZE=8388608".to_owned()), "{set:?}");
    assert!(set.contains(&"NCCL_SOCKET_NTHREADS=4".to_owned()), "{set:?}");
    assert_eq!(failures(&tuned), ["crashed", "hung", "wrong_result"]);
    let compared = &tuned["outcome"]["best"]["compared"];
    assert!(compared["p"].as_f64().unwrap() < 0.001);
    assert!(compared["gain"].as_f64().unwrap() > 0.3);
    assert_eq!(tuned["rungs_left_out"].as_array().unwrap().len(), 6);
    let said = String::from_utf8_lossy(&output.stderr);
    let kept = said.lines().find_map(|line| line.split_once("again: busbw show ")).unwrap().1;
    assert_eq!(json(&bed.run(&format!("show {kept} --json"))), tuned);
    let id = Path::new(kept).file_stem().unwrap().to_str().unwrap();
    assert_eq!(json(&bed.run(&format!("show {id} --json"))), tuned);
    let listed = bed.run("list");
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.contains("ok; tuning") && listed.contains(id), "{listed}");
    let choices = bed.run(&format!("tune --show {id}"));
    let why = String::from_utf8_lossy(&choices.stderr);
    assert!(why.contains("made no tuner's file"), "{why}");
    let table = bed.run(&format!("show {kept}"));
    let table = String::from_utf8_lossy(&table.stdout);
    assert!(table.contains("export NCCL_BUFFSIZE=8388608"), "{table}");
    let page = bed.run(&format!("report {kept} -o -"));
    let page = String::from_utf8(page.stdout).unwrap();
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let section = &data["tunings"][0];
    let lengths =
        [&section["launches"], &tuned["history"]].map(|all| all.as_array().unwrap().len());
    assert_eq!(lengths[0], lengths[1]);
    assert!(section["set"].as_str().unwrap().contains("export NCCL_BUFFSIZE=8388608"), "{section}");
}

#[test]
fn a_search_recommends_it_too_in_forms_that_can_be_pasted() {
    let bed = Bed::new(LANDSCAPE);
    let output =
        bed.run("tune --search all_reduce --backend fake -g 4 -T 1 --time 90s --yes -b 1M -e 1M");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "export NCCL_BUFFSIZE=8388608",
        "export NCCL_SOCKET_NTHREADS=4",
        "# /etc/nccl.conf",
        "- name: NCCL_BUFFSIZE",
        "srun --export=ALL,",
        "by leaving out one at a time",
        "what remains",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// Of calls the variables of launches of their own: the fake backend has neither a configuration of calls nor a tuner.
#[test]
fn a_search_by_call_finds_the_protocol_that_helps() {
    let landscape = r#"{
      "seed": 3, "launch_noise": 0.01, "batch_noise": 0.02,
      "variables": {"NCCL_PROTO": {"LL": -0.3, "Simple": 0.1}}
    }"#;
    let bed = Bed::new(landscape);
    let line =
        "tune --search all_reduce --backend fake -g 2 -T 1 --time 60s --yes -b 1M -e 1M --json";
    let tuned = json(&bed.run(line));
    assert_eq!(environment(&tuned), Vec::<String>::new());
    let choice = &tuned["by_call"]["choices"][0];
    let algorithm = choice["environment"][0]["value"].as_str().unwrap_or_default();
    assert!(algorithm.ends_with("_LL"), "{choice}");
    assert!(choice["compared"]["gain"].as_f64().unwrap() > 0.2, "{choice}");
}

#[test]
fn nothing_is_recommended_where_nothing_helps() {
    let bed = Bed::new(FLAT);
    let output = bed.run("tune --backend fake -g 4 --time 90s --yes -b 1M -e 16M -f 16");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("leave them"), "{text}");
    assert!(!text.contains("export "), "{text}");
}

#[test]
fn an_interrupted_ladder_goes_on_to_the_same_end() {
    let whole = Bed::new(LANDSCAPE);
    // One value hangs, after launch 30: there is time to interrupt.
    let line = "tune all_reduce --backend fake -g 4 -T 1 --time 90s --yes --json";
    let expected = environment(&json(&whole.run(line)));

    let bed = Bed::new(LANDSCAPE);
    let mut command = bed.command(line);
    // A file never fills, whatever is read first.
    let answer = bed.folder.path().join("answer.json");
    let stdout = Stdio::from(fs::File::create(&answer).unwrap());
    let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let began = said.by_ref().map(Result::unwrap).any(|line| line.contains("launch 30:"));
    assert!(began, "it ended before launch 30");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{rest:?}");
    let cut: Value = serde_json::from_slice(&fs::read(&answer).unwrap()).unwrap();
    assert_eq!(cut["interrupted"], Value::Bool(true));
    assert!(cut["outcome"].is_null());
    let again = rest.iter().find_map(|line| line.split_once("--resume ")).unwrap().1;

    let mut other = bed.command(&format!("tune --resume {again} --json"));
    let other = other.env("NCCL_BUFFSIZE", "1048576").output().unwrap();
    let why = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{why}");
    assert!(why.contains("it began with not set, and now it is NCCL_BUFFSIZE=1048576"), "{why}");
    let listed = bed.run("list");
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.contains("still running; tuning"), "{listed}");

    let resumed = bed.run(&format!("tune --resume {again} --json"));
    assert_eq!(resumed.status.code(), Some(0), "{}", String::from_utf8_lossy(&resumed.stderr));
    let resumed = json(&resumed);
    assert_eq!(environment(&resumed), expected);
    let launches = cut["history"].as_array().unwrap().len();
    assert!(launches >= 29 && resumed["history"].as_array().unwrap().len() > launches);
}

/// Rows of these collectives have sizes that are rounded to the ranks' shares.
#[test]
fn any_number_of_ranks_is_tuned() {
    let bed = Bed::new(LANDSCAPE);
    let line = "tune reduce_scatter --backend fake -g 3 -b 1M -e 1M -T 1 --trials 60 --yes --json";
    let output = bed.run(line);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let tuned = json(&output);
    let size = tuned["history"][0]["times"][0]["size"].as_u64().unwrap();
    assert!(size < 1 << 20 && size.is_multiple_of(3), "{size}");
}

#[test]
fn it_says_why_it_does_not_begin() {
    let bed = Bed::new(FLAT);
    let said = |line: &str, code: i32| {
        let output = bed.run(line);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        text
    };
    let asked = said("tune --backend host -g 2 -e 64K", 5);
    assert!(asked.contains("--yes") && asked.contains("launches"), "{asked}");
    let host = said("tune --backend host -g 2 -e 64K --yes", 5);
    assert!(host.contains("host has no settings that busbw tunes"), "{host}");
    let unknown = said("tune --backend fake -g 2 -x NCCL_FOO=1,2", 2);
    assert!(unknown.contains("nothing unknown is tried"), "{unknown}");
    assert!(!unknown.contains("first launch"), "{unknown}");
    let harmful = said("tune --backend fake -g 2 -x NCCL_PROTO=LL128", 2);
    assert!(harmful.contains("chooses algorithm and protocol by size"), "{harmful}");
    let file = said("tune --resume nothing.json", 2);
    assert!(file.contains("--resume nothing.json"), "{file}");
    assert!(!Path::new("nothing.json").exists());
}
