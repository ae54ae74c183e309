//! Dumps of PyTorch's flight recorder as a trace: real ones of two ranks over Gloo, and made-up ones of NCCL's names.
//! Not pickle itself (`crate::flight_recorder::pickle`).

use serde_json::{Value, json};

use super::{told, trace};
use crate::trace::{Trace, TraceError};

/// PyTorch 2.15.0 on two CPU ranks: five all_reduce, an all_gather and a barrier.
pub(super) const RANK_0: &[u8] = include_bytes!("../data/flight_recorder_2.10_rank_0");
const RANK_1: &[u8] = include_bytes!("../data/flight_recorder_2.10_rank_1");
const RANK_0_JSON: &[u8] = include_bytes!("../data/flight_recorder_2.10_rank_0.json");
const EMPTY: &[u8] = include_bytes!("../data/flight_recorder_2.10_empty");

#[test]
fn real_dumps_of_two_ranks() {
    let trace = trace(&[("dump_rank_0", RANK_0), ("dump_rank_1", RANK_1)]).unwrap();
    let expected =
        ["all_reduce float 1048576 - ranks 2 in 1: 5", "all_gather float 524288 - ranks 2 in 1: 1"];
    assert_eq!(told(&trace), expected);
    assert_eq!((trace.calls.len(), trace.ranks.len(), trace.disagreements.len()), (6, 2, 0));
    assert_eq!((trace.left_out[0].reason.as_str(), trace.left_out[0].count), ("barriers", 2));
    assert_eq!(trace.communicators[0].id, "0 of ranks 0,1");
    let gaps: Vec<_> = trace.calls.iter().map(|call| call.gap_us.map(f64::round)).collect();
    assert_eq!(
        gaps,
        [None, Some(7512.0), Some(6886.0), Some(2470.0), Some(3140.0), Some(15_454.0)]
    );
    // The same as JSON.
    let json = super::trace(&[("dump_rank_0", RANK_0_JSON), ("dump_rank_1", RANK_1)]).unwrap();
    assert_eq!(json, trace);
    assert!(super::trace(&[("dump", EMPTY)]).unwrap_err().to_string().contains("there is none"));
}

#[test]
fn each_byte_of_a_dump_may_be_lost() {
    for end in 0..RANK_0.len() {
        let error = trace(&[("x", &RANK_0[..end])]).unwrap_err();
        assert!(matches!(error, TraceError::Dump { .. } | TraceError::Strange { .. }), "{error}");
    }
}

fn entry(name: &str, number: u64, dtype: &str, input: Value, output: Value) -> Value {
    json!({
        "process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": 0,
        "profiling_name": name, "time_created_ns": number * 1_000_000, "duration_ms": 0.5,
        "input_sizes": input, "input_dtypes": [dtype], "output_sizes": output, "output_dtypes": [dtype],
        "state": "completed", "is_p2p": false,
    })
}

fn dump(ranks: &str, entries: &[Value]) -> String {
    json!({
        "version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "entries": entries,
    })
    .to_string()
}

fn one(ranks: &str, entries: &[Value]) -> Trace {
    trace(&[("rank_0", dump(ranks, entries).as_bytes())]).unwrap()
}

#[test]
fn names_and_sizes_of_nccl() {
    let four = "[0, 1, 2, 3]";
    for (name, dtype, input, output, expected) in [
        (
            "_all_gather_base",
            "BFloat16",
            json!([[8, 16]]),
            json!([[32, 16]]),
            "all_gather bfloat16 1024",
        ),
        ("all_gather", "Half", json!([[128]]), json!([[4, 128]]), "all_gather half 1024"),
        (
            "_reduce_scatter_base",
            "Float",
            json!([[256]]),
            json!([[64]]),
            "reduce_scatter float 1024",
        ),
        ("_broadcast_oop", "Long", json!([[128]]), json!([[128]]), "broadcast int64 1024"),
        ("reduce", "Double", json!([[128]]), json!([[128]]), "reduce double 1024"),
        ("all_to_all", "Byte", json!([[1024]]), json!([[1024]]), "alltoall uint8 1024"),
        (
            "all_to_all",
            "Byte",
            json!([[256], [256], [256], [256]]),
            json!([[256], [256], [256], [256]]),
            "alltoall uint8 1024",
        ),
        ("all_to_all_single", "Byte", json!([[1024]]), json!([[1000]]), "alltoallv uint8 1024"),
        ("scatter", "Float", json!([[64]]), json!([[0]]), "scatter float 1024"),
        ("gather", "Float", json!([[64]]), json!([[64], [64], [64], [64]]), "gather float 1024"),
        ("all_reduce", "ComplexFloat", json!([[128]]), json!([[128]]), "all_reduce float 1024"),
        (
            "all_reduce",
            "Float8_e5m2",
            json!([[32, 32]]),
            json!([[32, 32]]),
            "all_reduce f8e5m2 1024",
        ),
    ] {
        let trace = one(four, &[entry(&format!("nccl:{name}"), 1, dtype, input, output)]);
        assert_eq!(told(&trace), [format!("{expected} - ranks 4 in 1: 1")], "{name}");
        assert_eq!(trace.calls[0].took_us, Some(500.0));
    }
}

