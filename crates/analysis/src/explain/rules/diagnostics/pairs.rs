//! Pairs of GPUs whose memory did not answer, or answered wrongly, when NCCL read and wrote it.
//! Not how fast a pair is: the check moves a few bytes.

use std::collections::BTreeMap;

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::{count, list},
};
use busbw_library_logs::nccl::{DiagnosedGpu, DiagnosticFact, DiagnosticResult};

/// Pairs that are named one by one.
const MAX_PAIRS_NAMED: usize = 4;

/// What is known of a pair: its failed directions.
#[derive(Default)]
struct Pair<'a> {
    directions: usize,
    what: Vec<&'a str>,
    path: &'a str,
    handle: &'a str,
    lines: Vec<String>,
}

pub(super) fn check(results: &[&DiagnosticResult]) -> Vec<Finding> {
    let mut pairs: BTreeMap<(DiagnosedGpu, DiagnosedGpu), Pair<'_>> = BTreeMap::new();
    for one in results {
        let Some(DiagnosticFact::FailedAccess { what, source, destination, path, handle }) =
            &one.fact
        else {
            continue;
        };
        let ends = (*source.min(destination), *source.max(destination));
        let pair = pairs.entry(ends).or_default();
        pair.directions += 1;
        pair.what.push(what);
        (pair.path, pair.handle) = (path, handle);
        pair.lines.push(one.line());
    }
    let counted = || {
        results.iter().filter_map(|one| match &one.fact {
            Some(DiagnosticFact::Accesses { passed, tested }) => Some((*passed, *tested, one)),
            _ => None,
        })
    };
    let partial = counted().find(|(passed, tested, _)| passed < tested);
    match (pairs.is_empty(), partial) {
        (false, partial) => {
            vec![named(&pairs, partial.map(|(passed, tested, _)| (passed, tested)))]
        }
        (true, Some((passed, tested, line))) => vec![unnamed(passed, tested, line)],
        (true, None) => Vec::new(),
    }
}

/// The pairs by name.
fn named(
    pairs: &BTreeMap<(DiagnosedGpu, DiagnosedGpu), Pair<'_>>,
    accesses: Option<(u64, u64)>,
) -> Finding {
    let mismatch =
        pairs.values().any(|pair| pair.what.iter().any(|what| what.contains("mismatch")));
    let names: Vec<String> =
        pairs.keys().map(|(a, b)| format!("ranks {} and {}", a.rank, b.rank)).collect();
    let shown = names.get(..MAX_PAIRS_NAMED.min(names.len())).unwrap_or_default();
    let mut said = list(shown, "and");
    if names.len() > shown.len() {
        said = format!("{} and {} more", shown.join(", "), names.len() - shown.len());
    }
    let problem = if mismatch {
        "move wrong data when one reads or writes the other's memory"
    } else {
        "cannot reach each other's memory, though NCCL expects them to"
    };
    let gpus = if pairs.len() == 1 { "the GPUs of" } else { "GPUs of" };
    let mut cause = format!("{gpus} {said} {problem}");
    if let Some(gpu) = in_every(pairs) {
        cause.push_str(&format!(
            ": GPU {} of rank {} is in every one of these pairs",
            gpu.nvml_dev, gpu.rank
        ));
    }
    if let Some((passed, tested)) = accesses {
        cause.push_str(&format!(" ({passed} of {} passed)", count(tested, "access")));
    }
    let severity = if mismatch { Severity::Error } else { Severity::Slow };
    let mut finding =
        Finding::new("diagnostics-pair", severity, cause).confidence(Confidence::Certain);
    if let Some((_, pair)) = pairs.iter().next() {
        finding.evidence.extend(pair.lines.iter().take(2).cloned());
        let one_way = if pair.directions == 1 { ", in one direction" } else { "" };
        finding =
            finding.evidence(format!("path {}{one_way}", pair.path)).remedy(remedy(pair, mismatch));
    }
    finding.confirm("nvidia-smi topo -m; nvidia-smi topo -p2p r; nvidia-smi nvlink --status; NCCL_RUN_DIAGNOSTICS=1 again")
}

