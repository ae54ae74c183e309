//! Environments: all combinations, in turns, compared; those that fail, those that NCCL would not read.
//! Not how a sweep ends early (`ends`).

use serde_json::Value;

use super::command::{on_shims, run};

/// Every line but the one with the time that it took.
fn timeless(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("# took ")).map(|l| format!("{l}\n")).collect()
}

/// The cost model's times are exact: so is the whole table.
#[test]
fn a_table_of_a_cost_model() {
    let ended = run(
        "sweep -x NCCL_ALGO=unset,Ring -x NCCL_PROTO=LL all_reduce --backend fake -g 8 -b 1M -e 16M -f 4 --baseline 1",
        &[("NCCL_ALGO", "Tree")],
    );
    ended.exits(0);
    let (head, rest) = ended.stdout.split_once('\n').unwrap();
    assert!(
        head.starts_with("# busbw sweep: all_reduce_perf, 8 ranks on fake (fake), host "),
        "{head}"
    );
    let expected = "\
# busbw in GB/s, out of place; medians of 6 launches in turns, ± half their 95 % interval
# ×: times as fast as the baseline; + faster, - slower, = the same, ? not decided by these launches
#
# 1: NCCL_ALGO not set NCCL_PROTO=LL (baseline)
# 2: NCCL_ALGO=Ring NCCL_PROTO=LL
#
# size       1   ±%       2   ±%      ×
    1M   20.63  0.0   20.63  0.0  1.00=
    4M   70.69  0.0   70.69  0.0  1.00=
   16M  179.74  0.0  179.74  0.0  1.00=
#
# fastest: not decided at 1M to 16M (1, 2); overall none
";
    assert_eq!(timeless(rest), expected);
}

#[test]
fn launches_alternate_and_have_the_environment() {
    let ended = run(
        "sweep -x NCCL_ALGO=Ring,unset all_reduce --backend fake -g 2 -b 8 -e 8 --launches 3 --record {home}/kept --json",
        &[("NCCL_ALGO", "Tree")],
    );
    let outcome = ended.exits(0).json();
    let order: Vec<&str> = ended
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("busbw: launch ")?.split(": ").nth(1))
        .map(|rest| rest.split(',').next().unwrap())
        .collect();
    assert_eq!(order, ["1", "2", "2", "1", "1", "2"], "{ended}");
    for (number, expected) in [Some("Ring"), None].into_iter().enumerate() {
        let environment = &outcome["environments"][number];
        let records = environment["records"].as_array().unwrap();
        assert_eq!(records.len(), 3, "{environment}");
        for record in records {
            let text = std::fs::read_to_string(record.as_str().unwrap()).unwrap();
            let run: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            assert_eq!(run["environment"]["NCCL_ALGO"].as_str(), expected);
        }
        let samples = outcome["rows"][0]["cells"][number]["launches_us"].as_array().unwrap();
        assert_eq!(samples.len(), 3);
    }
    // The table comes from the result alone.
    let folder = ended.home.path().join("kept");
    let shown = run(&format!("show {} --json", folder.display()), &[]);
    assert_eq!(shown.exits(0).stdout, ended.stdout);
    run(&format!("show {}", folder.display()), &[])
        .exits(0)
        .prints("# size       1  ±%       2  ±%\n");
}

