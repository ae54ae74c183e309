//! What NCCL, RCCL and their benchmarks print when they fail; CUDA's and HIP's reasons too.
//! Not PyTorch's own texts, though it repeats these.
//!
//! Sources: NCCL's src/ of 2.18 to 2.32 (init.cc, bootstrap.cc, enqueue.cc, misc/socket.cc, misc/shmutils.cc,
//! plugin/net.cc, transport/net_ib.cc, transport/net_socket.cc), nccl-tests' common.cu, real logs.

use super::{
    incident::Incident,
    kind::Kind,
    line::{Line, between, number},
    rule::{Field, Rule, keep, rule, word},
};

pub(super) const RULES: &[Rule] = &[
    rule("Duplicate GPU detected : rank ", Kind::DuplicateGpu).read(duplicate),
    // The size that was asked for is on the next line: `Failed to CUDA calloc 10485760 bytes`.
    rule("Cuda failure ", Kind::CudaFailure).read(quoted_reason).opens(),
    // Its process is on the next line: `.. host pid N: Test failure common.cu:1189`.
    rule("Test CUDA failure ", Kind::CudaFailure).read(quoted_reason).opens(),
    rule("Test HIP failure ", Kind::CudaFailure).read(quoted_reason).opens(),
    rule("HIP failure ", Kind::CudaFailure).read(quoted_reason),
    rule("CUDA error: ", Kind::CudaFailure).read(reason),
    rule("HIP error: ", Kind::CudaFailure).read(reason),
    rule("hipErrorNoBinaryForGpu", Kind::NoKernelImage),
    rule("Invalid number of GPUs: ", Kind::InvalidDevice).read(|incident, _, after| {
        incident.details.asked = word(after);
        incident.details.there = between(after, "but only ", " were").map(keep);
        incident.details.there.is_some()
    }),
    rule("no socket interface found", Kind::InterfaceMissing).read(socket_interface),
    rule("NET/Socket : no interface found", Kind::InterfaceMissing).read(socket_interface),
    rule("Failed to initialize any NET plugin", Kind::NetworkMissing),
    rule("Error: network ", Kind::NetworkMissing).read(|incident, _, after| {
        incident.details.name = after.split_once(" not found").map(|(name, _)| keep(name));
        incident.details.name.is_some()
    }),
    rule("o algorithm/protocol available for function ", Kind::AlgorithmMissing).read(algorithm),
    rule("Error while creating shared memory segment ", Kind::ShmFull).read(shared_memory),
    rule("Error: failed to extend ", Kind::ShmFull).read(shared_memory),
    rule("Call to posix_fallocate failed", Kind::ShmFull).read(no_space),
    // PyTorch's loader, torch/utils/data/_utils/signal_handling.py.
    rule("This might be caused by insufficient shared memory", Kind::ShmFull),
    rule("workers are out of shared memory", Kind::ShmFull),
    rule("Call to ibv_", Kind::VerbsFailed).read(verbs),
    rule("Unable to register memory (type = ", Kind::RegistrationFailed).read(
        |incident, _, after| {
            incident.details.name = Some("the plugin of libfabric".to_owned());
            incident.details.reason = after.split_once("Error: ").map(|(_, reason)| keep(reason));
            true
        },
    ),
    rule("Mismatched NCCL version detected : ", Kind::VersionsDiffer).read(versions),
    rule("mismatch in rank count from procs ", Kind::RankCountMismatch).read(
        |incident, _, after| {
            let mut counts = after.split(" : ");
            incident.details.asked = counts.next().and_then(word);
            incident.details.there = counts.next().and_then(word);
            true
        },
    ),
    rule("message truncated : receiving ", Kind::Truncated).read(truncated),
    rule("Got completion from peer ", Kind::NetworkRetries).read(completion),
    rule("Got completion with error ", Kind::NetworkRetries).read(completion),
    rule("Got completion with status=", Kind::NetworkRetries).read(completion),
    rule("socketPollConnect: ", Kind::ConnectFailed).read(connect).in_info(),
    rule("socketStartConnect: ", Kind::ConnectFailed).read(connect).in_info(),
    rule("ncclSocketConnect", Kind::ConnectFailed).read(connect).in_info(),
    rule("Connect to ", Kind::ConnectFailed).read(|incident, line, after| {
        line.warning.is_some() && after.contains(" failed : ") && connect(incident, line, after)
    }),
    rule("Connection closed by remote peer", Kind::PeerLost).read(peer),
    rule("Call to recv from ", Kind::PeerLost).read(peer),
    rule("Call to send to ", Kind::PeerLost).read(peer),
    rule("remote process exited or there was a network error", Kind::PeerLost).read(
        |incident, line, _| {
            incident.details.op = collective_of(line);
            true
        },
    ),
    rule("NCCL error in: ", Kind::NcclError).read(result).opens(),
    rule("Test NCCL failure ", Kind::NcclError)
        .read(|incident, line, after| {
            incident.place = word(after).or(incident.place.take());
            let host = line.bare().split(": Test NCCL").next().unwrap_or_default();
            incident.host(host.rsplit(' ').next().unwrap_or_default());
            // `'unhandled cuda error … / CUDA driver version is insufficient …'`: ncclGetLastError's words are the reason.
            let last = between(after, "'", "'").and_then(|said| said.split_once(" / "));
            match last {
                Some((_, said)) if is_known(said) => classify(incident, said),
                _ => result(incident, line, after),
            }
        })
        .opens(),
    rule(": Test failure ", Kind::NcclError).read(|incident, line, after| {
        incident.details.name = Some("test failure".to_owned());
        incident.place = word(after);
        let process = line.text.split(" pid ").nth(1).unwrap_or_default();
        incident.pid(number(process));
        incident.host(between(line.text, " .. ", " pid ").unwrap_or_default());
        line.text.contains(" .. ")
    }),
    rule("# Out of bounds values : ", Kind::WrongData).read(|_, _, after| after.contains("FAILED")),
    rule("DATA VALIDATION ERROR", Kind::WrongData),
    // The kernel's log: the driver's documentation of Xids says which stand for hardware.
    rule("NVRM: Xid (", Kind::Xid).read(xid),
    rule("GPU has fallen off the bus", Kind::GpuHardware).read(|incident, line, _| {
        incident.details.reason = Some("it has fallen off the bus".to_owned());
        !line.text.contains("NVRM: Xid (")
    }),
];