#[test]
fn a_coalesced_group_is_its_parts() {
    let two = "[0, 1]";
    let of = |name: &str, number, size: u64| {
        entry(name, number, "Float", json!([[size]]), json!([[size * 2]]))
    };
    let empty = entry("nccl:coalesced", 3, "Float", json!([]), json!([]));
    let trace = one(
        two,
        &[of("nccl:_all_gather_base", 3, 64), of("nccl:_all_gather_base", 3, 64), empty.clone()],
    );
    assert_eq!(told(&trace), ["all_gather float 512 - ranks 2 in 1: 2"]);
    // In one entry.
    let list = entry(
        "nccl:all_gather_into_tensor_coalesced",
        1,
        "Float",
        json!([[64], [64], [32]]),
        json!([[128], [128], [64]]),
    );
    assert_eq!(
        told(&one(two, &[list])),
        ["all_gather float 512 - ranks 2 in 1: 2", "all_gather float 256 - ranks 2 in 1: 1"]
    );
    // Before 2.7 the parts of slow groups were not recorded.
    let error = super::trace(&[("x", dump(two, &[empty]).as_bytes())]).unwrap_err().to_string();
    assert!(error.contains("coalesced groups whose parts the dump does not have (1)"), "{error}");
}

fn message(name: &str, number: u64) -> Value {
    let mut entry = entry(name, 0, "Float", json!([[64]]), json!([[64]]));
    entry["p2p_seq_id"] = number.into();
    entry["is_p2p"] = true.into();
    entry
}

#[test]
fn messages_and_groups_of_them() {
    let three = "[0, 1, 2]";
    let sends = [message("nccl:send 0->1", 1), message("nccl:send 0->1", 2)];
    let receives = [message("nccl:recv 1<-0", 1), message("nccl:recv 1<-0", 2)];
    let both = trace(&[
        ("rank_0", dump(three, &sends).as_bytes()),
        ("rank_1", dump(three, &receives).as_bytes()),
    ]);
    assert_eq!(told(&both.unwrap()), ["message float 256 - ranks 2 in 1: 2"]);
    let group = ["send 0->1", "recv 0<-1", "send 0->2", "recv 0<-2"]
        .map(|name| message(&format!("nccl:{name}"), 5));
    assert_eq!(told(&one(three, &group)), ["alltoall float 768 - ranks 3 in 1: 1"]);
    let error = trace(&[(
        "x",
        dump("[0, 1, 2, 3]", &[&group[..], &[message("nccl:send 0->3", 5)]].concat()).as_bytes(),
    )]);
    assert!(error.unwrap_err().to_string().contains("not to and from every rank (5)"));
}

#[test]
fn an_uneven_exchange_counts_the_busiest_rank() {
    let of = |input: u64, output: u64| {
        dump("[0, 1]", &[entry("nccl:all_to_all", 1, "Byte", json!([[input]]), json!([[output]]))])
    };
    let trace = trace(&[("a", of(100, 100).as_bytes()), ("b", of(50, 200).as_bytes())]).unwrap();
    assert_eq!(told(&trace), ["alltoallv uint8 200 - ranks 2 in 1: 1"]);
    assert!(trace.disagreements.is_empty());
}

#[test]
fn what_is_left_out_has_a_reason() {
    let ok = entry("nccl:all_reduce", 9, "Float", json!([[4]]), json!([[4]]));
    for (entry, reason) in [
        (
            entry("nccl:all_reduce", 1, "Short", json!([[4]]), json!([[4]])),
            "elements of type Short, which NCCL has not",
        ),
        (
            entry("nccl:all_gather", 1, "Float", json!([[4]]), json!([[5]])),
            "calls whose tensors do not fit the number of ranks",
        ),
        (
            entry("nccl:all_gather_v", 1, "Float", json!([[4]]), json!([[5]])),
            "all_gather_v, whose ranks give different numbers of elements",
        ),
        (
            entry("nccl:split", 1, "Float", json!([]), json!([])),
            "\"nccl:split\", which busbw does not measure",
        ),
        (entry("nccl:barrier", 1, "Float", json!([]), json!([])), "barriers"),
        (
            entry("nccl:all_reduce", 1, "Float", json!([[1_u64 << 40, 1_u64 << 40]]), json!([[1]])),
            "calls of more bytes than any machine has",
        ),
    ] {
        let trace = one("[0, 1]", &[entry, ok.clone()]);
        assert_eq!(trace.left_out.len(), 1, "{reason}");
        assert_eq!((trace.left_out[0].reason.as_str(), trace.left_out[0].count), (reason, 1));
        assert_eq!(trace.calls.len(), 1);
    }
    let other = dump("[0, 1]", &[ok])
        .replace("[\"0\",\"default_pg\"]", "[\"7\",\"x\"]")
        .replace("\"pg_config\":{", "\"pg_config\":{\"1\":{\"ranks\":\"[0]\"},");
    let error = trace(&[("x", other.as_bytes())]).unwrap_err().to_string();
    assert!(error.contains("process groups whose ranks the dump does not list (1)"), "{error}");
    let newer = dump("[0]", &[]).replace("2.10", "3.0");
    let error = trace(&[("x", newer.as_bytes())]).unwrap_err().to_string();
    assert!(error.contains("it has version 3.0; this busbw reads up to 2"), "{error}");
}
