//! Files of five jobs of four ranks under NCCL 2.28.9 and PyTorch 2.11.0, one fault each (BACKEND=nccl tests/hang.sh): dumps, and files of the
//! profiler without the heartbeats and repeated lines between. `ras.json` is written after NCCL's printing code, with what RAS said of each job.
//! Not the state of processes by /proc, which `busbw explain` asks besides.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use busbw_core::finding::Confidence;
use busbw_logs::hang::Reader;

use super::{HangReport, Verdict, judge};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dump,
    Watch,
    Ras,
}

const FILES: &[Kind] = &[Kind::Dump, Kind::Watch];
const ALL: &[Kind] = &[Kind::Dump, Kind::Watch, Kind::Ras];

fn judged(fault: &str, kinds: &[Kind]) -> HangReport {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hang/data/nccl");
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join(fault)).unwrap().map(|one| one.unwrap().path()).collect();
    files.sort();
    let mut reader = Reader::default();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = match name {
            "ras.json" => Kind::Ras,
            name if name.ends_with(".jsonl") => Kind::Watch,
            _ => Kind::Dump,
        };
        if kinds.contains(&kind) {
            // RAS is asked twice.
            for _ in 0..if kind == Kind::Ras { 2 } else { 1 } {
                reader.read(&std::fs::read(&path).unwrap(), name, None).unwrap();
            }
        }
    }
    let report = judge(&reader.finish());
    println!("{fault}: {}: {}\n  {:?}", report.verdict.name(), report.sentence, report.evidence);
    report
}

/// The verdict, who is named by the rank in the communicator, and the call's number.
fn short(report: &HangReport) -> (Verdict, Vec<u32>, u64) {
    let named = report.ranks.iter().map(|one| one.rank_in_communicator).collect();
    (report.verdict, named, report.call.as_ref().map_or(0, |call| call.number))
}

#[test]
fn each_fault_by_each_source() {
    use Verdict::{Died, NeverCame, OtherOperation, OtherSize, Silent, Stopped};
    for (fault, kinds, expected) in [
        ("never-comes", FILES, (NeverCame, vec![2], 6)),
        ("never-comes", ALL, (NeverCame, vec![2], 6)),
        ("never-comes", &[Kind::Dump], (NeverCame, vec![2], 6)),
        ("never-comes", &[Kind::Watch], (NeverCame, vec![2], 6)),
        ("never-comes", &[Kind::Ras], (NeverCame, vec![2], 6)),
        ("other-size", FILES, (OtherSize, vec![1], 6)),
        ("other-size", ALL, (OtherSize, vec![1], 6)),
        ("other-size", &[Kind::Dump], (OtherSize, vec![1], 6)),
        ("other-size", &[Kind::Watch], (OtherSize, vec![1], 6)),
        ("other-operation", FILES, (OtherOperation, vec![3], 6)),
        ("other-operation", ALL, (OtherOperation, vec![3], 6)),
        ("other-operation", &[Kind::Dump], (OtherOperation, vec![3], 6)),
        ("other-operation", &[Kind::Watch], (OtherOperation, vec![3], 6)),
        // RAS counts launches: it knows how many, and not which came first.
        ("other-operation", &[Kind::Ras], (OtherOperation, vec![3], 19)),
        // Its file has one line.
        ("killed", FILES, (Silent, vec![2], 6)),
        ("killed", &[Kind::Watch], (Silent, vec![2], 6)),
        ("killed", ALL, (Died, vec![2], 6)),
        ("killed", &[Kind::Ras], (Died, vec![2], 8)),
        ("stopped", FILES, (Silent, vec![1], 6)),
        ("stopped", ALL, (Stopped, vec![1], 6)),
    ] {
        let report = judged(fault, kinds);
        assert_eq!(short(&report), expected, "{fault}: {}", report.sentence);
    }
}

