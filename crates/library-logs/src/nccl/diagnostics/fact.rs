//! What a line of the diagnostics report says in figures: pairs of GPUs, bandwidths of NICs, values of variables, Xids.
//! Not which line it is, and whether NCCL calls it OK (`diagnostics`).

use serde::{Deserialize, Serialize};

use crate::nccl::cursor::Cursor;
use crate::nccl::tally::keep;

/// The content of a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "kebab-case")]
pub enum DiagnosticFact {
    /// Accesses from one GPU to another that moved the right data, each direction for itself.
    Accesses {
        /// Those that did.
        passed: u64,
        /// All.
        tested: u64,
    },
    /// An access from one GPU to another that failed.
    FailedAccess {
        /// NCCL's words, such as `peer-memory import failed`, `write mismatch`.
        what: String,
        /// The GPU that reads and writes.
        source: DiagnosedGpu,
        /// The GPU whose memory it is.
        destination: DiagnosedGpu,
        /// The path between them in NCCL's words: `NVL`, `PIX`, `SYS`.
        path: String,
        /// How the memory was shared, such as `CUMEM_POSIX_FD`.
        handle: String,
    },
    /// The bandwidth of the ranks' NICs by ib_write_bw, Gbit/s.
    NetBandwidth {
        /// `same-nic` or `cross-nic`: whether the peer's NIC has the same name.
        mode: String,
        /// The slowest rank's.
        min_gbit: f64,
        /// The median.
        median_gbit: f64,
        /// The fastest rank's.
        max_gbit: f64,
        /// Ranks with a result.
        ranks: u32,
    },
    /// A rank whose NIC is more than 30 % off the median.
    NetOutlier {
        /// As for `net-bandwidth`.
        mode: String,
        /// The rank.
        rank: u32,
        /// Its host.
        host: String,
        /// Its bandwidth, Gbit/s.
        gbit: f64,
        /// The median, Gbit/s.
        median_gbit: f64,
    },
    /// More such ranks that are not listed.
    MoreNetOutliers {
        /// As for `net-bandwidth`.
        mode: String,
        /// How many.
        ranks: u32,
    },
    /// A pair of NICs that gave no result.
    FailedNetPair {
        /// As for `net-bandwidth`.
        mode: String,
        /// Host and device of the end that listened.
        server: [String; 2],
        /// Host and device of the other end.
        client: [String; 2],
        /// NCCL's words, such as `tool run timed out`.
        why: String,
    },
    /// Ranks differ from another one.
    Differ {
        /// The rank that the others are held against.
        from: u32,
        /// Its value.
        value: String,
    },
    /// A variable, and its value on the ranks of the line.
    Variable {
        /// Its name.
        name: String,
        /// Its value; empty where the ranks do not have it.
        value: String,
    },
    /// An error of a GPU (Xid) or an NVSwitch (SXid) in the kernel's log.
    Xid {
        /// Its number in NVIDIA's catalog.
        number: u32,
        /// Whether it is the switch's.
        switch: bool,
        /// How often; at least so often where the log was cut.
        times: u64,
        /// Host.
        host: String,
    },
}

/// A GPU in a line of the p2p check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DiagnosedGpu {
    /// Its rank.
    pub rank: u32,
    /// CUDA device in its process.
    pub cuda_dev: u32,
    /// Device in NVML's order, as `nvidia-smi` counts.
    pub nvml_dev: u32,
}

/// Reads what follows the name of a check.
pub(super) fn read(check: &str, text: &str) -> Option<DiagnosticFact> {
    let at = Cursor::new(text, false);
    match check {
        "p2p" => accesses(at).or_else(|| failed_access(at)),
        "net bw" => net_bandwidth(at)
            .or_else(|| net_outlier(at))
            .or_else(|| more_outliers(at))
            .or_else(|| failed_pair(at)),
        "NCCL environment" => variable(at),
        "Xid/SXid" => xid(at),
        _ => differ(text),
    }
}

