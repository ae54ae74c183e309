//! Transports on the shim libraries: proven, replaced, conflicting, waived; and on the host.
//! No byte goes over any network here: what counters would show is planted, or rightly missing.

use serde_json::Value;

use super::command::{Ended, on_shims, run};

const SIZES: &str = "-b 64K -e 1M -f 4 -n 2 --batches 1 --launches 1 --json";

/// An environment of the result, by its name.
#[track_caller]
fn of<'a>(outcome: &'a Value, name: &str) -> &'a Value {
    let all = outcome["environments"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {outcome}"))
}

#[track_caller]
fn on_four(options: &str, variables: &[(&str, &str)]) -> (Ended, Value) {
    let ended = on_shims(&format!("transports all_reduce -g 4 {SIZES} {options}"), variables);
    let outcome = ended.exits(0).json();
    (ended, outcome)
}

#[test]
fn p2p_and_shm_are_proven_by_the_log() {
    let (_, outcome) = on_four("", &[]);
    for (name, found) in [("p2p", "P2P/CUMEM"), ("shm", "SHM/direct")] {
        let transport = &of(&outcome, name)["transport"];
        assert_eq!(transport["verdict"], "proven", "{transport}");
        assert_eq!(transport["found"], found, "{transport}");
        assert_eq!(transport["log"]["support"], "confirms", "{transport}");
    }
    let waived = |name: &str| of(&outcome, name)["waived"].as_str().unwrap().to_owned();
    assert!(waived("nvls").contains("no NVLink multicast"));
    assert!(waived("mnnvl").contains("one host"));
    assert!(waived("sharp").contains("no active InfiniBand port"));
    assert_eq!(outcome["baseline"], 1, "the first that runs");
}

/// NVLink's counters are planted: they grow with every reading.
fn busy_nvlink() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nvml");
    std::fs::write(&file, "* field.138 +10000000\n* field.139 +10000000\n").unwrap();
    let file = file.to_str().unwrap().to_owned();
    (folder, file)
}

#[test]
fn counters_prove_it_as_well() {
    let (_keep, file) = busy_nvlink();
    let (_, outcome) = on_four("--only p2p,shm", &[("BUSBW_SHIM_NVML_FILE", &file)]);
    let p2p = &of(&outcome, "p2p")["transport"];
    assert_eq!(
        (&p2p["verdict"], &p2p["counters"]["support"]),
        (&"proven".into(), &"confirms".into()),
        "{p2p}"
    );
    // NVLink carried so much while SHM was to: the log and the counters disagree.
    let shm = &of(&outcome, "shm")["transport"];
    assert_eq!(
        (&shm["verdict"], &shm["counters"]["support"]),
        (&"conflicting".into(), &"contradicts".into()),
        "{shm}"
    );
}

#[test]
fn one_that_nccl_replaced_says_so() {
    for (via, asked, rule) in [
        ("NET/IB/0", "socket", "NCCL prefers IB or RoCE to sockets"),
        ("P2P/CUMEM", "socket", "within a node NCCL prefers P2P to SHM"),
        ("SHM/direct/direct", "p2p", "P2P without peer access"),
    ] {
        let (_, outcome) = on_four(&format!("--only {asked}"), &[("BUSBW_SHIM_VIA", via)]);
        let all = outcome["environments"].as_array().unwrap();
        let ran = all.iter().find(|one| one["waived"].is_null()).unwrap();
        let transport = &ran["transport"];
        assert_eq!(transport["verdict"], "replaced", "{transport}");
        assert!(transport["why"].as_str().unwrap().contains(rule), "{transport}");
    }
    let ended = on_shims(
        "transports all_reduce -g 2 -b 64K -e 64K -n 2 --launches 1 --only p2p",
        &[("BUSBW_SHIM_VIA", "SHM/direct/direct")],
    );
    ended.exits(0).prints("REPLACED  SHM/direct").prints("#    asked for p2p, got SHM/direct: ");
}

/// The shims say NET/Socket and move nothing through it: the counters of lo do not agree with the log.
#[test]
fn a_log_without_bytes_is_conflicting() {
    let (_, outcome) = on_four("--only socket", &[]);
    let all = outcome["environments"].as_array().unwrap();
    let transport = &all.iter().find(|one| one["waived"].is_null()).unwrap()["transport"];
    assert_eq!(transport["log"]["support"], "confirms", "{transport}");
    assert_eq!(transport["verdict"], "conflicting", "{transport}");
}

#[test]
fn nvls_where_it_is_and_never_against_the_user() {
    let multicast = ("BUSBW_SHIM_MULTICAST", "1");
    let (_keep, file) = busy_nvlink();
    let (_, outcome) = on_four("--only nvls", &[multicast, ("BUSBW_SHIM_NVML_FILE", &file)]);
    let transport = &of(&outcome, "nvls")["transport"];
    assert_eq!(transport["verdict"], "proven", "{transport}");
    assert_eq!(transport["found"], "NVLS", "{transport}");
    // P2P would have moved as many bytes: only the log tells.
    assert_eq!(transport["counters"]["support"], "no_data", "{transport}");
    let (_, outcome) = on_four("--only nvls", &[multicast]);
    assert_eq!(of(&outcome, "nvls")["transport"]["verdict"], "conflicting", "NVLink was idle");
    let ended = on_shims(
        &format!("transports all_reduce -g 4 {SIZES} --only nvls"),
        &[multicast, ("NCCL_NVLS_ENABLE", "0")],
    );
    ended.exits(5).prints("NCCL_NVLS_ENABLE=0 is set in the environment, and is not changed");
}

