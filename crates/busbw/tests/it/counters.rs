//! What devices count, end to end: the whole `nccl` backend on the shims of tests/shims, with planted
//! counters. Not the reading of real devices.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use busbw_core::record::{DeviceKind, End, Folded, Row, Run};

/// The shims, built once; none without a C++ compiler.
static SHIMS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    Command::new("g++").arg("--version").output().ok()?;
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/shims/build.sh");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shims");
    let built = Command::new(build).arg(&folder).status().unwrap();
    assert!(built.success(), "the shims do not compile");
    Some(folder)
});

/// A run on four GPUs whose NVML says what is planted.
struct Planted {
    run: Run,
    rows: Vec<Row>,
    end: End,
    stdout: String,
    stderr: String,
}

/// `busbw WORDS` with the communicators of `split`, where NVML reports `planted`; none where there are no shims.
fn run(words: &str, split: &str, planted: &str) -> Option<Planted> {
    let Some(shims) = SHIMS.as_ref() else {
        println!("waived: no g++ to build the shims with");
        return None;
    };
    let home = tempfile::tempdir().unwrap();
    let (nvml, record) = (home.path().join("nvml"), home.path().join("record"));
    fs::write(&nvml, planted).unwrap();
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args(words.split_whitespace())
        .args(["--record".as_ref(), record.as_path()])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LD_LIBRARY_PATH", shims)
        .env("XDG_CACHE_HOME", home.path())
        .env("NCCL_TESTS_SPLIT", split)
        .env("BUSBW_SHIM_GPUS", "4")
        .env("BUSBW_SHIM_NVML_FILE", &nvml)
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(0), "{stderr}");
    let Folded { run, rows, end, .. } = busbw_store::read(&record).unwrap();
    Some(Planted { run, rows, end: end.unwrap(), stdout, stderr })
}

/// All ranks in one communicator.
const ONE: &str = "MOD 1";
const SWEEP: &str = "all_reduce -b 1K -e 4K -f 4 -t 4 -n 5 --batches 1";

#[test]
fn what_gpus_count_is_in_each_row() {
    let planted = "* field.138 +1000000\n* field.139 +2000000\n";
    let Some(done) = run(SWEEP, ONE, planted) else { return };
    assert_eq!(done.rows.len(), 2);
    for row in &done.rows {
        let gpus: Vec<_> = row.counters.iter().filter(|d| d.kind == DeviceKind::Gpu).collect();
        let names: Vec<&str> = gpus.iter().map(|gpu| gpu.device.as_str()).collect();
        assert_eq!(names, ["0000:10:00", "0000:11:00", "0000:12:00", "0000:13:00"]);
        // One question before the row and one after it; NVML counts KiB.
        assert!(gpus.iter().all(|gpu| gpu.grown["nvlink_tx_bytes"] == 1_024_000_000));
        assert!(gpus.iter().all(|gpu| gpu.moved() == 2_048_000_000));
        // Ranks report to the supervisor over it.
        assert!(row.counters.iter().any(|d| d.device == "lo" && d.moved() > 0));
    }
    let said = "transports set up: 96 connections P2P/direct pointer; counters: NVLink moved 8.19 GB, no network device of this host moved more than 1 % of that";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert!(
        !done.stderr.contains("throttled") && !done.stderr.contains("erred"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_row_with_an_incident_says_so() {
    let planted = "0 field.4 +1\n0 xid 79\n1 field.74 +5000000\n2 throttle 0x49\n3 field.161 +2\n";
    let Some(done) = run(SWEEP, ONE, planted) else { return };
    for size in [1024, 4096] {
        let during = format!("busbw: while all_reduce size {size} float sum was measured, ");
        for incident in [
            "memory of GPUs erred: 0000:10:00 (ecc_uncorrected 1)",
            "GPUs were throttled: 0000:11:00 (power 5.000 ms), 0000:12:00 (at the row's beginning or end: hardware slowdown, thermal slowdown by the hardware)",
            "links erred: 0000:13:00 (nvlink_replays 2)",
        ] {
            assert!(done.stderr.contains(&format!("{during}{incident}\n")), "{}", done.stderr);
        }
        let xid = format!("{during}drivers reported errors (XID): 0000:10:00 (79)\n");
        assert_eq!(done.stderr.contains(&xid), size == 1024, "{}", done.stderr);
    }
    assert!(done.stderr.contains("counters: NVLink moved nothing, lo "), "{}", done.stderr);
    assert_eq!(done.rows[0].counters[0].xids, [79]);
}

#[test]
fn what_cannot_be_read_is_said() {
    let Some(done) = run(SWEEP, ONE, "* field.138 !3\n2 field.75 !3\n* field.161 !3\n") else {
        return;
    };
    let unread = done.run.counted.unwrap().unread;
    let unread: Vec<(&str, usize)> = unread
        .iter()
        .filter(|unread| unread.kind == DeviceKind::Gpu)
        .map(|unread| (unread.counter.as_deref().unwrap_or("all"), unread.devices.len()))
        .collect();
    // Replays of single links stand in where there is no sum of all.
    assert_eq!(unread, [("nvlink_tx_bytes", 4), ("throttled_thermal_ns", 1)]);
    assert!(done.stderr.contains("counters: NVLink was not read ("), "{}", done.stderr);
    let Some(done) = run(SWEEP, ONE, "0 init !9\n") else { return };
    let unread = done.run.counted.unwrap().unread;
    assert!(unread[0].counter.is_none() && unread[0].reason.contains("NVML"), "{unread:?}");
    assert!(done.stderr.contains("NVLink was not read (NVML cannot be opened"), "{}", done.stderr);
}

#[test]
fn communicators_side_by_side_are_counted_once() {
    let Some(done) = run(SWEEP, "MOD 2", "* field.138 +1000000\n") else { return };
    let counted: Vec<(u64, bool)> =
        done.rows.iter().map(|row| (row.group, !row.counters.is_empty())).collect();
    assert_eq!(counted, [(0, true), (1, false), (0, true), (1, false)]);
    assert!(done.stderr.contains("NVLink moved 8.19 GB"), "{}", done.stderr);
}

#[test]
fn the_memory_line_is_about_gpus() {
    let Some(done) = run(&format!("{SWEEP} -M 1"), ONE, "") else { return };
    // Send, receive and check buffer: the shim gives whole granules of 2 MiB, and NCCL's needs nothing.
    let memory = done.end.gpu_memory.unwrap();
    assert_eq!((memory.initialization, memory.allocated, memory.collective), (0, 6 << 20, 0));
    let line = "# GPU memory usage     : Initialization 0.00 B | User-Allocated 6.00 MB | Collective 0.00 B | Total  6.00 MB\n";
    assert!(done.stdout.contains(line), "{}", done.stdout);
}

#[test]
fn memory_of_the_host_is_not_counted() {
    let record = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_busbw"))
        .args("all_reduce -b 1K -e 1K -g 2 -n 5 --batches 1 --backend host --record".split(' '))
        .arg(record.path())
        .output()
        .unwrap();
    assert!(!String::from_utf8(output.stderr).unwrap().contains("counters:"));
    let text = fs::read_to_string(record.path()).unwrap();
    assert!(!text.contains("\"counted\"") && !text.contains("\"counters\""), "{text}");
}