/// `verified P2P access in both directions between every GPU pair (56 peer accesses)`, `only 52/56 GPU-to-GPU peer accesses
/// passed verification`; of 2.31 `all 56 directed GPU P2P edges verified`, `52/56 directed GPU P2P edges verified`.
fn accesses(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    if at.has("verified P2P access in both directions between every GPU pair (") {
        let tested = at.number()?;
        at.literal(" peer access")?;
        return Some(DiagnosticFact::Accesses { passed: tested, tested });
    }
    let all = at.one_of(&["only ", "all "]).is_some_and(|word| word == "all ");
    let passed = at.number()?;
    let tested = if all {
        passed
    } else {
        at.literal("/")?;
        at.number()?
    };
    at.one_of(&[" GPU-to-GPU peer access", " directed GPU P2P edges verified"])?;
    Some(DiagnosticFact::Accesses { passed, tested })
}

/// `write mismatch srcRank=4 srcCudaDev=4 srcNvmlDev=4 dstRank=1 dstCudaDev=1 dstNvmlDev=1 path=PIX handle=… …`.
fn failed_access(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    let what = keep(at.until(" srcRank=")?);
    let source = DiagnosedGpu {
        rank: at.number()?,
        cuda_dev: at.field(" srcCudaDev=")?,
        nvml_dev: at.field(" srcNvmlDev=")?,
    };
    let destination = DiagnosedGpu {
        rank: at.field(" dstRank=")?,
        cuda_dev: at.field(" dstCudaDev=")?,
        nvml_dev: at.field(" dstNvmlDev=")?,
    };
    at.literal(" path=")?;
    let path = keep(at.word()?);
    at.literal(" handle=")?;
    let handle = keep(at.word()?);
    Some(DiagnosticFact::FailedAccess { what, source, destination, path, handle })
}

/// `376.1/391.5/398.2 Gbit/s min/median/max same-nic bw (across 8 ranks) in comm 0x…`.
fn net_bandwidth(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    let min_gbit = at.decimal()?;
    at.literal("/")?;
    let median_gbit = at.decimal()?;
    at.literal("/")?;
    let max_gbit = at.decimal()?;
    at.literal(" Gbit/s min/median/max ")?;
    let mode = mode(&mut at)?;
    let ranks = at.field(" bw (across ")?;
    Some(DiagnosticFact::NetBandwidth { mode, min_gbit, median_gbit, max_gbit, ranks })
}

/// `cross-nic rank 3 (node0): 265.1 Gbit/s, >30% off median 391.5 Gbit/s in comm 0x…`.
fn net_outlier(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    let mode = mode(&mut at)?;
    let rank = at.field(" rank ")?;
    at.literal(" (")?;
    let host = keep(at.until("): ")?);
    let gbit = at.decimal()?;
    at.literal(" Gbit/s, >30% off median ")?;
    let median_gbit = at.decimal()?;
    at.literal(" Gbit/s")?;
    Some(DiagnosticFact::NetOutlier { mode, rank, host, gbit, median_gbit })
}

/// `same-nic: 2 more ranks >30% off median in comm 0x…`.
fn more_outliers(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    let mode = mode(&mut at)?;
    let ranks = at.field(": ")?;
    at.literal(" more rank")?;
    Some(DiagnosticFact::MoreNetOutliers { mode, ranks })
}

/// `mode=same-nic server_rank=0 server_host=a server_device=mlx5_0 client_rank=8 client_host=b client_device=mlx5_0 memory=cuda
/// tool run timed out in comm 0x…`; without memory where it is not known yet.
fn failed_pair(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    at.literal("mode=")?;
    let mode = mode(&mut at)?;
    at.literal(" server_rank=")?;
    at.number::<u32>()?;
    at.literal(" server_host=")?;
    let host = keep(at.word()?);
    at.literal(" server_device=")?;
    let server = [host, keep(at.word()?)];
    at.literal(" client_rank=")?;
    at.number::<u32>()?;
    at.literal(" client_host=")?;
    let host = keep(at.word()?);
    at.literal(" client_device=")?;
    let client = [host, keep(at.word()?)];
    if at.has(" memory=") {
        at.word()?;
    }
    at.literal(" ")?;
    let why = keep(at.until(" in comm 0x")?);
    Some(DiagnosticFact::FailedNetPair { mode, server, client, why })
}

