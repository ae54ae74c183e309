//! The known messages that are ignored on purpose, by how they begin.
//! Messages that nothing reads and that are not listed here are unknown: they are counted, and a
//! few are kept as examples.

/// Beginnings, by subsystem. What is not kept, and why: docs/nccl_log.md.
const IGNORED_BEGINNINGS: [&str; 123] = [
    // INIT
    "threadThresholds ",
    "P2P Chunksize set to ",
    "Check P2P Type ",
    "Setting affinity for GPU ",
    "ncclTopoGetCpuAffinity: ",
    "CC Off",
    "CC On",
    "Launch mode ",
    "Plugin Path : ",
    "Using non-device net plugin version ",
    "MNNVL 0 ",
    "MNNVL 1 ",
    "MemManager: ",
    // GRAPH
    "Tree ",
    "Trees ",
    "=== System ",
    "====",
    "CPU/",
    "GPU/",
    "NIC/",
    "PCI/",
    "NVS/",
    "NET/0-",
    "NET/1-",
    "+ ",
    "TOPO/NET : ",
    "ncclTopoPopulateNics : ",
    "Loading topology file ",
    "Loading unnamed topology",
    "Retrieving state for ",
    "Initialized state ",
    "KV Convert to int",
    "Attribute ",
    "Topology detection : ",
    "Topology detection: network path ",
    "Could not find real path of ",
    "ncclP2pSchedule: ",
    // NET
    "NET/IB: ",
    "SHARP ",
    "dlvsym failed on ",
    // NVLS
    "NVLS Head ",
    "NVLS Trees ",
    "NVLS Creating Multicast group ",
    "NVLS rank ",
    "NVLS Bind ",
    "NVLS Unbind ",
    "NVLS importing ",
    "NVLS Imported ",
    // TUNING: the model's table, and the matrix of what is allowed
    "Algorithm ",
    "Protocol ",
    "Max NThreads ",
    "Broadcast |",
    "Reduce |",
    "AllGather |",
    "ReduceScatter |",
    "AllReduce |",
    "Enabled NCCL Func/Proto/Algo Matrix",
    // PROXY
    "[Proxy ",
    "UDS: ",
    "UDS converted handle ",
    "New proxy ",
    "Connected to proxy ",
    "Received and initiated operation=",
    "proxyProgressAsync ",
    "ncclPollProxyResponse ",
    "resp.opId=",
    "Queuing opId=",
    "sendConnect ",
    "recvConnect ",
    // ALLOC, REG, SHM
    "Mem Realloc ",
    "Allocated ",
    "MMAP ",
    "Imported shareable ",
    "Cuda Alloc ",
    "Cuda Host Alloc ",
    "register comm ",
    "deregister comm ",
    "Inserted window ",
    "Removed window ",
    "memory stack hunk ",
    // 2.31 and 2.32: the model's own words beside the choice, one-sided transfers, their plugins and GPUs, logical
    // endpoints, registration for NVLS, the profiler's thread, pairs of GPUs that the diagnostics do not test
    "NCCL git version ",
    "graphStreamOrdering=",
    "RMA/Plugin: Failed to initialize ",
    "GIN/Plugin: Failed to initialize ",
    "Loaded NVML from ",
    "Socket handshake magic ",
    "Topology detection: could not read ",
    "Tuning P2P operations ",
    "proxy listening socket at ",
    "Best tuning",
    "Input: { ",
    "GIN: ",
    "GIN/Plugin: Skipping ",
    "GIN/Plugin: Max active backends reached",
    "GIN backend type ",
    "GIN/GDAKI: ",
    "RMA/Socket : ",
    "RMA: ",
    "CFT ",
    "GDRCOPY ",
    "Env var DOCA_SDK_LIB_PATH ",
    "DOCA ",
    "symmetricSupport ",
    "MNNVL rack serial ",
    "NVLS MC ",
    "NVLS UB ",
    "NVLS release ",
    "NVLS destroy ",
    "NVLS unbind ",
    "NVLS TryBindAddr ",
    "NCCL progress counter monitor",
    "Profiler event mask: ",
    "Profiler: enabling ",
    "[Profiler Thread] ",
    "Diagnostics P2P ",
    // RAS, DESTROY, PROFILE
    "RAS ",
    "ENV/Plugin: Closing ",
    "NET/Plugin: Closing ",
    "TUNER/Plugin: Closing ",
    "PROFILER/Plugin: Closing ",
    "NCCL Inspector ",
    "Using MSCCL Algo files ",
    "Failed to load ",
];

/// Beginnings that another message has, which is read: a message cut after them may have been that.
const AMBIGUOUS_BEGINNINGS: [&str; 3] = ["NET/IB : ", "NET/Socket : ", "NET/OFI "];

