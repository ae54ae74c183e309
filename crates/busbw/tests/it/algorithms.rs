//! The cache of measured algorithms from outside: whatever lies in it, or when it cannot be written, a
//! run goes on and its results are right.
//! Not which algorithm is fast, and not the algorithms (tests of `busbw-shm`).

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use busbw_core::{
    Collective,
    algorithm::{Choice, Table},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cache folder of our own.
struct Cache(TempDir);

impl Cache {
    fn new() -> Cache {
        Cache(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("busbw/algorithms.json")
    }

    /// Writes `entries`, each of them `tables` of this machine.
    fn hold(&self, tables: &Value) {
        let mut entry = self.measured();
        entry["tables"] = tables.clone();
        self.write(json!([entry]).to_string().as_bytes());
    }

    fn write(&self, text: &[u8]) {
        fs::create_dir_all(self.file().parent().unwrap()).unwrap();
        fs::write(self.file(), text).unwrap();
    }

    fn measured(&self) -> Value {
        serde_json::from_slice(&busbw(self.0.path(), "algorithms --json").stdout).unwrap()
    }
}

fn command(cache: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
    command.args(line.split_whitespace());
    command.env("BUSBW_NO_RECORD", "1").env("XDG_CACHE_HOME", cache);
    command
}

fn busbw(cache: &Path, line: &str) -> Output {
    command(cache, line).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs with this cache, twice, and expects right results.
fn runs(cache: &Cache, collective: &str, what: &str) {
    for _ in 0..2 {
        let line = format!("{collective} -b 8 -e 64K -f 16 -g 2 -n 2 -w 1 --batches 1");
        let output = busbw(cache.0.path(), &line);
        assert_eq!(output.status.code(), Some(0), "{what}: {}", stderr(&output));
    }
}

#[test]
fn nonsense_in_the_cache_costs_only_a_measurement() {
    let cache = Cache::new();
    let text: [&[u8]; 5] = [b"", b"{}", b"[[[[", b"\xff\0", b"[{\"cpu\": 1}]"];
    for text in text {
        cache.write(text);
        runs(&cache, "all_reduce", &String::from_utf8_lossy(text));
        assert_eq!(cache.measured()["tables"][0]["collective"], "all_reduce");
    }
    let table = |collective: &str, steps: Value| json!([{"collective": collective, "ranks": 2, "measured_to": u64::MAX, "steps": steps}]);
    let way = |algorithm: &str| json!({"algorithm": algorithm, "streamed": false});
    for (collective, steps) in [
        ("all_reduce", json!([])),
        ("all_reduce", json!([[5, way("slot")]])),
        ("all_reduce", json!([[0, way("push")]])),
        ("all_reduce", json!([[0, way("slot")], [u64::MAX, way("pull")], [3, way("share")]])),
        ("hypercube", json!([[0, way("slot")]])),
        ("gather", json!([[0, way("share")]])),
        ("all_reduce", json!([[-1, way("slot")]])),
        ("all_reduce", json!([[0, way("magic")]])),
    ] {
        let tables = table(collective, steps);
        cache.hold(&tables);
        runs(&cache, collective, &tables.to_string());
        let kept: Table = serde_json::from_value(cache.measured()["tables"][0].clone()).unwrap();
        assert!(kept.is_sound() && kept.measured_to <= 64 << 10, "{kept:?}");
    }
}

/// One that names a way where it cannot run: the others of the table, or any, take its place.
#[test]
fn slots_at_any_size_are_right_too() {
    let cache = Cache::new();
    for collective in Collective::ALL {
        let first = Choice::of(collective).next().unwrap();
        let table = Table { collective, ranks: 2, measured_to: u64::MAX, steps: vec![(0, first)] };
        cache.hold(&json!([table]));
        runs(&cache, collective.name(), collective.name());
        assert_eq!(cache.measured()["tables"], json!([table]), "not measured again");
    }
}

/// What ranks are told lies in one environment variable, which the kernel limits to 128 KiB.
#[test]
fn a_large_cache_starts_as_well() {
    let cache = Cache::new();
    let table = |ranks| Table::unmeasured(Collective::AllReduce, ranks);
    let tables: Vec<Table> = (1..2000).map(table).collect();
    cache.hold(&json!(tables));
    assert!(fs::metadata(cache.file()).unwrap().len() > 256 << 10);
    runs(&cache, "all_reduce", "many tables");
    assert_eq!(cache.measured()["tables"].as_array().unwrap().len(), tables.len());
}

#[test]
fn without_a_cache_runs_go_on_and_measuring_fails() {
    let nowhere = Path::new("/dev/null");
    let line = "all_reduce -b 8 -e 1K -f 4 -g 2 -n 2 -w 1 --batches 1";
    let run = busbw(nowhere, &format!("{line} --repeat 2"));
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let said = stderr(&run).matches("cannot keep measured algorithms").count();
    assert_eq!(said, 1, "once for all launches: {}", stderr(&run));
    let measuring = busbw(nowhere, "algorithms --measure -g 2");
    assert_eq!(measuring.status.code(), Some(1));
    assert!(stderr(&measuring).contains("cannot keep measured algorithms"));
}

/// The user's own settings for runs say nothing about measuring.
#[test]
fn measuring_takes_no_settings_of_runs() {
    let cache = Cache::new();
    let output = command(cache.0.path(), "algorithms --measure -g 2 --json")
        .env("NCCL_TESTS_MIN_BW", "1e9")
        .env("NCCL_TESTS_SPLIT", "MOD 2")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tables: Vec<Table> = serde_json::from_value(measured["tables"].clone()).unwrap();
    assert_eq!(tables.len(), Collective::ALL.len());
    assert!(tables.iter().all(|t| t.ranks == 2 && t.is_sound() && t.measured_to >= 8 << 20));
}
