//! Files as evidence: real dumps of two ranks over Gloo, and made-up files.
//! Not who is to blame: `busbw_analysis::hang` tests that.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::{Condition, Evidence, Reader, Source};

const RANK_0: &[u8] = include_bytes!("../trace/data/flight_recorder_2.10_rank_0");
const RANK_1: &[u8] = include_bytes!("../trace/data/flight_recorder_2.10_rank_1");
const RANK_0_JSON: &[u8] = include_bytes!("../trace/data/flight_recorder_2.10_rank_0.json");
const EMPTY: &[u8] = include_bytes!("../trace/data/flight_recorder_2.10_empty");

fn read(files: &[(&str, &[u8])]) -> Evidence {
    let mut reader = Reader::default();
    for (name, bytes) in files {
        reader.read(bytes, name, None).unwrap();
    }
    reader.finish()
}

/// These are the samples on which PyTorch's own analyzer ends with KeyError ('0', 1).
#[test]
fn dumps_of_gloo_that_end_well() {
    for first in [RANK_0, RANK_0_JSON] {
        let evidence = read(&[("x/rank_0", first), ("x/rank_1", RANK_1), ("x/rank_2", EMPTY)]);
        assert_eq!((evidence.groups.len(), evidence.processes.len()), (1, 2));
        let group = &evidence.groups[0];
        assert_eq!(
            (group.source, group.ranks, group.name.as_str()),
            (Source::FlightRecorder, Some(2), "process group 0 (default_pg)")
        );
        for (rank, member) in &group.members {
            let progress = member.progress.as_ref().unwrap();
            assert_eq!(
                (progress.entered, progress.open.len(), progress.over.len()),
                (7, 0, 7),
                "{rank}"
            );
            assert_eq!(progress.over[&6].operation, "all_gather");
            assert_eq!(progress.over[&1].elements, Some(262_144));
        }
        assert_eq!(evidence.remarks.len(), 1, "{:?}", evidence.remarks);
        assert!(evidence.remarks[0].contains("has no call"));
    }
}

#[test]
fn a_dump_of_another_job_or_of_no_rank_is_named() {
    let other =
        String::from_utf8(RANK_0_JSON.to_vec()).unwrap().replace("1795477277", "1795477299");
    let evidence = read(&[
        ("rank_0", RANK_0),
        ("again/rank_0", other.as_bytes()),
        ("dump", RANK_1),
        ("rank_7", RANK_1),
    ]);
    let remarks = evidence.remarks.join("\n");
    for part in ["two jobs", "does not end with one", "in none or not in all"] {
        assert!(remarks.contains(part), "{part}: {remarks}");
    }
}

/// Lines of a process of busbw's profiler.
fn watch(host: &str, pid: u32, rank: u32, began: u64, lines: &[String]) -> String {
    let mut text = format!(
        "{{\"kind\":\"process\",\"version\":1,\"busbw\":\"0.1.0\",\"host\":\"{host}\",\"pid\":{pid},\"rank\":{rank},\"began\":{began},\"interface\":6,\"mask\":70}}\n\
         {{\"kind\":\"communicator\",\"number\":0,\"id\":\"0xabc\",\"nodes\":2,\"ranks\":2,\"rank\":{rank},\"at\":1}}\n"
    );
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

const CLASS: &str =
    r#""communicator":0,"operation":"AllReduce","count":4,"datatype":"ncclFloat32","size":16"#;

fn calls(numbers: std::ops::Range<u64>, each_ns: u64) -> String {
    let all: Vec<String> =
        numbers.map(|n| format!("[{n},{},{},5]", (n + 1) * each_ns, n * 10)).collect();
    format!("{{\"kind\":\"calls\",{CLASS},\"calls\":[{}]}}", all.join(","))
}

fn beat(at: u64) -> String {
    format!(
        "{{\"kind\":\"heartbeat\",\"at\":{at},\"clock\":0,\"late\":0,\"dropped_calls\":0,\"dropped_steps\":0}}"
    )
}

/// The hosts' clocks differ by an hour; the calls say so.
#[test]
fn a_silent_process_is_told_by_aligned_clocks() {
    const S: u64 = 1_000_000_000;
    let open = format!(
        "{{\"kind\":\"open\",{CLASS},\"sequence\":3,\"enqueued\":{},\"at\":{},\"channels_started\":2,\"channels_ended\":0}}",
        4 * S,
        30 * S
    );
    let first = watch("a", 1, 0, 5000 * S, &[calls(0..3, S), beat(10 * S), open, beat(30 * S)]);
    let second = watch("b", 2, 1, 8600 * S, &[calls(0..3, S), beat(8 * S)]);
    let evidence = read(&[("a.1.jsonl", first.as_bytes()), ("b.2.jsonl", second.as_bytes())]);
    assert_eq!(evidence.processes[0].condition, Condition::Alive);
    assert_eq!(evidence.processes[1].condition, Condition::Silent(22_000));
    let group = &evidence.groups[0];
    let waiting = group.members[&0].progress.as_ref().unwrap();
    assert_eq!(waiting.open[&4].waited_ms, Some(26_000));
    assert_eq!((waiting.open[&4].number, waiting.open[&4].started), (4, Some(true)));
    let behind = group.members[&1].progress.as_ref().unwrap();
    assert_eq!((behind.entered, behind.open.len()), (3, 0));
}