/// Whether a message is ignored on purpose.
pub(super) fn ignored(text: &str, cut: bool) -> bool {
    let text = text.trim_start();
    let first = text.as_bytes().first();
    let begins = |with: &&str| with.as_bytes().first() == first && text.starts_with(with);
    text.is_empty()
        || IGNORED_BEGINNINGS.iter().any(begins)
        || !cut
            && (path_of_a_graph(text) || AMBIGUOUS_BEGINNINGS.iter().any(|b| text.starts_with(b)))
        || of_a_plugin_search(text)
        || of_a_source_line(text)
        || call(text)
        || devices(text)
        || segment(text)
}

/// `Channel 00/02 : 0 3 2 1`, `Ring 00 : 0 -> 1 -> 2`, `0 : GPU/0 GPU/1`: orders of ranks and GPUs.
fn path_of_a_graph(text: &str) -> bool {
    let number = text.strip_prefix("Channel ").unwrap_or(text);
    let number = number.strip_prefix("Ring ").unwrap_or(number);
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '/');
    rest.len() < number.len() && rest.starts_with(" :") && !rest.contains(" via ")
}

/// Symbols of other releases that NCCL looks up without success, and what is used without a plugin.
fn of_a_plugin_search(text: &str) -> bool {
    let said = text.trim_start_matches(|c: char| c.is_ascii_uppercase()).strip_prefix("/Plugin");
    said.is_some_and(|said| {
        let said = said.trim_start_matches([' ', ':']);
        ["Failed to find ", "Using internal ", "No plugin found", "Plugin name set by env to "]
            .iter()
            .any(|beginning| said.starts_with(beginning))
    })
}

/// `init.cc:490 Cuda Host Alloc …`, `transport/net.cc:783 -> 2`: allocations, and the way that an
/// error takes; the error itself is a warning.
fn of_a_source_line(text: &str) -> bool {
    let place = text.split(' ').next().unwrap_or("");
    place.rsplit_once(':').is_some_and(|(file, line)| {
        [".cc", ".c", ".cu", ".h"].iter().any(|end| file.ends_with(end))
            && line.bytes().all(|b| b.is_ascii_digit())
    })
}

/// `AllReduce: opCount 0 sendbuff …` (COLL): every call, with its buffers.
fn call(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).starts_with(": opCount ")
}

/// `Rank 1: 1 Net devices`: how many a rank has; their names are other lines'.
fn devices(text: &str) -> bool {
    let rest = text.strip_prefix("Rank ").and_then(|rest| rest.split_once(": "));
    rest.is_some_and(|(_, said)| {
        said.ends_with(" Net devices") || said.ends_with(" CollNet devices")
    })
}

/// `[2] Segment 0, Type : 1 …`, `[2] Created a QP: …` (REG, NET), `rank 2 - NET register userbuff …`, `rank 2 NVLS UB …`.
fn segment(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix("rank ") {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        return rest.starts_with(" - ") || rest.starts_with(" NVLS UB ");
    }
    let rest = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let known = ["Segment ", "Connected ", "Created ", "Registered MR", "Unregistering MR"];
    rest.is_some_and(|(rank, said)| {
        rank.len() < 8
            && rank.bytes().all(|digit| digit.is_ascii_digit())
            && known.iter().any(|word| said.starts_with(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_passed_over() {
        for text in [
            "",
            "Channel 00/02 : 0 3 2 1 4 7 6 5",
            "Channel 00/24 :    0   1",
            "Ring 00 : 0 -> 1 -> 2",
            " 0 : GPU/0-17000 GPU/0-65000",
            "NET/Plugin: Failed to find ncclNetPlugin_v7 symbol.",
            "NET/Plugin : No plugin found, using internal implementation",
            "TUNER/Plugin: Failed to find ncclTunerPlugin_v2, using internal tuner instead.",
            "transport/net.cc:783 -> 2",
            "channel.cc:42 Cuda Alloc Size 2432 pointer 0x749f07800000",
            "AllReduce: opCount 0 sendbuff 0x7f",
            "[2] Segment 0, Type : 1, numSegments : 1",
            "Rank 1: 1 Net devices",
            "[7] Created a QP group: qp_idx=7, main_qpn=0x1",
            "rank 0 - NET register userbuff 0x7fe232600000 (handle 0x7fe208458a70), buffSize 25165824",
            "rank 0 NVLS UB registered sendbuff 0x7f size 7 -> 0x7f, recvbuff 0x7f size 7 -> 0x7f",
            "Rank 1: 0 CollNet devices",
        ] {
            assert!(ignored(text, false), "{text}");
        }
        for text in [
            "Channel 00/0 : 0[0] -> 1[1] via TELEPATHY/1",
            "Something new",
            "NET/Plugin: Dancing",
            "0: x",
            "AllReduce [New]: opCounter",
        ] {
            assert!(!ignored(text, false), "{text}");
        }
        for text in ["Channel 00/0 : 0[0", "NET/IB : Using [0]ml"] {
            assert!(!ignored(text, true), "{text}: it may have been more");
        }
    }
}
