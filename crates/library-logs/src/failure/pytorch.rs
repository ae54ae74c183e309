//! What PyTorch and gloo print when a distributed job fails.
//! Not tracebacks (`traceback`) and not torchelastic's summary (`elastic`).
//!
//! Sources: torch/csrc/distributed/c10d/{ProcessGroupNCCL,TCPStore,socket,ProcessGroupWrapper}.cpp and
//! torch/distributed/elastic of 2.0 to 2.11, gloo/transport/tcp, real logs.

use super::{
    incident::Incident,
    kind::Kind,
    line::{Line, between, number},
    nccl::{collective_name, collective_of},
    rule::{Rule, keep, rule, word},
};

pub(super) const RULES: &[Rule] = &[
    rule("Watchdog caught collective operation timeout: ", Kind::WatchdogTimeout).read(watchdog),
    rule("Detected mismatch between collectives on ranks. ", Kind::CollectivesDiffer)
        .read(fingerprints),
    rule("op.preamble.length <= op.nbytes. ", Kind::SizesDiffer).read(preamble),
    rule("failed to pass monitoredBarrier in ", Kind::NeverCalled).read(|incident, line, after| {
        let before = line.text.split(" failed to pass").next().unwrap_or_default();
        let list = before.rsplit("Rank").next().unwrap_or_default().trim_start_matches('s');
        incident.details.others =
            list.split(',').filter_map(|one| one.trim().parse().ok()).collect();
        incident.details.op = Some("monitored_barrier".to_owned());
        incident.details.milliseconds = number(after);
        incident.ranks.clear();
        !incident.details.others.is_empty()
    }),
    rule("Timed out waiting ", Kind::GlooTimeout).read(|incident, _, after| {
        incident.details.milliseconds = number(after);
        after.contains("ms for ") && after.contains("operation to complete")
    }),
    rule("Connection closed by peer", Kind::PeerLost).read(gloo_peer),
    rule("Connection reset by peer", Kind::PeerLost).read(gloo_peer),
    rule("Unable to find address for: ", Kind::InterfaceMissing).read(|incident, _, after| {
        incident.details.name = word(after);
        incident.details.variable = Some("GLOO_SOCKET_IFNAME".to_owned());
        true
    }),
    rule("is setting up NCCL communicator and retrieving ncclUniqueId from [", Kind::IdNeverCame)
        .read(unique_id),
    rule("The client socket has timed out after ", Kind::MasterSilent).read(
        |incident, _, after| {
            // Older releases count seconds.
            let count: Option<u64> = number(after);
            let unit = after.trim_start_matches(|c: char| c.is_ascii_digit());
            incident.details.milliseconds =
                if unit.starts_with("ms") { count } else { count.map(|s| s.saturating_mul(1000)) };
            let to = after.split_once("connect to ").map(|(_, to)| to).unwrap_or_default();
            incident.details.address = match to.strip_prefix('(') {
                Some(pair) => pair.split(')').next().map(|pair| keep(&pair.replace(", ", ":"))),
                None => word(to),
            };
            true
        },
    ),
    rule("connect() timed out. Original timeout was ", Kind::MasterSilent).read(
        |incident, _, after| {
            incident.details.milliseconds = number(after);
            true
        },
    ),
    rule(" clients joined.", Kind::ClientsMissing).read(|incident, line, _| {
        let count = line.text.split(" clients joined.").next().and_then(|b| b.rsplit(' ').next());
        let Some((there, asked)) = count.and_then(|count| count.split_once('/')) else {
            return false;
        };
        incident.details.there = Some(keep(there));
        incident.details.asked = Some(keep(asked));
        let seconds: Option<u64> = line.after("Timed out after ").and_then(number);
        incident.details.milliseconds = seconds.map(|s| s.saturating_mul(1000));
        true
    }),
    rule("in store based barrier on rank: ", Kind::ClientsMissing).read(|incident, _, after| {
        incident.rank(number(after));
        incident.details.asked = between(after, "world_size=", ",").map(keep);
        incident.details.there = between(after, "worker_count=", ",").map(keep);
        true
    }),
    rule("RendezvousTimeoutError", Kind::RendezvousTimeout).read(rendezvous),
    rule("RendezvousClosedError", Kind::RendezvousTimeout).read(rendezvous),
    rule("RendezvousConnectionError", Kind::MasterSilent).read(rendezvous),
    rule("EADDRINUSE", Kind::PortInUse).read(port),
    rule("ddress already in use", Kind::PortInUse).read(port),
    rule("Heartbeat monitor timed out", Kind::HeartbeatTimeout),
    rule("watchdog got stuck for ", Kind::HeartbeatTimeout).read(|incident, _, after| {
        incident.details.milliseconds = number(after).map(|s: u64| s.saturating_mul(1000));
        true
    }),
    rule(" out of memory. Tried to allocate ", Kind::GpuMemory).read(|incident, _, after| {
        incident.details.name = Some("PyTorch".to_owned());
        incident.details.asked =
            after.split(". ").next().map(|size| keep(size.trim_end_matches('.')));
        incident.details.there = between(after, "of which ", " is free").map(keep);
        incident.details.reason = between(after, "total capacity of ", " of which").map(keep);
        true
    }),
    rule("Did the remote server shutdown or crash?", Kind::PeerLost)
        .read(|_, line, _| !is_warning(line)),
    rule("NCCL communicator was aborted", Kind::Ended),
    rule("Some NCCL operations have failed or timed out", Kind::Ended),
    rule("successfully reached monitoredBarrier, but", Kind::Ended),
    rule("No CUDA GPUs are available", Kind::NoGpu),
    rule("No HIP GPUs are available", Kind::NoGpu),
    rule("Found no NVIDIA driver on your system", Kind::NoGpu),
    rule("DefaultCPUAllocator: can't allocate memory", Kind::HostMemory).read(
        |incident, _, after| {
            incident.details.asked = after.split_once("allocate ").map(|(_, size)| keep(size));
            true
        },
    ),
    rule("DataLoader worker (pid", Kind::Killed).read(|incident, _, after| {
        // pid 12345) is killed by signal: Killed.
        incident.details.name = Some("data loader".to_owned());
        incident.details.signal = Some(9);
        after.contains("is killed by signal: Killed")
    }),
];

