//! The files of busbw's profiler as a trace: each rank's calls in the order in which it asked for them.
//! Not their form (`busbw_watch_file`), and not who was late (`busbw_watch`).

use std::collections::BTreeMap;

use busbw_core::DataType;
use busbw_watch_file::{Call, Class, Communicator, Line, WatchFile};

use super::collected::Collected;
use super::exchange::{Exchange, Part};
use super::job::{Kind, Reported, Same};
use super::{nccl_log, sizes};

/// Reads one process's file.
///
/// # Errors
/// It is no such file, or of another version.
pub(super) fn read(bytes: &[u8], collected: &mut Collected) -> Result<(), String> {
    let file = WatchFile::parse(bytes).map_err(|why| why.to_string())?;
    collected.leave_out("lines of the profiler that are damaged or cut", file.unread);
    let mut communicators: BTreeMap<u32, &Communicator> = BTreeMap::new();
    let (mut calls, mut dropped): (Vec<(&Class, &Call)>, u64) = (Vec::new(), 0);
    for line in &file.lines {
        match line {
            Line::Communicator(one) => drop(communicators.insert(one.number, one)),
            Line::Calls(some) => calls.extend(some.calls.iter().map(|call| (&some.class, call))),
            Line::Heartbeat(beat) => dropped = beat.dropped_calls,
            _ => {}
        }
    }
    collected.leave_out("calls for which the profiler had no room", dropped);
    calls.sort_by_key(|(_, call)| call.enqueued);
    let mut exchanges: BTreeMap<u32, Exchange> = BTreeMap::new();
    for (class, call) in calls {
        let Some(one) = communicators.get(&class.communicator) else {
            collected.leave_out("calls whose communicator no line names", 1);
            continue;
        };
        // Before the reporter is counted: one without calls is none.
        let Some(communicator) = collected.communicator(&one.id, one.ranks) else { continue };
        let name = format!("{}:{}", file.process.host, file.process.pid);
        let Some(reporter) = collected.reporter(&name) else { continue };
        let (at, ends) = ((communicator, reporter), (one.rank, one.ranks));
        match class.peer {
            None => collective((class, call), one, at, collected),
            Some(peer) => {
                let exchange = exchanges.entry(class.communicator).or_default();
                message((class, call), peer, exchange, (ends, at), collected);
            }
        }
    }
    for (number, mut exchange) in exchanges {
        let Some(one) = communicators.get(&number) else { continue };
        let communicator = collected.communicator(&one.id, one.ranks);
        let name = format!("{}:{}", file.process.host, file.process.pid);
        if let Some(at) = communicator.zip(collected.reporter(&name)) {
            exchange.hand_on((one.rank, one.ranks), at, false, collected);
        }
    }
    Ok(())
}

fn collective(
    (class, call): (&Class, &Call),
    one: &Communicator,
    (communicator, reporter): (usize, usize),
    collected: &mut Collected,
) {
    let Some(operation) = nccl_log::collective(&class.operation) else {
        let reason = format!("{}, which busbw does not measure", class.operation);
        return collected.leave_out(&reason, 1);
    };
    let Some(bytes) = sizes::plausible(class.size) else {
        return collected.leave_out("calls of more bytes than any machine has", 1);
    };
    // Of what only copies NCCL has made bytes.
    let named = class.datatype.strip_prefix("nccl").filter(|_| operation.reduces());
    let datatype = named.and_then(DataType::from_spelling);
    collected.add(&Reported {
        kind: Kind { datatype, ..Kind::collective(operation, bytes) },
        communicator,
        reporter,
        rank: Some(one.rank),
        root: class.root,
        at_us: Some(us(call.enqueued)),
        took_us: call.duration.map(us),
        same: Same::Number { lane: Some(operation), number: call.sequence, part: 0 },
    });
}

fn message(
    (class, call): (&Class, &Call),
    peer: u32,
    exchange: &mut Exchange,
    (ends, at): ((u32, u32), (usize, usize)),
    collected: &mut Collected,
) {
    let Some(bytes) = sizes::plausible(class.size) else {
        return collected.leave_out("calls of more bytes than any machine has", 1);
    };
    let part = Part {
        is_send: class.operation == "Send",
        peer,
        bytes,
        datatype: None,
        at_us: Some(us(call.enqueued)),
        took_us: call.duration.map(us),
    };
    if exchange.is_closed_to(part) {
        exchange.hand_on(ends, at, false, collected);
    }
    exchange.push(part);
    if exchange.is_whole(ends.1) {
        exchange.hand_on(ends, at, false, collected);
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use busbw_core::{Collective, DataType};

    use crate::trace::{Operation, Reader, TraceSource};

    /// Two ranks of the made-up job of the program's tests.
    #[test]
    fn ranks_calls_come_together() {
        let text = |rank: u32| {
            format!(
                r#"{{"kind":"process","version":1,"busbw":"0.1.0","host":"a","pid":{},"began":5,"interface":6,"mask":70}}
{{"kind":"communicator","number":0,"id":"0xab","nodes":1,"ranks":2,"rank":{rank},"at":1}}
{{"kind":"calls","communicator":0,"operation":"AllReduce","count":262144,"datatype":"ncclFloat32","size":1048576,"calls":[[0,1000,20,90000],[1,400000,50,80000]]}}
{{"kind":"calls","communicator":0,"operation":"{}","count":512,"datatype":"ncclFloat32","size":2048,"peer":{},"calls":[[0,500000,70,9000]]}}
"#,
                7 + rank,
                if rank == 0 { "Send" } else { "Recv" },
                1 - rank,
            )
        };
        let mut reader = Reader::default();
        for rank in 0..2 {
            reader.read(&mut text(rank).as_bytes(), "a.jsonl").unwrap();
        }
        let trace = reader.finish().unwrap();
        assert_eq!(trace.source, TraceSource::Profiler);
        let all: Vec<_> = trace.calls.iter().map(|call| (call.operation, call.bytes)).collect();
        let reduce = (Operation::Collective(Collective::AllReduce), 1 << 20);
        assert_eq!(all, [reduce, reduce, (Operation::Message, 2_048)], "{:?}", trace.left_out);
        assert_eq!(trace.ranks.len(), 2);
        let types: Vec<_> = trace.calls.iter().map(|call| call.datatype).collect();
        assert_eq!(types, [Some(DataType::Float), Some(DataType::Float), None]);
    }
}