fn mode(at: &mut Cursor<'_>) -> Option<String> {
    at.one_of(&["same-nic", "cross-nic"]).map(str::to_owned)
}

/// `NCCL_DEBUG=INFO on rank(s) {0,1,2,3}`.
fn variable(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    let mut of_line = at;
    of_line.until(" on rank(s) ")?;
    let name = keep(at.until("=").filter(|name| !name.contains(' '))?);
    let value = if at.has(" on rank(s) ") { "" } else { at.until(" on rank(s) ")? };
    Some(DiagnosticFact::Variable { name, value: keep(value) })
}

/// `Xid 79 detected at least 2 times on host gpu7. …`; an SXid names links before its host.
fn xid(mut at: Cursor<'_>) -> Option<DiagnosticFact> {
    let switch = at.one_of(&["SXid ", "Xid "])? == "SXid ";
    let number = at.number()?;
    at.literal(" detected ")?;
    at.has("at least ");
    let times = at.number()?;
    at.until(" on host ")?;
    let host = keep(at.until(". ")?);
    Some(DiagnosticFact::Xid { number, switch, times, host })
}

/// `… rank(s) {2,3} differ from rank 0 (8)`.
fn differ(text: &str) -> Option<DiagnosticFact> {
    let (_, reference) = text.split_once(" differ from rank ")?;
    let mut at = Cursor::new(reference, false);
    let from = at.number()?;
    at.literal(" (")?;
    let value = reference.split_once(" (")?.1;
    // A model's name may have brackets of its own.
    let value = keep(value.trim_end().strip_suffix(')')?);
    Some(DiagnosticFact::Differ { from, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_2_31_and_2_32() {
        for (text, passed, tested) in [
            (
                "verified P2P access in both directions between every GPU pair (56 peer accesses)",
                56,
                56,
            ),
            ("only 52/56 GPU-to-GPU peer accesses passed verification", 52, 56),
            ("all 56 directed GPU P2P edges verified", 56, 56),
            ("52/56 directed GPU P2P edges verified (skipped indirect=4)", 52, 56),
        ] {
            let expected = Some(DiagnosticFact::Accesses { passed, tested });
            assert_eq!(read("p2p", text), expected, "{text}");
        }
        let gpu = |rank, nvml_dev| DiagnosedGpu { rank, cuda_dev: rank, nvml_dev };
        let text = "peer-memory import failed srcRank=4 srcCudaDev=4 srcNvmlDev=14 dstRank=1 dstCudaDev=1 dstNvmlDev=11 path=PIX handle=LEGACY_CUDA_IPC reason=import; check CUDA IPC support, GPU visibility, and process or container isolation";
        let expected = DiagnosticFact::FailedAccess {
            what: "peer-memory import failed".to_owned(),
            source: gpu(4, 14),
            destination: gpu(1, 11),
            path: "PIX".to_owned(),
            handle: "LEGACY_CUDA_IPC".to_owned(),
        };
        assert_eq!(read("p2p", text), Some(expected));
        for text in ["setup failed on rank 3 result=2", "check returned 3", "only 52 GPU-to-GPU"] {
            assert_eq!(read("p2p", text), None, "{text}");
        }
    }

    #[test]
    fn bandwidths_of_nics() {
        let text = "376.1/391.5/398.2 Gbit/s min/median/max same-nic bw (across 8 ranks) in comm 0x7a3f9b2c41d05e88";
        let expected = DiagnosticFact::NetBandwidth {
            mode: "same-nic".to_owned(),
            min_gbit: 376.1,
            median_gbit: 391.5,
            max_gbit: 398.2,
            ranks: 8,
        };
        assert_eq!(read("net bw", text), Some(expected));
        let text = "cross-nic rank 3 (node0): 265.1 Gbit/s, >30% off median 391.5 Gbit/s in comm 0x7a3f9b2c41d05e88";
        let expected = DiagnosticFact::NetOutlier {
            mode: "cross-nic".to_owned(),
            rank: 3,
            host: "node0".to_owned(),
            gbit: 265.1,
            median_gbit: 391.5,
        };
        assert_eq!(read("net bw", text), Some(expected));
        let text = "same-nic: 2 more ranks >30% off median in comm 0x1234";
        let expected = DiagnosticFact::MoreNetOutliers { mode: "same-nic".to_owned(), ranks: 2 };
        assert_eq!(read("net bw", text), Some(expected));
        for memory in ["", " memory=cuda+dmabuf"] {
            let text = format!(
                "mode=same-nic server_rank=0 server_host=a server_device=mlx5_0 client_rank=8 client_host=b client_device=mlx5_1{memory} tool run timed out in comm 0x1234"
            );
            let expected = DiagnosticFact::FailedNetPair {
                mode: "same-nic".to_owned(),
                server: ["a".to_owned(), "mlx5_0".to_owned()],
                client: ["b".to_owned(), "mlx5_1".to_owned()],
                why: "tool run timed out".to_owned(),
            };
            assert_eq!(read("net bw", &text), Some(expected), "{text}");
        }
        for text in ["skipped (single host or no network transport)", "1/2 Gbit/s", "same-nic"] {
            assert_eq!(read("net bw", text), None, "{text}");
        }
    }

    #[test]
    fn values_that_differ() {
        let text = "model mismatch across 4 ranks in comm 0x1, rank(s) {3} differ from rank 0 (NVIDIA H100 80GB HBM3)";
        let expected =
            DiagnosticFact::Differ { from: 0, value: "NVIDIA H100 80GB HBM3".to_owned() };
        assert_eq!(read("GPU inventory", text), Some(expected));
        let variable = |name: &str, value: &str| {
            Some(DiagnosticFact::Variable { name: name.to_owned(), value: value.to_owned() })
        };
        let text = "NCCL_DEBUG=INFO on rank(s) {0,1,2,3}";
        assert_eq!(read("NCCL environment", text), variable("NCCL_DEBUG", "INFO"));
        let text = "NCCL_IB_HCA==mlx5_0 on rank(s) {0}";
        assert_eq!(read("NCCL environment", text), variable("NCCL_IB_HCA", "=mlx5_0"));
        let text = "NCCL_X= on rank(s) {0}";
        assert_eq!(read("NCCL environment", text), variable("NCCL_X", ""));
        let text = "mismatch across 8 ranks in comm 0x1234 for NCCL_DEBUG";
        assert_eq!(read("NCCL environment", text), None);
    }

    #[test]
    fn errors_in_the_kernel_s_log() {
        let xid = |number, switch, times, host: &str| {
            Some(DiagnosticFact::Xid { number, switch, times, host: host.to_owned() })
        };
        let text = "Xid 79 detected 2 times on host gpu7.x. For the recommended response, see the NVIDIA Xid documentation: https://x";
        assert_eq!(read("Xid/SXid", text), xid(79, false, 2, "gpu7.x"));
        let text = "SXid 20034 detected at least 1 time (NVSwitch driver reported fatal, link(s) 3) on host gpu7. See the NVIDIA Fabric Manager documentation for the recommended response: https://x";
        assert_eq!(read("Xid/SXid", text), xid(20_034, true, 1, "gpu7"));
        assert_eq!(
            read("Xid/SXid", "no events requiring immediate attention across 2 hosts"),
            None
        );
    }
}