fn watchdog(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    incident.details.op = collective_of(line);
    incident.details.sequence = between(after, "SeqNum=", ",").and_then(number);
    incident.details.milliseconds = between(after, "ran for ", " milli").and_then(number);
    if let (Some(rank), Some(elements)) =
        (line.rank, between(after, "NumelIn=", ",").and_then(number))
    {
        incident.details.elements.insert(rank, elements);
    }
    true
}

/// `Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=2, OpType=ALLREDUCE, …), but Rank 1 is …`.
fn fingerprints(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    let details = &mut incident.details;
    for part in after.split("Rank ").skip(1).take(2) {
        let Some(rank) = number::<u32>(part) else { continue };
        // A call without data, such as a barrier, has no shape and ends otherwise.
        let op = part.split_once("OpType=").and_then(|(_, op)| op.split([',', ')']).next());
        if let Some(op) = op {
            details.ops.insert(rank, collective_name(op));
        }
        let shape = between(part, "TensorShape=[", "]").unwrap_or_default();
        let sizes: Option<Vec<u64>> = shape.split(", ").map(|size| size.parse().ok()).collect();
        if let Some(elements) =
            sizes.and_then(|s| s.iter().try_fold(1u64, |a, b| a.checked_mul(*b)))
        {
            details.elements.insert(rank, elements);
        }
        details.sequence =
            details.sequence.or(between(part, "SequenceNumber=", ",").and_then(number));
    }
    incident.ranks.extend(incident.details.ops.keys());
    let mut ops = incident.details.ops.values();
    if let (Some(one), Some(other)) = (ops.next(), ops.next())
        && one == other
    {
        incident.details.op = Some(one.clone());
        if incident.details.elements.values().collect::<std::collections::BTreeSet<_>>().len() > 1 {
            incident.kind = Kind::SizesDiffer;
        }
    }
    true
}

/// gloo's `op.preamble.length <= op.nbytes. 194478720 vs 4`.
fn preamble(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    incident.details.asked = word(after);
    incident.details.there = after.split_once("vs ").and_then(|(_, size)| word(size));
    true
}

fn gloo_peer(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    let address = after.trim_start().strip_prefix('[').map(|rest| rest.replacen(']', "", 1));
    incident.details.address = address.as_deref().and_then(word);
    // NCCL's own messages have rules of their own, and a closed ssh connection is not a rank's.
    // PyTorch warns of stores that have gone at the end of healthy runs.
    line.text.contains("gloo") || (line.text.contains("Error") && !is_warning(line))
}

fn unique_id(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    let waiting = line.text.split("] is setting up").next().and_then(|b| b.rsplit('[').next());
    incident.rank(waiting.and_then(number));
    incident.details.others.extend(number::<u32>(after));
    incident.details.milliseconds = between(after, "timeout after ", "ms").and_then(number);
    if !after.to_ascii_lowercase().contains("timeout") {
        incident.kind = Kind::PeerLost;
    }
    true
}

fn rendezvous(_: &mut Incident, line: &Line<'_>, _: &str) -> bool {
    // The line of the exception, not one of its frames or of a caller that catches it.
    !line.bare().starts_with(' ') && !line.text.contains("raise ")
}

fn port(incident: &mut Incident, line: &Line<'_>, _: &str) -> bool {
    let port = line.after("port: ").and_then(word).or_else(|| {
        let at = line.text.find(" (errno: 98")?;
        line.text.get(..at)?.rsplit(']').next()?.rsplit(':').next().and_then(word)
    });
    incident.details.address = port.filter(|port| port.parse::<u16>().is_ok());
    // PyTorch tries both families of addresses, and warns of the first.
    !line.text.contains("retry") && !is_warning(line)
}

/// glog's `[W1124 08:33:35.258 …`, behind any prefix.
fn is_warning(line: &Line<'_>) -> bool {
    line.text.contains("[W")
}