pub(super) const FIELDS: &[Field] = &[Field {
    needle: "Failed to CUDA calloc ",
    of: &[Kind::GpuMemory],
    read: |i, after| i.details.asked = number::<u64>(after).map(|bytes| bytes.to_string()),
}];

fn duplicate(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    incident.rank(number(after));
    incident.rank(after.split_once(" and rank ").and_then(|(_, other)| number(other)));
    incident.details.asked = after.split_once("device ").and_then(|(_, device)| word(device));
    incident.ranks.len() == 2
}

/// `'out of memory'`, with a number before it from 2.2x on.
fn quoted_reason(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    if line.text.contains("Test CUDA") || line.text.contains("Test HIP") {
        incident.place = word(after);
        let host = line.bare().split(": Test ").next().unwrap_or_default();
        incident.host(host.rsplit(' ').next().unwrap_or_default());
    }
    between(after, "'", "'").is_some_and(|said| classify(incident, said))
}

fn reason(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    let said = after.split(" Device-side").next().unwrap_or(after);
    // PyTorch 2.0 and later end the sentence; nothing else is on the line.
    classify(incident, said.trim_end_matches(['.', ' ']))
}

/// Words of cudaGetErrorString and hipGetErrorString, which are stable over releases.
const KINDS: &[(&str, Kind)] = &[
    ("out of memory", Kind::GpuMemory),
    ("invalid device ordinal", Kind::InvalidDevice),
    ("no CUDA-capable device is detected", Kind::NoGpu),
    ("no ROCm-capable device is detected", Kind::NoGpu),
    ("busy or unavailable", Kind::GpuBusy),
    ("driver version is insufficient", Kind::DriverTooOld),
    ("unsupported toolchain", Kind::DriverTooOld),
    ("no kernel image is available", Kind::NoKernelImage),
    ("named symbol not found", Kind::NoKernelImage),
    ("device kernel image is invalid", Kind::NoKernelImage),
    ("invalid device function", Kind::NoKernelImage),
    ("uncorrectable ECC error", Kind::GpuHardware),
    ("uncorrectable NVLink error", Kind::GpuHardware),
    ("hardware stack error", Kind::GpuHardware),
    ("Contained error", Kind::GpuHardware),
    ("illegal memory access", Kind::GpuFault),
    ("unspecified launch failure", Kind::GpuFault),
    ("misaligned address", Kind::GpuFault),
    ("device-side assert", Kind::GpuFault),
    ("illegal instruction", Kind::GpuFault),
    ("launch timed out", Kind::GpuFault),
];