/// The one GPU that all pairs share, of several pairs.
fn in_every(pairs: &BTreeMap<(DiagnosedGpu, DiagnosedGpu), Pair<'_>>) -> Option<DiagnosedGpu> {
    let (a, b) = pairs.keys().next()?;
    let shared = |gpu: &DiagnosedGpu| pairs.keys().all(|(a, b)| a == gpu || b == gpu);
    let one = [a, b].into_iter().find(|gpu| shared(gpu))?;
    (pairs.len() > 1).then_some(*one)
}

/// What to do, by the path and by what failed.
fn remedy(pair: &Pair<'_>, mismatch: bool) -> String {
    let imported = pair.what.iter().any(|what| what.contains("import"));
    let nvlink = matches!(pair.path, "NVL" | "NVB" | "C2C");
    let first = if imported && pair.handle.contains("IPC") {
        "run the ranks of a host in one container, or give it --ipc=host and --pid=host, with every GPU visible"
    } else if imported && (pair.path == "NET" || pair.handle.contains("FABRIC")) {
        "check the IMEX domain (nvidia-imex-ctl -N: all nodes READY) and /dev/nvidia-caps-imex-channels in the container"
    } else if imported {
        "let the ranks' processes share handles: one container or user for the ranks of a host, Yama's ptrace_scope 0"
    } else if nvlink {
        "look for NVLinks that are down and restart the Fabric Manager; reset or replace the GPU where it comes back"
    } else {
        "turn PCIe ACS off on the switches and set iommu=pt or off (bare metal); in a virtual machine ask for P2P in the host"
    };
    match mismatch {
        true => format!(
            "NCCL_P2P_DISABLE=1 until it is repaired: NCCL goes on using the pair, and results may be wrong; {first}"
        ),
        false => format!("{first}; NCCL goes on using the pair, which may fail or hang"),
    }
}

/// NCCL counts accesses that failed, and the file does not have their lines.
fn unnamed(passed: u64, tested: u64, line: &DiagnosticResult) -> Finding {
    let failed = count(tested - passed, "access");
    Finding::new(
        "diagnostics-pair",
        Severity::Slow,
        format!("{failed} of {tested} between GPUs did not move the right data, and which is not in this file"),
    )
    .confidence(Confidence::Certain)
    .evidence(line.line())
    .remedy("give busbw the output of every rank: each process prints the lines of its own GPU (`p2p: … srcRank=…`) on its stdout")
    .confirm("NCCL_RUN_DIAGNOSTICS=1 with the output of all ranks kept; nvidia-smi topo -p2p r")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(what: &str, from: u32, to: u32, path: &str, handle: &str) -> DiagnosticResult {
        let gpu = |rank| DiagnosedGpu { rank, cuda_dev: rank, nvml_dev: rank };
        DiagnosticResult {
            ok: false,
            check: "p2p".to_owned(),
            text: format!("{what} srcRank={from}"),
            comm: None,
            ranks: None,
            fact: Some(DiagnosticFact::FailedAccess {
                what: what.to_owned(),
                source: gpu(from),
                destination: gpu(to),
                path: path.to_owned(),
                handle: handle.to_owned(),
            }),
            host: String::new(),
        }
    }

    #[test]
    fn the_gpu_that_all_pairs_share_is_named() {
        let lines = [
            failed("peer-memory import failed", 2, 5, "NVL", "LEGACY_CUDA_IPC"),
            failed("peer-memory import failed", 5, 2, "NVL", "LEGACY_CUDA_IPC"),
            failed("peer-memory import failed", 5, 7, "NVL", "LEGACY_CUDA_IPC"),
        ];
        let found = check(&lines.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Slow);
        let cause = "GPUs of ranks 2 and 5 and ranks 5 and 7 cannot reach each other's memory, though NCCL expects them to: GPU 5 of rank 5 is in every one of these pairs";
        assert_eq!(found[0].cause, cause);
        assert!(found[0].remedy.as_deref().is_some_and(|remedy| remedy.contains("--ipc=host")));
    }

    #[test]
    fn wrong_data_are_worse_than_none() {
        let line = failed("write mismatch", 0, 1, "PIX", "CUMEM_POSIX_FD");
        let found = check(&[&line]);
        assert_eq!(found[0].severity, Severity::Error);
        let remedy = found[0].remedy.as_deref().unwrap_or_default();
        assert!(remedy.starts_with("NCCL_P2P_DISABLE=1") && remedy.contains("ACS"), "{remedy}");
        assert!(check(&[]).is_empty());
    }
}