#[test]
fn two_virtual_nodes() {
    let (ended, outcome) =
        on_four("--virtual-nodes 2 --only p2p,shm,socket --record {home}/kept", &[]);
    let p2p = &of(&outcome, "p2p")["transport"];
    assert_eq!((&p2p["scope"], &p2p["verdict"]), (&"within".into(), &"proven".into()), "{p2p}");
    let all = outcome["environments"].as_array().unwrap();
    let socket = |one: &&Value| {
        one["name"].as_str().unwrap().starts_with("socket") && one["waived"].is_null()
    };
    let socket = all.iter().find(socket).unwrap();
    assert_eq!(socket["transport"]["scope"], "between");
    assert_eq!(socket["transport"]["log"]["support"], "confirms", "{socket}");
    let record = std::fs::read_to_string(ended.home.path().join("kept/p2p-1.jsonl")).unwrap();
    let library = record.lines().find(|line| line.contains("\"kind\":\"library\"")).unwrap();
    let facts: Value = serde_json::from_str(library).unwrap();
    let rank = &facts["communicators"][0]["ranks"][0];
    assert_eq!(
        rank["nodes"].as_u64().or(facts["communicators"][0]["nodes"].as_u64()),
        Some(2),
        "{facts}"
    );
}

/// Messages of two ranks: what must have moved are the windows that were sent.
#[test]
fn messages_between_two_ranks() {
    let (_keep, file) = busy_nvlink();
    let two = |options: &str| {
        let words = format!("transports bw -g 2 {SIZES} {options}");
        on_shims(&words, &[("BUSBW_SHIM_NVML_FILE", &file)]).exits(0).json()
    };
    let outcome = two("--only p2p,nvls");
    let p2p = &of(&outcome, "p2p")["transport"];
    let said = (&p2p["verdict"], &p2p["log"]["support"], &p2p["counters"]["support"]);
    assert_eq!(said, (&"proven".into(), &"confirms".into(), &"confirms".into()), "{p2p}");
    // Windows of 64 messages, two timed and one untimed.
    let sizes = f64::from((64 << 10) + (256 << 10) + (1 << 20));
    assert_eq!(p2p["moved"]["required"].as_f64(), Some(3.0 * 64.0 * sizes), "{p2p}");
    assert!(p2p["limit"].as_str().unwrap().contains("not for bw"), "{p2p}");
    assert_eq!(outcome["show"], "algbw");
    assert_eq!(of(&outcome, "nvls")["waived"], "NCCL has no NVLS for bw");
    let apart = two("--virtual-nodes 2 --only p2p,socket");
    assert!(of(&apart, "p2p")["waived"].as_str().unwrap().contains("different nodes"));
    let all = apart["environments"].as_array().unwrap();
    let is_named = |one: &&Value| one["transport"]["log"]["support"] == "confirms";
    assert_eq!(all.iter().filter(is_named).count(), 1, "{apart}");
    let here = run(&format!("transports latency --backend host {SIZES}"), &[]).exits(0).json();
    assert_eq!(of(&here, "shm")["transport"]["verdict"], "proven");
}

#[test]
fn virtual_nodes_must_come_out_even() {
    let words = "transports all_reduce -g 3 -b 1K -e 1K --launches 1 --virtual-nodes 2 --only p2p";
    on_shims(words, &[]).exits(2).prints("3 ranks cannot be dealt out evenly");
    on_shims("all_reduce_perf -t 2 --virtual-nodes 2", &[])
        .exits(2)
        .says("each rank needs a process");
}

#[test]
fn the_host_has_what_it_has() {
    let ended = run("transports all_reduce --backend host -g 2 -b 1K -e 1K --launches 1", &[]);
    ended.exits(0).prints("shared memory  busbw itself").prints("is the net backend's");
    run("transports all_reduce --backend host -g 2 --only net", &[]).exits(5);
}

/// What cannot be compared with is said before anything runs.
#[test]
fn a_baseline_must_be_able_to_run() {
    run("transports all_reduce --backend host -g 2 -b 1K -e 1K --baseline net", &[])
        .exits(5)
        .says("--baseline net: it cannot run here");
}

/// One rank moves nothing to another: nothing can be proven, on any backend.
#[test]
fn one_rank_proves_nothing() {
    let ended = run("transports all_reduce --backend host -g 1 -b 1K -e 1K --launches 1", &[]);
    ended.exits(5).prints("shm: WAIVED: one rank: there is no peer");
}

/// NCCL's log does not say to which communicator a connection belongs.
#[test]
fn several_communicators_are_refused() {
    let split = [("NCCL_TESTS_SPLIT", "MOD 2")];
    run("transports all_reduce --backend host -g 4 -b 1K -e 1K --launches 1", &split)
        .exits(2)
        .says("NCCL_TESTS_SPLIT makes several communicators");
}

/// A log that is not in the record, since the user's NCCL_DEBUG took it elsewhere, proves nothing.
#[test]
fn without_a_log_nothing_is_proven() {
    let (_, outcome) = on_four("--only shm", &[("NCCL_DEBUG", "WARN")]);
    let transport = &of(&outcome, "shm")["transport"];
    assert_eq!(transport["verdict"], "unproven", "{transport}");
    assert!(transport["limit"].is_string(), "{transport}");
}
