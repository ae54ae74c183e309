//! `busbw replay` and `busbw tune --replay`: a job's calls from real traces and made-up ones, on processors.
//! Not how traces are read (`busbw_logs::trace`).

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sweep::command::{Ended, on_shims, run};

/// A dump of PyTorch's flight recorder: what each call is, its elements and when it was made, microseconds; ranks.
fn dump(folder: &TempDir, calls: &[(&str, u64, u64)], ranks: &str) -> String {
    let entries: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(number, (name, elements, at))| {
            json!({
                "process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": 0,
                "profiling_name": name, "time_created_ns": 1000 * at, "duration_ms": 0.25,
                "input_sizes": [[elements]], "input_dtypes": ["Float"],
                "output_sizes": [[elements]], "output_dtypes": ["Float"],
            })
        })
        .collect();
    let group = json!({"0": {"name": "0", "desc": "", "ranks": ranks}});
    let path = folder.path().join("fr_trace_rank_0");
    let dump = json!({"version": "2.10", "pg_config": group, "entries": entries});
    fs::write(&path, dump.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// 20 calls of two sizes, 2 ms apart.
fn steady(folder: &TempDir) -> String {
    let call =
        |n: u64| ("nccl:all_reduce", if n.is_multiple_of(4) { 65_536 } else { 64 }, 2000 * n);
    dump(folder, &(0..20).map(call).collect::<Vec<_>>(), "[0, 1]")
}

/// The rows of `--json`.
fn rows(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["kind"] == "row").collect()
}

fn time(row: &Value) -> f64 {
    row["out_of_place"]["time_us"].as_f64().unwrap()
}

