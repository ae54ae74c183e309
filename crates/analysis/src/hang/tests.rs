//! Verdicts on small jobs, of each kind of evidence.
//! Not many ranks (`job_of_1024`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use busbw_logs::hang::Reader;
use serde_json::{Value, json};

use super::{HangReport, Verdict, judge};

/// A call: number, operation, elements, type, state.
type Made = (u64, &'static str, u64, &'static str, &'static str);

const S: u64 = 1_000_000_000;

fn dump(groups: &[(&str, &[u32], &[Made])]) -> Vec<u8> {
    let config: serde_json::Map<String, Value> = groups
        .iter()
        .map(|(name, list, _)| {
            ((*name).to_owned(), json!({"name": name, "desc": "pg", "ranks": format!("{list:?}")}))
        })
        .collect();
    let mut entries = Vec::new();
    for (name, _, made) in groups {
        for (number, operation, elements, dtype, state) in *made {
            entries.push(json!({
                "record_id": entries.len(), "pg_id": 0, "process_group": [name, "pg"], "collective_seq_id": number, "p2p_seq_id": 0,
                "profiling_name": format!("nccl:{operation}"), "time_created_ns": 1000 * S + number * S,
                "input_sizes": [[elements]], "input_dtypes": [dtype], "state": state, "is_p2p": false,
            }));
        }
    }
    json!({"version": "2.10", "pg_config": config, "entries": entries}).to_string().into_bytes()
}

fn verdict(dumps: &[(u32, Vec<u8>)]) -> HangReport {
    let mut reader = Reader::default();
    for (rank, bytes) in dumps {
        reader.read(bytes, &format!("rank_{rank}"), Some(1041 * S)).unwrap();
    }
    judge(&reader.finish())
}

fn named(report: &HangReport) -> Vec<u32> {
    report.ranks.iter().filter_map(|one| one.rank).collect()
}

const DONE: Made = (1, "all_reduce", 64, "Float", "completed");
const OPEN: Made = (2, "all_reduce", 128, "Float", "scheduled");

fn group(made: &[Made]) -> (&'static str, &'static [u32], &[Made]) {
    ("0", &[0, 1, 2, 3], made)
}

fn four(last: &[Made]) -> Vec<(u32, Vec<u8>)> {
    let mut all: Vec<(u32, Vec<u8>)> =
        (0..3).map(|rank| (rank, dump(&[group(&[DONE, OPEN])]))).collect();
    all.push((3, dump(&[group(last)])));
    all
}

#[test]
fn a_rank_that_never_came() {
    let report = verdict(&four(&[DONE]));
    assert_eq!((report.verdict, named(&report)), (Verdict::NeverCame, vec![3]));
    assert_eq!(
        report.sentence,
        "Rank 3 did not call all_reduce number 2 of 128 elements (Float), for which ranks 0-2 waited 39 s."
    );
    assert_eq!(report.ranks[0].behind, Some(1));
}

#[test]
fn another_size_type_and_operation() {
    for (made, expected) in [
        ((2, "all_reduce", 256, "Float", "scheduled"), Verdict::OtherSize),
        ((2, "all_reduce", 128, "Half", "scheduled"), Verdict::OtherType),
        ((2, "all_gather", 128, "Float", "scheduled"), Verdict::OtherOperation),
        // It was over for that rank alone.
        ((2, "all_reduce", 64, "Float", "completed"), Verdict::OtherSize),
    ] {
        let report = verdict(&four(&[DONE, made]));
        assert_eq!((report.verdict, named(&report)), (expected, vec![3]), "{}", report.sentence);
    }
    // Of two ranks neither is the odd one.
    let pair = |made: Made| dump(&[("0", &[0, 1], &[DONE, made])]);
    let report =
        verdict(&[(0, pair(OPEN)), (1, pair((2, "all_reduce", 256, "Float", "scheduled")))]);
    assert_eq!((report.verdict, named(&report)), (Verdict::OtherSize, vec![0, 1]));
    assert!(report.sentence.ends_with("As many say the one as the other."), "{}", report.sentence);
}

#[test]
fn all_are_in_the_call() {
    let report = verdict(&four(&[DONE, OPEN]));
    assert_eq!(
        (report.verdict, named(&report)),
        (Verdict::NetworkStopped, vec![]),
        "{}",
        report.sentence
    );
}

#[test]
fn a_rank_without_a_file_is_not_called_dead() {
    let report = verdict(&four(&[DONE])[..3]);
    assert_eq!((report.verdict, named(&report)), (Verdict::Silent, vec![3]), "{}", report.sentence);
    assert!(report.sentence.contains("or the file is missing"));
    // Of four ranks two are not there: nobody can be named.
    let report = verdict(&four(&[DONE])[..2]);
    assert_eq!(
        (report.verdict, named(&report)),
        (Verdict::Inconclusive, vec![]),
        "{}",
        report.sentence
    );
}

#[test]
fn nothing_hangs() {
    let healthy: Vec<_> = (0..4).map(|rank| (rank, dump(&[group(&[DONE])]))).collect();
    assert_eq!(verdict(&healthy).verdict, Verdict::NothingWaits);
    // Written a second after the call.
    let mut reader = Reader::default();
    for (rank, bytes) in four(&[DONE]) {
        reader.read(&bytes, &format!("rank_{rank}"), Some(1003 * S)).unwrap();
    }
    assert_eq!(judge(&reader.finish()).verdict, Verdict::Progressing);
    assert_eq!(judge(&Reader::default().finish()).verdict, Verdict::Inconclusive);
}

/// Rank 0 waits for 1 in one group, 1 for 2 in another one, and 2 is in no call.
#[test]
fn the_chain_is_followed() {
    let open = [(1, "all_reduce", 64, "Float", "scheduled")];
    let report = verdict(&[
        (0, dump(&[("a", &[0, 1], &open)])),
        (1, dump(&[("a", &[0, 1], &[]), ("b", &[1, 2], &open)])),
        (2, dump(&[("b", &[1, 2], &[]), ("c", &[2, 3], &[DONE])])),
        (3, dump(&[("c", &[2, 3], &[DONE])])),
    ]);
    assert_eq!(
        (report.verdict, named(&report)),
        (Verdict::NeverCame, vec![2]),
        "{}",
        report.sentence
    );
    assert_eq!(
        (report.stuck, report.communicators[0].communicator.as_str()),
        (2, "process group b (pg)")
    );
}

/// Rank 0 is in group a first, rank 1 in group b.
#[test]
fn ranks_that_wait_for_each_other() {
    let open = [(1, "all_reduce", 64, "Float", "scheduled")];
    let report = verdict(&[
        (0, dump(&[("a", &[0, 1], &open), ("b", &[0, 1], &[])])),
        (1, dump(&[("a", &[0, 1], &[]), ("b", &[0, 1], &open)])),
    ]);
    assert_eq!(
        (report.verdict, named(&report)),
        (Verdict::WaitInCircle, vec![]),
        "{}",
        report.sentence
    );
}

fn ras(counts: &[Option<u64>], dead: bool) -> Vec<u8> {
    let ranks: Vec<Value> = (0..)
        .zip(counts)
        .filter_map(|(rank, count): (u32, _)| {
            Some(json!({"rank": rank, "host": "10.0.0.1", "pid": 100 + rank, "status": {"async_error": 0},
                "collective_counts": {"AllReduce": (*count)?, "Broadcast": 1}}))
        })
        .collect();
    let missing: Vec<Value> = (0..)
        .zip(counts)
        .filter(|(_, count): &(u32, _)| count.is_none())
        .map(|(rank, _)| {
            json!({"rank": rank, "host": "10.0.0.2", "pid": 100 + rank,
                "status": {"unresponsive": true, "considered_dead": dead}})
        })
        .collect();
    json!({"nccl_version": "2.30.7", "communicators_count": 1, "communicators": [{"hash": "0xab", "size": counts.len(),
        "ranks": ranks, "missing_ranks": missing}], "ras": {"timeouts_count": 0}})
    .to_string()
    .into_bytes()
}

fn by_ras(reports: &[Vec<u8>]) -> HangReport {
    let mut reader = Reader::default();
    for bytes in reports {
        reader.read(bytes, "RAS", None).unwrap();
    }
    judge(&reader.finish())
}

#[test]
fn reports_of_ras() {
    let late = ras(&[Some(7), Some(7), Some(6)], false);
    let report = by_ras(&[late.clone(), late.clone()]);
    assert_eq!(report.verdict, Verdict::NeverCame, "{}", report.sentence);
    assert_eq!((report.ranks[0].rank_in_communicator, report.ranks[0].pid), (2, Some(102)));
    assert!(report.confirm.unwrap().contains("py-spy dump --pid 102"));
    // Once is not enough to be certain, and a job that goes on does not hang.
    let once = by_ras(std::slice::from_ref(&late));
    assert_eq!(once.confidence, Some(busbw_core::finding::Confidence::Possible));
    let report = by_ras(&[late, ras(&[Some(8), Some(8), Some(7)], false)]);
    assert_eq!(report.verdict, Verdict::Progressing, "{}", report.sentence);
    let report = by_ras(&[ras(&[Some(7), Some(7), None], true)]);
    assert_eq!(report.verdict, Verdict::Died, "{}", report.sentence);
    let report = by_ras(&[ras(&[Some(7), Some(7), None], false)]);
    assert_eq!(report.verdict, Verdict::Stopped, "{}", report.sentence);
    // RAS is content with a job that hangs on the GPU (nccl#1730): that is said, and nothing is claimed.
    let same = ras(&[Some(7), Some(7), Some(7)], false);
    let report = by_ras(&[same.clone(), same]);
    assert_eq!(
        (report.verdict, report.missing.len()),
        (Verdict::NothingWaits, 1),
        "{}",
        report.sentence
    );
}

#[test]
fn a_log_tells_who_died() {
    let mut facts = busbw_library_logs::failure::FailureFacts::default();
    let text = "[rank2]:[E1127 05:00:00.0] [PG ID 0 PG GUID 0(default_pg) Rank 0] Watchdog caught collective operation timeout: \
                WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=128, NumelOut=128, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.";
    let mut incident =
        busbw_library_logs::failure::parse(text, &busbw_library_logs::nccl::NcclFacts::default())
            .incidents
            .remove(0);
    incident.kind = busbw_library_logs::failure::Kind::Killed;
    incident.ranks = [3].into();
    facts.incidents.push(incident);
    let mut reader = Reader::default();
    for (rank, bytes) in &four(&[DONE])[..3] {
        reader.read(bytes, &format!("rank_{rank}"), Some(1041 * S)).unwrap();
    }
    reader.log(&facts, "job.log");
    let report = judge(&reader.finish());
    assert_eq!((report.verdict, named(&report)), (Verdict::Died, vec![3]), "{}", report.sentence);
    assert!(report.evidence[0].contains("job.log"), "{:?}", report.evidence);
}

/// Files of real jobs of four ranks over gloo, one fault each (tests/hang.sh). Where a process died or is stopped, files alone tell
/// that it fell silent: `busbw explain` asks /proc besides.
#[test]
fn files_of_real_jobs() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hang/data");
    for (fault, verdict, ranks) in [
        ("never-comes", Verdict::NeverCame, vec![2]),
        ("other-size", Verdict::OtherSize, vec![1]),
        ("other-operation", Verdict::OtherOperation, vec![3]),
        ("killed", Verdict::Silent, vec![2]),
        ("stopped", Verdict::Silent, vec![1]),
        ("network", Verdict::NetworkStopped, vec![]),
    ] {
        let mut reader = Reader::default();
        let mut files: Vec<_> =
            std::fs::read_dir(folder.join(fault)).unwrap().map(|one| one.unwrap().path()).collect();
        files.sort();
        for path in &files {
            reader.read(&std::fs::read(path).unwrap(), &path.display().to_string(), None).unwrap();
        }
        let report = judge(&reader.finish());
        assert_eq!(
            (report.verdict, named(&report)),
            (verdict, ranks),
            "{fault}: {}",
            report.sentence
        );
        let call = report.call.unwrap();
        assert_eq!(call.number, 6, "{fault}");
        println!("{fault}: {}", report.sentence);
    }
}
