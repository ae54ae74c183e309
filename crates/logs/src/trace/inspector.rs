//! The files of NCCL Inspector, JSON lines of formats v4.0 to v4.3 (`inspector_output_format_version`).
//! Not its Prometheus text, which has ranges of sizes instead of calls.
//!
//! Formats: NCCL, plugins/profiler/inspector, inspector_json.cc and README. `coll_msg_size_bytes` is the count of the call times
//! its type: of AllGather and ReduceScatter one rank's share (`inspectorComputeOpBw` multiplies it by the ranks). `coll_sn`
//! counts each collective of a communicator for itself. From v4.3 on a `dump_stats` line carries header and metadata for the
//! lines that follow it.

use std::collections::HashMap;

use serde::Deserialize;

use super::collected::Collected;
use super::exchange::{Exchange, Part};
use super::job::{Kind, Reported, Same};
use super::{nccl_log, sizes};

/// The most ranks of communicators whose messages are looked at.
const MAX_VIEWS: usize = 1 << 14;

#[derive(Debug, Deserialize)]
struct Line {
    header: Option<Header>,
    metadata: Option<Metadata>,
    coll_perf: Option<CollPerf>,
    p2p_perf: Option<P2pPerf>,
    dump_stats: Option<DumpStats>,
}

#[derive(Debug, Clone, Deserialize)]
struct Header {
    id: String,
    rank: u32,
    n_ranks: u32,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    pid: u64,
}

#[derive(Debug, Deserialize)]
struct CollPerf {
    coll: String,
    coll_sn: u64,
    coll_msg_size_bytes: u64,
    coll_exec_time_us: Option<f64>,
    event_trace_ts: Option<Times>,
}

#[derive(Debug, Deserialize)]
struct P2pPerf {
    p2p: String,
    p2p_peer: u32,
    p2p_msg_size_bytes: u64,
    p2p_exec_time_us: Option<f64>,
    event_trace_ts: Option<Times>,
}

/// Microseconds on the host's clock, with NCCL_INSPECTOR_DUMP_VERBOSE=1.
#[derive(Debug, Deserialize)]
struct Times {
    #[serde(alias = "p2p_start_ts")]
    coll_start_ts: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct DumpStats {
    coll_dropped_since_last_dump: Option<u64>,
    p2p_dropped_since_last_dump: Option<u64>,
    /// Of v4.1, before messages had their own.
    dropped_since_last_dump: Option<u64>,
}

/// One file.
#[derive(Debug, Default)]
pub(super) struct Inspector {
    marker: Option<(Header, Option<Metadata>)>,
    exchanges: HashMap<(usize, usize), (Header, Exchange)>,
    order: Vec<(usize, usize)>,
}

impl Inspector {
    /// Reads a line of the file `name`.
    pub(super) fn line(&mut self, text: &str, name: &str, collected: &mut Collected) {
        let Ok(line) = serde_json::from_str::<Line>(text) else {
            return collected.leave_out("lines of NCCL Inspector that are damaged or cut", 1);
        };
        if let Some(header) = line.header {
            // Before v4.3 every line has its own, and that of a call counts for no other line.
            let own = (header, line.metadata);
            if line.dump_stats.is_some() {
                self.marker = Some(own);
            } else {
                let marker = self.marker.replace(own);
                self.calls(line.coll_perf, line.p2p_perf, name, collected);
                self.marker = marker;
                return;
            }
        }
        if let Some(stats) = line.dump_stats {
            let dropped = [
                stats.coll_dropped_since_last_dump,
                stats.p2p_dropped_since_last_dump,
                stats.dropped_since_last_dump,
            ];
            let dropped = dropped.into_iter().flatten().fold(0, u64::saturating_add);
            collected.leave_out("calls that NCCL Inspector dropped before it wrote them", dropped);
        }
        self.calls(line.coll_perf, line.p2p_perf, name, collected);
    }

    fn calls(
        &mut self,
        collective: Option<CollPerf>,
        message: Option<P2pPerf>,
        name: &str,
        collected: &mut Collected,
    ) {
        if collective.is_none() && message.is_none() {
            return;
        }
        let Some((header, metadata)) = self.marker.clone() else {
            return collected.leave_out("calls whose communicator no line before them names", 1);
        };
        let reporter = match metadata {
            Some(Metadata { hostname, pid }) if !hostname.is_empty() => format!("{hostname}:{pid}"),
            _ => name.to_owned(),
        };
        // Before the reporter is counted: one without calls is none.
        let Some(communicator) = collected.communicator(&header.id, header.n_ranks) else { return };
        let Some(reporter) = collected.reporter(&reporter) else { return };
        if let Some(call) = collective {
            match collective_call(&call, &header, communicator, reporter) {
                Ok(reported) => collected.add(&reported),
                Err(reason) => collected.leave_out(&reason, 1),
            }
        }
        if let Some(message) = message {
            self.message(&message, header, (communicator, reporter), collected);
        }
    }

    fn message(
        &mut self,
        call: &P2pPerf,
        header: Header,
        at: (usize, usize),
        collected: &mut Collected,
    ) {
        let is_send = match call.p2p.as_str() {
            "Send" => true,
            "Recv" => false,
            other => {
                return collected.leave_out(&format!("{other}, which busbw does not measure"), 1);
            }
        };
        let Some(bytes) = sizes::plausible(call.p2p_msg_size_bytes) else {
            return collected.leave_out("calls of more bytes than any machine has", 1);
        };
        let part = Part {
            is_send,
            peer: call.p2p_peer,
            bytes,
            datatype: None,
            at_us: call.event_trace_ts.as_ref().and_then(Times::at_us),
            took_us: call.p2p_exec_time_us,
        };
        if !self.exchanges.contains_key(&at) {
            if self.exchanges.len() >= MAX_VIEWS {
                return collected.leave_out("beyond the communicators that are kept", 1);
            }
            self.order.push(at);
            self.exchanges.insert(at, (header.clone(), Exchange::default()));
        }
        let Some((_, exchange)) = self.exchanges.get_mut(&at) else { return };
        if exchange.is_closed_to(part) {
            exchange.hand_on((header.rank, header.n_ranks), at, false, collected);
        }
        exchange.push(part);
        if exchange.is_whole(header.n_ranks) {
            exchange.hand_on((header.rank, header.n_ranks), at, false, collected);
        }
    }

    /// The end of the file.
    pub(super) fn finish(mut self, collected: &mut Collected) {
        for at in &self.order {
            if let Some((header, exchange)) = self.exchanges.get_mut(at) {
                exchange.hand_on((header.rank, header.n_ranks), *at, false, collected);
            }
        }
    }
}

impl Times {
    fn at_us(&self) -> Option<f64> {
        self.coll_start_ts.map(|us| us as f64)
    }
}

fn collective_call(
    call: &CollPerf,
    header: &Header,
    communicator: usize,
    reporter: usize,
) -> Result<Reported, String> {
    let collective = nccl_log::collective(&call.coll)
        .ok_or_else(|| format!("{}, which busbw does not measure", call.coll))?;
    let bytes = sizes::bytes(collective, call.coll_msg_size_bytes, 1, header.n_ranks)
        .ok_or_else(|| "calls of more bytes than any machine has".to_owned())?;
    Ok(Reported {
        kind: Kind::collective(collective, bytes),
        communicator,
        reporter,
        rank: Some(header.rank),
        root: None,
        at_us: call.event_trace_ts.as_ref().and_then(Times::at_us),
        took_us: call.coll_exec_time_us,
        same: Same::Number { lane: Some(collective), number: call.coll_sn, part: 0 },
    })
}