#[test]
fn the_sequence_has_its_gaps_and_its_classes_are_rows() {
    let folder = TempDir::new().unwrap();
    let trace = steady(&folder);
    let ended = run(&format!("replay {trace} --backend host -g 2 --batches 3 --json"), &[]);
    ended.exits(0);
    let all = rows(&ended);
    let told = |row: &Value| {
        [&row["benchmark"], &row["size"], &row["count"]].map(|value| value.to_string()).join(" ")
    };
    assert_eq!(
        all.iter().map(told).collect::<Vec<_>>(),
        [r#""replay" 1314560 20"#, r#""all_reduce" 262144 65536"#, r#""all_reduce" 256 64"#],
        "{ended}"
    );
    // 19 gaps of 2 ms.
    assert!(time(&all[0]) >= 38_000.0, "{ended}");
    let inside = 5.0 * time(&all[1]) + 15.0 * time(&all[2]);
    assert!(inside > 0.0 && inside <= time(&all[0]), "{ended}");
    for class in &all[1..] {
        assert_eq!(class["out_of_place"]["wrong"], 0, "{ended}");
        assert_eq!(class["out_of_place"]["batches_us"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn a_real_log_is_replayed_and_shown_again() {
    let log =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../logs/src/trace/data/nccl_2.27.7_two_ranks.log");
    let ended = run(
        &format!("replay {log} --backend host -g 2 --batches 1 --record {{home}}/record.jsonl"),
        &[],
    );
    ended.exits(0).prints("in their order, of ").prints("the sequence").says("has no times");
    let record = ended.home.path().join("record.jsonl");
    let again = run(&format!("show {}", record.display()), &[]);
    assert_eq!(again.exits(0).stdout, ended.stdout);
}

#[test]
fn what_cannot_be_replayed_is_counted_or_refused() {
    let folder = TempDir::new().unwrap();
    let trace = steady(&folder);
    run(&format!("replay {trace} --backend host -g 3"), &[])
        .exits(2)
        .says("no call of the trace can be replayed here: communicators of 2 ranks: the 3 here cannot be split so (20)");
    for (words, why) in [
        ("-b 8", "-b is not for replay: the trace says what is called"),
        ("-n 5", "--batches counts passes over the calls"),
        ("--latency", "every call of a sequence is waited for"),
    ] {
        run(&format!("replay {trace} --backend host -g 2 {words}"), &[]).exits(2).says(why);
    }
    run("replay --backend host -g 2", &[]).exits(2).says("<TRACE>");
    run("replay {home} --backend host -g 2", &[]).exits(2).says("no file was a trace");
    // The last calls.
    let ended =
        run(&format!("replay {trace} --backend host -g 2 --calls 3 --no-gaps --batches 1"), &[]);
    ended.exits(0).prints("3 calls of").prints("without gaps").says("the last 3 of 20 calls");
}

#[test]
fn wrong_data_of_a_class_is_found() {
    let folder = TempDir::new().unwrap();
    let trace = steady(&folder);
    let words =
        "--backend host -g 2 --batches 1 --json --fault rank=1,phase=verify,row=2,do=corrupt:5";
    let ended = run(&format!("replay {trace} {words}"), &[]);
    let all = rows(ended.exits(7));
    assert_eq!(all[2]["out_of_place"]["wrong"], 1);
}

/// A rank that is lost while it waits for the next call ends the run, as everywhere.
#[test]
fn a_lost_rank_ends_it() {
    let folder = TempDir::new().unwrap();
    let trace = steady(&folder);
    let ended =
        run(&format!("replay {trace} --backend host -g 2 --fault rank=1,phase=timed,do=kill"), &[]);
    ended.exits(6).says("rank 1");
}

#[test]
fn sweeps_and_tunings_replay() {
    let folder = TempDir::new().unwrap();
    let trace = steady(&folder);
    let words = "--backend host -g 2 --batches 1";
    run(&format!("sweep --launches 2 -x FOO=1,2 replay {trace} {words}"), &[])
        .exits(0)
        .prints("all_reduce")
        .prints("replay");
    let ended = run(
        &format!(
            "tune --yes --shared --json -x BUSBW_NET_THREADS=0 --backend net -g 2 --batches 1 --replay {trace}"
        ),
        &[],
    );
    let replayed = ended.exits(0).json();
    assert_eq!(replayed["calls"], 20, "{ended}");
    assert_eq!(replayed["rows"][1]["calls"], 15, "{ended}");
    let total = replayed["totals"][1]["seconds"].as_f64().unwrap();
    let sequence = replayed["sequence"]["cells"][1]["time_us"].as_f64().unwrap();
    assert!(total > 0.0 && sequence >= 38_000.0 && total < 1e-6 * sequence, "{ended}");
    assert_eq!(replayed["rows"][0]["in_job_us"], 250.0);
}

/// On stand-ins for CUDA and NCCL: the same calls, by the backend of GPUs.
#[test]
fn through_nccls_interface() {
    let folder = TempDir::new().unwrap();
    let trace = steady(&folder);
    let words = format!("replay {trace} --backend nccl -g 2 --no-gaps --batches 2 --json");
    let ended = on_shims(&words, &[]);
    let all = rows(ended.exits(0));
    assert_eq!(all.len(), 3, "{ended}");
    assert!(all[1..].iter().all(|class| class["out_of_place"]["wrong"] == 0), "{ended}");
    assert!(time(&all[0]) >= 5.0 * time(&all[1]) + 15.0 * time(&all[2]), "{ended}");
}

/// Tensor parallelism of two neighbours, data parallelism of two that are two apart, and all four, by turns.
fn of_two_axes(folder: &TempDir) -> String {
    let groups = [("1", "[2, 3]"), ("2", "[0, 2]"), ("3", "[0, 1, 2, 3]")];
    let entry = |number: u64| {
        let (group, _) = groups[number as usize % 3];
        json!({
            "process_group": [group, ""], "collective_seq_id": number, "p2p_seq_id": 0,
            "profiling_name": "nccl:all_reduce", "time_created_ns": 1_000_000 * number,
            "input_sizes": [[4096]], "input_dtypes": ["Float"],
            "output_sizes": [[4096]], "output_dtypes": ["Float"],
        })
    };
    let config: serde_json::Map<String, Value> = groups
        .iter()
        .map(|(name, ranks)| {
            ((*name).to_owned(), json!({"name": name, "desc": "", "ranks": ranks}))
        })
        .collect();
    let entries: Vec<Value> = (0..12).map(entry).collect();
    let path = folder.path().join("fr_trace_rank_2");
    let dump = json!({"version": "2.10", "pg_config": config, "entries": entries});
    fs::write(&path, dump.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The same calls on communicators of two layouts and on all ranks: data are verified on each.
#[test]
fn communicators_of_some_of_the_ranks() {
    let folder = TempDir::new().unwrap();
    let trace = of_two_axes(&folder);
    for (backend, run) in [("net", run as fn(&str, &[_]) -> Ended), ("nccl", on_shims)] {
        let words = format!("replay {trace} --backend {backend} -g 4 --no-gaps --batches 1 --json");
        let ended = run(&words, &[]);
        let all = rows(ended.exits(0));
        assert_eq!((all.len(), &all[0]["count"]), (4, &json!(12)), "{ended}");
        // Communicators need not end together: the sequence lasts until the last rank ends.
        let ranks = all[0]["out_of_place"]["batches_us"][0].as_array().unwrap().iter();
        let last = ranks.map(|us| us.as_f64().unwrap()).fold(0.0, f64::max);
        assert_eq!(time(&all[0]), last, "{ended}");
        let of: Vec<&Value> = all.iter().map(|row| &row["ranks"]).collect();
        assert_eq!(of, [4, 2, 2, 4], "{ended}");
        for class in &all[1..] {
            let half = &class["out_of_place"];
            assert_eq!(half["wrong"], 0, "{ended}");
            assert!(half["algorithm"].is_string(), "{class}");
            // Of two ranks a bus carries the bytes once, of four 1.5 times.
            let factor = half["busbw"].as_f64().unwrap() / half["algbw"].as_f64().unwrap();
            let expected = if class["index"] == 3 { 1.5 } else { 1.0 };
            assert!((factor - expected).abs() < 1e-6, "{class}");
        }
        let ended = run(&format!("replay {trace} --backend {backend} -g 4 --batches 1"), &[]);
        ended.exits(0).prints("  ranks  ").prints("2, 2 apart");
    }
    run(&format!("replay {trace} --backend host -g 4 --batches 1"), &[])
        .exits(0)
        .prints("left out: communicators of 2 ranks of 4: --backend host has one of all: 8 calls");
    // Any rank of any of them is looked at.
    let fault = "--fault rank=3,phase=verify,row=2,do=corrupt:5";
    let words = format!("replay {trace} --backend net -g 4 --batches 1 --json {fault}");
    let ended = run(&words, &[]);
    assert_eq!(rows(ended.exits(7))[2]["out_of_place"]["wrong"], 1);
}

/// On the cost model, whose calls take the same time in every run; the sequence has the clock's.
#[test]
fn the_table() {
    let folder = TempDir::new().unwrap();
    let trace = steady(&folder);
    let ended = run(&format!("replay {trace} --backend fake -g 2 --batches 2"), &[]);
    let varies = |line: &&str| {
        let is_sequence = !line.starts_with('#') && line.contains("the sequence");
        is_sequence || line.starts_with("#  Rank")
    };
    let lines = ended.exits(0).stdout.lines().filter(|line| !varies(line));
    let table = lines.collect::<Vec<_>>().join("\n").replace(&trace, "TRACE");
    insta::assert_snapshot!(table, @r"
    # busbw 0.1.0 replay: 20 calls of TRACE in their order, of a dump of PyTorch's flight recorder, 38.0 ms as recorded
    # Using devices
    #
    # time: of one call, of all calls that of the sequence; algbw and busbw in GB/s
    # of a pass 244 us are in calls
    #
    #    operation     size   type  redop  calls      time  ±%  in the job   algbw   busbw  all calls  #wrong
        all_reduce  256 KiB  float    sum      5  12.71 us   -      250 us   20.63   20.63   63.54 us       0
        all_reduce    256 B  float    sum     15  12.00 us   -      250 us  0.0213  0.0213     180 us       0
    # Out of bounds values : 0 OK
    ");
}