fn is_known(said: &str) -> bool {
    KINDS.iter().any(|(words, _)| said.contains(words))
}

fn classify(incident: &mut Incident, said: &str) -> bool {
    let known = KINDS.iter().find(|(words, _)| said.contains(words));
    incident.kind = known.map_or(incident.kind, |(_, kind)| *kind);
    incident.details.reason = Some(keep(said));
    !said.is_empty()
}

fn socket_interface(incident: &mut Incident, _: &Line<'_>, _: &str) -> bool {
    incident.details.variable = Some("NCCL_SOCKET_IFNAME".to_owned());
    true
}

fn algorithm(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    incident.details.op = word(after);
    if let Some((before, value)) = after.split_once(" was set to ") {
        incident.details.variable = before.rsplit(' ').next().map(keep);
        incident.details.name = word(value);
    }
    true
}

fn shared_memory(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    // Both messages name one segment: they are one incident.
    incident.details.asked =
        between(after, "(size ", ")").or_else(|| between(after, " to ", " bytes")).map(keep);
    no_space(incident, line, after)
}

fn no_space(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    let reason = after.split_once("rror: ").or_else(|| after.split_once(" : "));
    incident.details.reason = reason.map(|(_, said)| keep(said));
    after.contains("No space left on device")
}

/// `Call to ibv_modify_qp failed with 110 Connection timed out, on dev …`, `… failed with error Cannot allocate memory`.
fn verbs(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    let call = after.split_whitespace().next().unwrap_or_default();
    incident.details.name = Some(keep(&format!("ibv_{call}")));
    incident.details.reason = after.split_once("failed with ").map(|(_, said)| {
        let said = said.trim_start_matches("error ");
        keep(said.split(", on dev").next().unwrap_or(said))
    });
    incident.kind = match after.contains("Cannot allocate memory") {
        true => Kind::LockedMemory,
        false if call.starts_with("reg_") => Kind::RegistrationFailed,
        false => Kind::VerbsFailed,
    };
    (line.warning.is_some() || line.text.contains("Last error")) && after.contains(" failed")
}

/// `rank 8 version 22809 rank 0 version 22707`: NCCL_VERSION_CODE of two ranks.
fn versions(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    let mut codes: Vec<u32> = after.split("version ").skip(1).filter_map(number).collect();
    codes.sort_unstable();
    let release = |code: &u32| format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100);
    incident.details.there = codes.first().map(release);
    incident.details.asked = codes.last().map(release);
    codes.len() == 2
}

fn truncated(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    incident.details.asked = word(after);
    incident.details.there = after.split_once("instead of ").and_then(|(_, size)| word(size));
    incident.details.address = between(line.text, "peer ", " message").map(keep);
    true
}