#[test]
fn a_communicator_is_one_case_whoever_tells_of_it() {
    for fault in ["never-comes", "other-operation", "killed", "stopped"] {
        let report = judged(fault, ALL);
        assert_eq!((report.stuck, report.waiting), (1, 3), "{fault}: {report:?}");
        // The call that differs is one, and the one that ranks now wait in is another.
        let calls = if fault == "other-operation" { 2 } else { 1 };
        assert_eq!(report.communicators.len(), calls, "{fault}");
        let others = report.evidence.iter().find(|one| one.starts_with("it is communicator"));
        let others = others.unwrap_or_else(|| panic!("{fault}: {:?}", report.evidence));
        assert!(others.contains("busbw's profiler and communicator 0x"), "{others}");
        let [one] = &report.ranks[..] else { panic!("{fault}: {:?}", report.ranks) };
        assert_eq!((one.rank, one.host.as_deref()), (Some(one.rank_in_communicator), Some("vm")));
        assert!(one.pid.is_some());
    }
}

#[test]
fn calls_that_differ_and_end_are_said() {
    let report = judged("other-size", ALL);
    assert_eq!((report.stuck, report.waiting), (0, 0));
    assert_eq!(report.confidence, Some(Confidence::Certain));
    assert_eq!(
        report.sentence,
        "Rank 1 came to call number 6 with another size than the others: rank 0 all_reduce number 6 of 4194304 elements (Float), rank 1 \
         all_reduce number 6 of 8388608 elements (Float). That call ended all the same: nobody waits in it, and its result is wrong."
    );
    assert!(report.evidence.iter().any(|one| one == "they differ so in 13 calls behind it, too"));
    let report = judged("other-operation", ALL);
    assert_eq!(
        report.sentence,
        "Rank 3 came to call number 6 with another operation than the others: rank 0 all_reduce number 6 of 4194304 elements (Float), rank 3 \
         all_gather number 6 of 4194304 elements (Float). That call ended all the same, and its result is wrong; ranks 0-2 now wait in all_reduce \
         number 19 of 4194304 elements (Float)."
    );
}

#[test]
fn who_wrote_one_line_has_its_rank_and_number() {
    let report = judged("killed", ALL);
    assert!(
        report.sentence.starts_with("Rank 2 is gone; ranks 0, 1 and 3 waited"),
        "{}",
        report.sentence
    );
    assert_eq!((report.ranks[0].rank, report.ranks[0].pid), (Some(2), Some(40296)));
    let report = judged("killed", &[Kind::Watch]);
    assert!(report.sentence.starts_with("Rank 2 has given no sign for"), "{}", report.sentence);
}

/// Of calls that come often only some are timed. Here the profiler's files say of none how long it took, nor that one stands.
#[test]
fn a_rank_that_never_came_is_seen_without_times() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hang/data/nccl/never-comes");
    let judged = |beat: u64| {
        let mut reader = Reader::default();
        for pid in [39296, 39297, 39298, 39299] {
            let text = std::fs::read_to_string(folder.join(format!("vm.{pid}.jsonl"))).unwrap();
            let mut lines = String::new();
            for line in text.lines() {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                match line["kind"].as_str().unwrap() {
                    // What stood was asked for all the same.
                    "open" => {
                        let call =
                            serde_json::json!([line["sequence"], line["enqueued"], null, null]);
                        if lines.contains(&call.to_string()) {
                            continue;
                        }
                        line["kind"] = "calls".into();
                        line["calls"] = serde_json::json!([call]);
                    }
                    "calls" => {
                        for call in line["calls"].as_array_mut().unwrap() {
                            (call[2], call[3]) = (serde_json::Value::Null, serde_json::Value::Null);
                        }
                    }
                    "heartbeat" => line["at"] = beat.into(),
                    _ => {}
                }
                lines += &format!("{line}\n");
            }
            reader.read(lines.as_bytes(), &format!("vm.{pid}.jsonl"), None).unwrap();
        }
        judge(&reader.finish())
    };
    let report = judged(12_000_000_000);
    assert_eq!(short(&report), (Verdict::NeverCame, vec![2], 6), "{report:#?}");
    assert_eq!(report.confidence, Some(Confidence::Possible));
    assert!(report.missing.iter().any(|one| one.contains("its kernel was not timed")));
    // A moment later a rank may still come.
    assert_eq!(judged(1_500_000_000).verdict, Verdict::Progressing);
}