#[test]
fn the_host_in_the_data_folder() {
    let ended = run(
        "sweep -x NCCL_ALGO=Ring,Tree sendrecv --backend host -g 2 -b 1K -e 1K --launches 1 --csv",
        &[],
    );
    ended.exits(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{ended}");
    assert!(lines[1].starts_with("1,NCCL_ALGO=Ring,1024,,1,"), "{ended}");
    let data = ended.home.path().join(".local/share/busbw");
    let count = |folder: &str| std::fs::read_dir(data.join(folder)).unwrap().count();
    assert_eq!((count("runs"), count("sweeps")), (2, 1));
}

/// One that fails says why, and the others go on.
#[test]
fn a_failing_environment() {
    let ended = run(
        "sweep -x NCCL_TESTS_MIN_BW=unset,1000000 all_reduce --backend fake -g 2 -b 8 -e 8 --launches 2",
        &[],
    );
    ended.exits(7);
    ended.prints(
        "#    FAILED (exit 7): the average bus bandwidth, 0.00 GB/s, misses NCCL_TESTS_MIN_BW\n",
    );
    assert_eq!(ended.stderr.matches("busbw: launch ").count(), 2, "{ended}");
    let ended = on_shims(
        "sweep -x BUSBW_SHIM_INIT_ERROR=0:0:5,unset all_reduce -g 2 -b 1K -e 1K --launches 2 --json",
        &[],
    );
    let outcome = ended.exits(3).json();
    let failed = &outcome["environments"][0]["failed"];
    assert_eq!(failed["exit"], 3);
    assert!(failed["reason"].as_str().unwrap().contains("rank 0"), "{failed}");
    assert_eq!(outcome["environments"][1]["launches"], 2);
}

/// A difference that is there is measured, and is the other way round from the other side. How sure it is
/// depends on who else uses this machine; only the wrong verdict is excluded.
#[test]
fn slower_and_faster() {
    for (baseline, other, wrong) in [(1, 1, "faster"), (2, 0, "slower")] {
        let ended = on_shims(
            &format!(
                "sweep -x BUSBW_SHIM_OPERATION_US=2000,60000 all_reduce -g 2 -b 1K -e 1K -n 2 --batches 1 -c 0 --launches 4 --baseline {baseline} --no-record --json"
            ),
            &[],
        );
        let outcome = ended.exits(0).json();
        let against = &outcome["rows"][0]["cells"][other]["against"];
        let ratio = against["ratio"].as_f64().unwrap();
        assert!(if other == 1 { ratio > 2.0 } else { ratio < 0.5 }, "{against}");
        assert_ne!(against["verdict"], wrong);
        assert!(!ended.stderr.contains("busbw show"), "{ended}");
    }
}

/// Messages have times and bandwidths, and a barrier has no bytes; what is kept is read back.
#[test]
fn messages_and_barriers() {
    for (words, head, cell) in [
        ("latency -b 8 -e 64 -f 8", "# time of a message in us; one launch each", "time_us"),
        ("bw -b 8 -e 64 -f 8 -W 8", "# bandwidth in GB/s; one launch each", "algbw"),
        ("mbw_mr -g 4 -b 8 -e 8", "# bandwidth in GB/s; one launch each", "algbw"),
        ("barrier -g 2", "# time in us, out of place; one launch each", "time_us"),
    ] {
        let ended = run(
            &format!(
                "sweep -x A=1,2 {words} --backend host -n 20 --batches 1 --launches 1 --baseline 1 --record {{home}}/kept"
            ),
            &[],
        );
        ended.exits(0).prints(head);
        let kept = format!("{}/kept", ended.home.path().display());
        assert_eq!(run(&format!("show {kept}"), &[]).exits(0).stdout, ended.stdout);
        let outcome = run(&format!("show {kept} --json"), &[]).json();
        for row in outcome["rows"].as_array().unwrap() {
            let shown = row["cells"][1][cell].as_f64().unwrap();
            assert!(shown > 0.0, "{row}");
            assert!(ended.stdout.contains(&format!("  {shown:.2}")) || shown < 0.1, "{ended}");
        }
    }
}

#[test]
fn what_nccl_does_not_read_is_said_once() {
    let ended = run(
        "sweep -x NCCL_IMEX_ENABLE=0,1 all_reduce --backend fake -g 2 -b 8 -e 8 --launches 2",
        &[],
    );
    assert_eq!(
        ended.exits(0).stderr.matches("NCCL_IMEX_ENABLE=1: no NCCL release reads it").count(),
        1
    );
}

#[test]
fn refused_before_anything_is_started() {
    for (words, text) in [
        ("sweep all_reduce", "-x"),
        ("sweep -x A all_reduce", "write it as NAME=VALUE,VALUE"),
        ("sweep -x A=1 all_rduce", "all_rduce is no benchmark: did you mean all_reduce?"),
        ("sweep -x A=1 show", "show is no benchmark: one of all_reduce"),
        ("sweep -x A=1 pairs", "run it in each environment by itself"),
        ("sweep -x A=1 osu_xccl_bw", "name bw, the same test"),
        ("sweep -x A=1 osu_allreduce", "name all_reduce, the same test"),
        ("sweep -x A=1 bw --show busbw", "bw has algbw and time"),
        ("sweep -x A=1 all_reduce --repeat 2", "--launches counts launches"),
        ("sweep -x A=1 all_reduce -N 0", "--launches counts launches"),
        ("sweep -x A=1 all_reduce --bogus", "--bogus"),
        ("sweep -x A=1,2 all_reduce --baseline 3", "there is 1, 2"),
        ("sweep -x A=1 all_reduce -b 8 -e 4", "-b is 8 bytes"),
        ("transports all_reduce --only smoke", "there is shm"),
    ] {
        let ended = run(&format!("{words} --backend fake"), &[]);
        ended.exits(2).says(text);
        assert_eq!(ended.stdout, "", "{words}");
    }
}

/// Two processes as torchrun starts them: process 0 orders each launch and prints, both exit with its code. A mistake is
/// said once.
#[test]
fn in_a_launchers_job_each_process_starts_its_part() {
    for (words, code) in [
        ("sweep -x NCCL_X=1,2 all_reduce --launches 2 --json -b 4K -e 4K --backend net", 0),
        ("transports all_reduce --launches 2 --json -b 4K -e 4K --backend net", 0),
        ("sweep -x NCCL_X=1 all_reduce -H a:1,b:1", 2),
        ("sweep -x NCCL_X=1 all_reduce --backend mpi", 2),
    ] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = port.to_string();
        let of_rank = |rank: &'static str| {
            let variables = [
                ("RANK", rank),
                ("LOCAL_RANK", rank),
                ("WORLD_SIZE", "2"),
                ("LOCAL_WORLD_SIZE", "2"),
                ("MASTER_ADDR", "127.0.0.1"),
                ("MASTER_PORT", &port),
                ("BUSBW_JOB_SECRET", "sweep"),
            ];
            run(&format!("{words} --no-record"), &variables)
        };
        let [first, second] = std::thread::scope(|scope| {
            ["0", "1"].map(|rank| scope.spawn(move || of_rank(rank))).map(|one| one.join().unwrap())
        });
        if words.ends_with("--backend mpi") && first.code == Some(5) {
            println!("waived: {words}: there is no MPI library here");
            continue;
        }
        first.exits(code);
        second.exits(code);
        assert_eq!(second.stdout, "", "{words}");
        if code == 0 {
            let environments = first.json()["environments"].as_array().unwrap().clone();
            let ran = environments.iter().filter(|one| one["launches"] == 2);
            assert_eq!(ran.count(), if words.starts_with("sweep") { 2 } else { 1 }, "{first}");
        } else {
            assert!(!second.stderr.contains("leave out"), "{second}");
            first.says("leave");
        }
    }
}
