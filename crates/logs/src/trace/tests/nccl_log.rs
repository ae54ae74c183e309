//! NCCL's log as a trace.
//! Not the form of its lines (`busbw_library_logs::nccl::CallReader`).

use super::{TraceSource, told, trace};
use crate::trace::Operation;

/// A line of a call.
pub(super) fn call(
    origin: &str,
    operation: &str,
    count: u64,
    datatype: u32,
    root: u32,
    ranks: u32,
) -> String {
    format!(
        "{origin} NCCL INFO {operation}: opCount 0 sendbuff 0x7f recvbuff 0x7e count {count} datatype {datatype} op 0 root {root} comm 0x55 [nranks={ranks}] stream 0x1\n"
    )
}

fn start(origin: &str, rank: u32, ranks: u32, id: &str) -> String {
    format!(
        "{origin} NCCL INFO ncclCommInitRank comm 0x55 rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 17000 commId {id} - Init START\n"
    )
}

/// Of NCCL 2.27.7 over two GPUs of one process (nccl-tests): two ranks.
#[test]
fn two_ranks_of_one_process() {
    let text = include_bytes!("../data/nccl_2.27.7_two_ranks.log");
    let trace = trace(&[("log", text)]).unwrap();
    assert_eq!(
        told(&trace),
        [
            "all_reduce float 16777216 sum ranks 2 in 1: 2",
            "all_reduce float 8388608 sum ranks 2 in 1: 1",
        ]
    );
    assert_eq!(trace.communicators[0].id, "0xde843772bfa53d08");
    assert_eq!(trace.ranks.iter().map(|one| one.calls).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(trace.source, TraceSource::NcclLog);
    assert_eq!((trace.left_out.len(), trace.disagreements.len()), (0, 0));
}

/// Of NCCL 2.28.9: two ranks' sends and receives of an all-to-all, torn by each other.
#[test]
fn an_exchange_with_torn_lines() {
    let text = include_bytes!("../data/nccl_2.28.9_torn_exchange.log");
    let error = trace(&[("log", text)]).unwrap_err().to_string();
    assert!(error.contains("another rank's output covers a part"), "{error}");
    assert!(error.contains("not to and from every rank"), "{error}");
}

#[test]
fn communicators_side_by_side_count_once() {
    // Two groups of two ranks: each makes three calls.
    let mut text = String::new();
    for pid in 0..4 {
        let origin = format!("h:{pid}:{pid} [{pid}]");
        text += &start(&origin, pid % 2, 2, if pid < 2 { "0xa" } else { "0xb" });
        for _ in 0..3 {
            text += &call(&origin, "ReduceScatter", 1024, 9, 0, 2);
        }
    }
    let trace = trace(&[("log", text.as_bytes())]).unwrap();
    assert_eq!(told(&trace), ["reduce_scatter bfloat16 4096 sum ranks 2 in 2: 3"]);
    assert_eq!(trace.calls.len(), 6);
    // A rank that made fewer calls is named.
    let fewer = text.trim_end().rsplit_once('\n').unwrap().0;
    let trace = super::trace(&[("log", fewer.as_bytes())]).unwrap();
    assert_eq!(told(&trace), ["reduce_scatter bfloat16 4096 sum ranks 2 in 2: 3"]);
    assert_eq!(
        trace.disagreements,
        [
            "communicator 0xb, reduce_scatter of 4 KiB bfloat16 (sum): h:3 [0] made 2 calls where others made 3"
        ]
    );
}

#[test]
fn without_lines_of_init_calls_tell_communicators_apart() {
    // Four ranks make the same calls in a communicator of four; two of them others in one of two.
    let mut text = String::new();
    for pid in 0..4 {
        let origin = format!("h:{pid}:{pid} [{pid}]");
        for _ in 0..20 {
            text += &call(&origin, "AllReduce", 1024, 7, 0, 4);
        }
        if pid < 2 {
            let other = call(&origin, "AllGather", 64, 7, 0, 2).replace("comm 0x55", "comm 0x66");
            text += &other;
        }
    }
    let trace = trace(&[("log", text.as_bytes())]).unwrap();
    assert_eq!(
        told(&trace),
        ["all_reduce float 4096 sum ranks 4 in 1: 20", "all_gather float 512 - ranks 2 in 1: 1",]
    );
    assert_eq!((trace.calls.len(), trace.disagreements.len()), (21, 0));
    // Eight such ranks are two communicators of four.
    let more = text.clone() + &text.replace("h:", "g:");
    let trace = super::trace(&[("log", more.as_bytes())]).unwrap();
    let counts: Vec<_> = trace.classes().iter().map(|one| (one.communicators, one.calls)).collect();
    assert_eq!(counts, [(2, 20), (2, 1)]);
}

#[test]
fn an_exchange_of_sends_and_receives_is_an_alltoall() {
    let mut text = String::new();
    for pid in 0..2_u32 {
        let origin = format!("h:{pid}:{pid} [{pid}]");
        text += &start(&origin, pid, 2, "0xa");
        for peer in 0..2 {
            text += &call(&origin, "Send", 256, 2, peer, 2);
            text += &call(&origin, "Recv", 256, 2, peer, 2);
        }
        // RCCL's and 2.28's own.
        text += &call(&origin, "AlltoAll", 256, 2, 0, 2);
    }
    let trace = trace(&[("log", text.as_bytes())]).unwrap();
    assert_eq!(told(&trace), ["alltoall int32 2048 - ranks 2 in 1: 2"]);
    assert_eq!(trace.calls.len(), 2);
}

#[test]
fn a_message_and_its_receive_are_one() {
    let mut text = String::new();
    for (pid, operation, peer) in [(0, "Send", 1), (1, "Recv", 0)] {
        let origin = format!("h:{pid}:{pid} [{pid}]");
        text += &start(&origin, pid, 4, "0xa");
        for _ in 0..3 {
            text += &call(&origin, operation, 512, 6, peer, 4);
        }
    }
    let trace = trace(&[("log", text.as_bytes())]).unwrap();
    assert_eq!(told(&trace), ["message half 1024 - ranks 2 in 1: 3"]);
    assert_eq!(trace.calls.len(), 3);
    assert!(trace.calls.iter().all(|call| call.operation == Operation::Message));
    assert!(trace.calls.iter().all(|call| call.other_end == Some(1)));
    assert!(trace.mix().is_empty());
    // Without lines of INIT nobody knows who received.
    let unnamed: String = text
        .lines()
        .filter(|line| !line.contains("Init"))
        .map(|line| format!("{line}\n"))
        .collect();
    let trace = super::trace(&[("log", unnamed.as_bytes())]).unwrap();
    assert_eq!(told(&trace), ["message half 1024 - ranks 2 in 1: 3"]);
    assert_eq!(trace.left_out[0].count, 3);
}

#[test]
fn what_is_left_out_has_a_reason() {
    let origin = "h:1:1 [0]";
    let text = [
        call(origin, "AllReduce", 1024, 7, 0, 2),
        call(origin, "AllReduce", 0, 7, 0, 2),
        call(origin, "AllReduce", u64::MAX, 7, 0, 2),
        call(origin, "AllReduce", 8, 77, 0, 2),
        call(origin, "PutSignal", 8, 0, 1, 2),
        "h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f\n".to_owned(),
    ]
    .concat();
    let trace = trace(&[("log", text.as_bytes())]).unwrap();
    let reasons: Vec<_> =
        trace.left_out.iter().map(|one| format!("{} {}", one.count, one.reason)).collect();
    assert_eq!(
        reasons,
        [
            "1 PutSignal, which busbw does not measure",
            "1 calls of more bytes than any machine has",
            "1 calls of which another rank's output covers a part",
            "1 calls that move no bytes",
            "1 element type 77 of NCCL, which busbw does not know",
        ]
    );
    assert_eq!(trace.calls.len(), 1);
}