/// libibverbs' status: 12 is a retry counter that was exceeded, 5 what is flushed after another error.
fn completion(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    let status = after.split_once("status=").and_then(|(_, status)| number::<u64>(status));
    let status = status.or_else(|| number(after)).or_else(|| {
        line.from("status=").and_then(|from| number(from.trim_start_matches("status=")))
    });
    incident.details.address = word(after).filter(|address| address.contains(['<', ':']));
    incident.details.name = line.after(" hca ").and_then(word);
    match status {
        Some(5) => incident.kind = Kind::PeerLost,
        Some(status) => incident.details.exit_code = i64::try_from(status).ok(),
        None => {}
    }
    true
}

fn connect(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    const REASONS: [&str; 8] = [
        "No route to host",
        "Connection refused",
        "Connection timed out",
        "Network is unreachable",
        "Software caused connection abort",
        "Cannot assign requested address",
        "Operation timed out",
        "exceeded retries",
    ];
    let Some(reason) = REASONS.iter().find(|reason| after.contains(**reason)) else { return false };
    let to = line.text.split_once("onnect to ").map(|(_, to)| to).unwrap_or_default();
    incident.details.address = word(to).filter(|address| address.contains(['<', ':']));
    // At level INFO it tries again; the last try is a warning from 2.24 on, and silent before.
    if line.info && !after.contains("exceeded") && !last_try(after) {
        return false;
    }
    incident.details.reason = Some((*reason).to_owned());
    true
}

/// `retrying (34/34)`.
fn last_try(after: &str) -> bool {
    between(after, "retrying (", ")").and_then(|tries| tries.split_once('/')).is_some_and(
        |(one, all)| number::<u32>(one).is_some_and(|one| one > 0 && number(all) == Some(one)),
    )
}

fn peer(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    let address = if line.text.contains("Call to ") { word(after) } else { word(after.trim()) };
    incident.details.address = address.filter(|address| address.contains('<'));
    if line.text.contains("Call to ") {
        incident.details.reason = after.split_once(" failed : ").map(|(_, reason)| keep(reason));
    }
    true
}

/// `NCCL error in: place, unhandled system error (run with …)`, `Test NCCL failure place 'internal error - …'`.
fn result(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    const RESULTS: [&str; 6] = [
        "unhandled cuda error",
        "unhandled system error",
        "internal error",
        "invalid usage",
        "invalid argument",
        "remote process exited",
    ];
    let Some(name) = RESULTS.iter().find(|result| after.contains(**result)) else {
        incident.details.name = Some("an error".to_owned());
        return true;
    };
    incident.details.name = Some((*name).to_owned());
    *name != "remote process exited"
}

fn xid(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    // NVIDIA's Xid catalogue: those after which the GPU or a link must be reset or replaced.
    const HARDWARE: [u32; 14] = [48, 62, 64, 74, 79, 92, 94, 95, 109, 110, 119, 120, 136, 140];
    let Some((device, code)) = after.split_once("): ") else { return false };
    let Some(code) = number::<u32>(code) else { return false };
    incident.details.name = Some(format!("Xid {code}"));
    incident.details.address = Some(keep(device.trim_start_matches("PCI:")));
    if HARDWARE.contains(&code) {
        incident.kind = Kind::GpuHardware;
    }
    true
}

/// The collective in PyTorch's `WorkNCCL(SeqNum=2, OpType=ALLREDUCE, …`.
pub(super) fn collective_of(line: &Line<'_>) -> Option<String> {
    let name = between(line.text, "OpType=", ",")?;
    Some(collective_name(name))
}

/// PyTorch's and gloo's `ALLREDUCE` as its functions are named: `all_reduce`.
pub(super) fn collective_name(name: &str) -> String {
    let plain = name.trim_start_matches('_').trim_end_matches("_BASE").to_ascii_lowercase();
    match plain.as_str() {
        "allreduce" => "all_reduce".to_owned(),
        "allgather" => "all_gather".to_owned(),
        "alltoall" => "all_to_all".to_owned(),
        _ => keep(&plain),
    }
}
