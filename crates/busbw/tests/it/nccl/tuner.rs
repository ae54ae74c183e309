//! `--tuner` and busbw's tuner under the shims' NCCL, which loads, asks and logs as NCCL does: what each release chooses,
//! and what makes a run fail.
//! Not two hosts (tests/tuner.sh), and not a real NCCL (tests/gpu/tuner.sh).

use std::path::Path;

use super::shims::{LIMIT, bench, folder, run, well};

/// One choice a size: LL128 at 64 KiB, for which the shim has costs, and nothing above 128 KiB.
const FILE: &str = "\
# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks
allreduce,0,8192,tree,simple,4,1,2
allreduce,8193,131072,ring,ll128,2,-1,-1
allreduce,0,18446744073709551615,tree,ll,9,-1,3
";
const SIZES: &str = "-g 2 -b 4K -e 1M -f 16 -n 2 --batches 1";

fn written(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuner.csv");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (folder, file)
}

/// What NCCL's log says of 4 KiB, 64 KiB and 1 MiB.
fn chosen(words: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let record = well(words, variables).read_record();
    let of = |row: &busbw_core::record::Row| {
        row.out_of_place.as_ref().unwrap().figures.algorithm.clone().unwrap()
    };
    record.rows.iter().map(of).collect()
}

#[test]
fn every_release_takes_what_the_file_says() {
    let (_folder, file) = written(FILE);
    let words = format!("all_reduce {SIZES} --tuner {file}");
    for version in ["22203", "22304", "22703", "22809", "23007", "23203", "23206"] {
        let choices = chosen(&words, &[("BUSBW_SHIM_NCCL_VERSION", version)]);
        assert_eq!(
            choices,
            ["TREE SIMPLE, channels 0-3", "RING LL128, channels 0-1", "RING SIMPLE, channels 0-23"],
            "{version}"
        );
    }
    // v2 has no costs, by which to know whether LL128 is safe: the choice there is the shim's own.
    let choices = chosen(&words, &[("BUSBW_SHIM_NCCL_VERSION", "22105")]);
    assert_eq!(choices[..2], ["TREE SIMPLE, channels 0-3", "RING LL128, channels 0-2"]);
    // Where NCCL's costs say that LL128 cannot run, nothing is touched.
    let choices = chosen(&words, &[("BUSBW_SHIM_NO_LL128", "1")]);
    assert_eq!(choices[..2], ["TREE SIMPLE, channels 0-3", "RING SIMPLE, channels 0-2"]);
}

#[test]
fn the_log_names_the_tuner_and_the_file() {
    let (folder, file) = written(FILE);
    let log = folder.path().join("nccl.log");
    let variables = [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_DEBUG_SUBSYS", "INIT,TUNING"),
        ("NCCL_DEBUG_FILE", log.to_str().unwrap()),
    ];
    let words = format!("all_reduce_perf {SIZES} -c 0 --tuner {file}");
    let mut logged = bench(&words, &variables);
    logged.also_writes = Some(folder.path().to_owned());
    logged.start().end(LIMIT).exits(0).says("NCCL asks busbw's tuner: 3 lines of");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("TUNER/Plugin: Using busbw (v5)"), "{log}");
    assert!(log.contains("TUNER/busbw: 2 of 3 entries of"), "{log}");
    assert!(log.contains("for this communicator of 2 ranks on 1 node"), "{log}");
}

#[test]
fn what_cannot_be_used_ends_the_run() {
    let (_folder, file) =
        written("allreduce,0,9,ring,ll,4,-1,-1\nallreduce,0,9,ring,eager,4,-1,-1\n");
    let words = format!("all_reduce {SIZES} --tuner {file}");
    run(&words, &[]).exits(2).says("line 2: protocol \"eager\" is none of ll, ll128, simple");
    let (_folder, file) = written(FILE);
    let words = format!("all_reduce {SIZES} --tuner {file}");
    run(&words, &[("NCCL_TUNER_PLUGIN", "example")]).exits(2).says("set BUSBW_TUNER_BEFORE");
    // The plugin's own refusal, in NCCL's init: the communicator fails, and its sentence is the run's.
    run(&words, &[("BUSBW_TUNER_BEFORE", "/nowhere.so")])
        .exits(3)
        .says("cannot load /nowhere.so, the tuner of BUSBW_TUNER_BEFORE");
    let older = folder().join("nccl-2.18/libnccl.so.2");
    run(&format!("{words} --nccl {}", older.display()), &[])
        .exits(3)
        .says("needs NCCL 2.21 or newer");
}

/// `busbw plugin path tuner` writes a library of its own, and `profiler` another.
#[test]
fn its_path_is_printed() {
    let cache = tempfile::tempdir().unwrap();
    let path = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_busbw"));
        let output = command.args(words).env("XDG_CACHE_HOME", cache.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let tuner = path(&["plugin", "path", "tuner"]);
    assert!(tuner.ends_with("/libnccl-tuner-busbw.so") && Path::new(&tuner).is_file());
    let profiler = path(&["plugin", "path", "profiler"]);
    assert!(profiler.ends_with("/libnccl-profiler-busbw.so") && Path::new(&profiler).is_file());
    let net = path(&["plugin", "path"]);
    assert!(net.ends_with("/libnccl-net-busbw.so"));
    assert_eq!(path(&["plugin", "path", "net"]), net);
}
