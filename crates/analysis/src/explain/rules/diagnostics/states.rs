//! States that NCCL's RAS diagnostics compare over ranks: inventory, drivers, ECC, Xids, NVLinks, settings, IOMMU, ATS.
//! Not bandwidths (`nics`) and not pairs of GPUs (`pairs`).

use std::collections::BTreeMap;

use busbw_core::{
    finding::{Confidence, Finding, Severity},
    quantity::list,
};
use busbw_library_logs::nccl::{DiagnosticFact, DiagnosticResult};

/// Settings of which each rank may have its own value: what is printed and where, and names of hosts.
const OWN_SETTINGS: [&str; 8] = [
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_LEVELS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_HOSTID",
    "NCCL_RAS_ADDR",
    "NCCL_TOPO_DUMP_FILE",
];

/// A check, words of its lines that are a fault, how bad it is, what it is, what to do, and how to confirm it.
struct Known {
    check: &'static str,
    words: &'static str,
    severity: Severity,
    what: &'static str,
    remedy: &'static str,
    confirm: &'static str,
}

const KNOWN: [Known; 15] = [
    Known {
        check: "GPU inventory",
        words: "mismatch",
        severity: Severity::Warning,
        what: "hosts do not have the same GPUs",
        remedy: "a GPU that is missing has often fallen off the bus (Xid 79): drain the host, reset or replace the GPU; models that differ make every rank as slow as the slowest",
        confirm: "nvidia-smi -L on each host; dmesg | grep -i xid",
    },
    Known {
        check: "CUDA driver version",
        words: "mismatch",
        severity: Severity::Warning,
        what: "ranks have different CUDA drivers",
        remedy: "install one driver on all hosts; containers with cuda-compat may load another libcuda than their host's",
        confirm: "nvidia-smi --query-gpu=driver_version --format=csv on each host; ldconfig -p | grep libcuda.so in each container",
    },
    Known {
        check: "NVIDIA graphics driver version",
        words: "mismatch",
        severity: Severity::Warning,
        what: "hosts have different NVIDIA drivers",
        remedy: "install one driver on all hosts",
        confirm: "nvidia-smi --query-gpu=driver_version --format=csv on each host",
    },
    Known {
        check: "ECC",
        words: "uncorrected volatile errors on",
        severity: Severity::Warning,
        what: "GPUs have uncorrected memory errors since their last reset",
        remedy: "drain the host and reset the GPU; run dcgmi diag -r 3, and return the GPU if the errors come back or rows cannot be remapped",
        confirm: "nvidia-smi -q -d ECC,ROW_REMAPPER",
    },
    Known {
        check: "ECC",
        words: " corrected volatile errors",
        severity: Severity::Note,
        what: "GPUs have corrected memory errors at or above NCCL_DIAGNOSTICS_ECC_THRESHOLD",
        remedy: "watch whether the number grows; data are right",
        confirm: "nvidia-smi -q -d ECC,ROW_REMAPPER",
    },
    Known {
        check: "NVLink",
        words: "inactive link",
        severity: Severity::Slow,
        what: "NVLinks are down",
        remedy: "reset the GPU and restart the Fabric Manager; return the board where the link stays down",
        confirm: "nvidia-smi nvlink --status; dmesg | grep -i -e nvlink -e sxid",
    },
    Known {
        check: "NVLink",
        words: "inconsistent link speeds",
        severity: Severity::Slow,
        what: "NVLinks run at different speeds",
        remedy: "a link that trained slower is often cured by a reset of GPU and switch",
        confirm: "nvidia-smi nvlink --status; nvidia-smi nvlink -e",
    },
    Known {
        check: "NVLink",
        words: "link-count mismatch",
        severity: Severity::Slow,
        what: "GPUs have different numbers of NVLinks",
        remedy: "find out which links are missing; a reset of the GPU often brings them back",
        confirm: "nvidia-smi nvlink --status on the ranks' hosts",
    },
    Known {
        check: "rdma_topo check",
        words: "failed on rank",
        severity: Severity::Slow,
        what: "GPU and NIC do not reach each other directly below their PCIe switch",
        remedy: "set ACS on the switches between them as the tool's output says, then reboot",
        confirm: "sudo rdma_topo check",
    },
    Known {
        check: "IOMMU mode",
        words: "enabled",
        severity: Severity::Slow,
        what: "an IOMMU remaps the DMA of GPUs and NICs",
        remedy: "on bare metal boot with iommu=pt (intel_iommu=on iommu=pt, or amd_iommu=on iommu=pt)",
        confirm: "cat /sys/kernel/iommu_groups/*/type | sort | uniq -c; cat /proc/cmdline",
    },
    Known {
        check: "ATS state",
        words: "disabled on",
        severity: Severity::Note,
        what: "PCIe ATS is off on NICs",
        remedy: "where a virtual machine passes GPU and NIC through, ATS lets peers skip the IOMMU: enable it in the NIC's firmware (mlxconfig ATS_ENABLED=true)",
        confirm: "sudo lspci -vvv | grep ATSCtl",
    },
    Known {
        check: "IOMMU groups",
        words: "differ on",
        severity: Severity::Note,
        what: "GPU and NIC are in different IOMMU groups, as with ACS",
        remedy: "normal where the IOMMU passes DMA through and GPUDirect RDMA is fast; else turn ACS off between them",
        confirm: "sudo lspci -vvv | grep ACSCtl; readlink /sys/bus/pci/devices/*/iommu_group",
    },
    Known {
        check: "Paths",
        words: "across",
        severity: Severity::Note,
        what: "ranks reach their peers or NICs over different kinds of paths",
        remedy: "compare the topology of the hosts: a NIC or GPU in another slot, or NVLink that is missing",
        confirm: "nvidia-smi topo -m on each host; busbw topo",
    },
    Known {
        check: "XGMI",
        words: "inactive link",
        severity: Severity::Slow,
        what: "xGMI links are down",
        remedy: "reset the GPUs; return the board where the link stays down",
        confirm: "amd-smi xgmi; rocm-smi --showtopo",
    },
    Known {
        check: "HIP driver version",
        words: "mismatch",
        severity: Severity::Warning,
        what: "ranks have different AMD drivers",
        remedy: "install one driver on all hosts",
        confirm: "amd-smi version on each host",
    },
];

pub(super) fn check(results: &[&DiagnosticResult]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        KNOWN.iter().filter_map(|known| of_known(known, results)).collect();
    findings.extend(settings(results));
    findings.extend(kernel_errors(results));
    findings.extend(unknown(results));
    findings
}

fn of_known(known: &Known, results: &[&DiagnosticResult]) -> Option<Finding> {
    let matches = |one: &&&DiagnosticResult| {
        // `corrected` is also the end of `uncorrected`: the words begin with a blank.
        let text = format!(" {}", one.text);
        one.check == known.check && !one.ok && text.contains(known.words)
    };
    let lines: Vec<&&DiagnosticResult> = results.iter().filter(matches).collect();
    let first = lines.first()?;
    let mut cause = known.what.to_owned();
    let ranks: Vec<&str> = lines.iter().filter_map(|one| one.ranks.as_deref()).collect();
    match (&first.fact, ranks.first()) {
        (Some(DiagnosticFact::Differ { from, value }), Some(ranks)) => {
            cause.push_str(&format!(": ranks {ranks} differ from rank {from}, which has {value}"));
        }
        (_, Some(ranks)) => cause.push_str(&format!(": ranks {ranks}")),
        _ => {}
    }
    let mut finding = Finding::new(rule(known.check), known.severity, cause)
        .confidence(Confidence::Certain)
        .remedy(known.remedy)
        .confirm(known.confirm);
    finding.evidence.extend(lines.iter().take(3).map(|one| one.line()));
    Some(finding)
}

fn rule(check: &str) -> &'static str {
    match check {
        "GPU inventory" => "diagnostics-inventory",
        "ECC" => "diagnostics-ecc",
        "NVLink" | "XGMI" => "diagnostics-links",
        "rdma_topo check" | "IOMMU mode" | "IOMMU groups" | "ATS state" => "diagnostics-pci",
        "Paths" => "diagnostics-paths",
        _ => "diagnostics-driver",
    }
}

/// Variables that ranks have with different values.
fn settings(results: &[&DiagnosticResult]) -> Option<Finding> {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut lines = Vec::new();
    for one in results {
        if let Some(DiagnosticFact::Variable { name, value }) = &one.fact {
            let ranks = one.ranks.as_deref().unwrap_or("some ranks");
            by_name.entry(name).or_default().push(format!("{name}={value} on {ranks}"));
            lines.push((name.as_str(), one.line()));
        }
    }
    let own = |name: &str| OWN_SETTINGS.contains(&name);
    let told: Vec<&str> = by_name.keys().copied().filter(|name| !own(name)).collect();
    let severity = if told.is_empty() { Severity::Note } else { Severity::Warning };
    let names = if told.is_empty() { by_name.keys().copied().collect() } else { told };
    let first = *names.first()?;
    let values = by_name.get(first)?.join(", ");
    let more = if names.len() > 1 {
        format!(" (and {})", list(&names[1..], "and"))
    } else {
        String::new()
    };
    let what = match severity {
        Severity::Note => "ranks print other things, which changes no result",
        _ => {
            "ranks do not have the same settings, which NCCL neither checks nor evens out: it may hang, or be as slow as its slowest rank"
        }
    };
    let mut finding = Finding::new("diagnostics-settings", severity, format!("{what}: {values}{more}"))
        .confidence(Confidence::Certain)
        .remedy("set the variable on all hosts by the launcher (mpirun -x, srun --export, the pod's env), not in one host's shell or nccl.conf")
        .confirm("env | grep NCCL_ under the launcher on every rank; cat /etc/nccl.conf ~/.nccl.conf");
    finding.evidence.extend(
        lines.iter().filter(|(name, _)| *name == first).take(2).map(|(_, line)| line.clone()),
    );
    Some(finding)
}

/// Xids and SXids.
fn kernel_errors(results: &[&DiagnosticResult]) -> Option<Finding> {
    let mut found: Vec<String> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let mut harmless = true;
    for one in results {
        if let Some(DiagnosticFact::Xid { number, switch, times, host }) = &one.fact {
            let kind = if *switch { "SXid" } else { "Xid" };
            let often = if *times > 1 { format!(" {times} times") } else { String::new() };
            found.push(format!("{kind} {number}{often} on {host}"));
            lines.push(one.line());
            harmless &= one.text.contains("No user action");
        }
    }
    if found.is_empty() {
        return None;
    }
    let severity = if harmless { Severity::Note } else { Severity::Warning };
    let mut finding = Finding::new(
        "diagnostics-xid",
        severity,
        format!("the kernel's log has errors of GPUs or NVSwitches: {}", list(&found, "and")),
    )
    .confidence(Confidence::Certain);
    finding.evidence.extend(lines.into_iter().take(3));
    if !harmless {
        finding.remedy = Some("drain the host and follow NVIDIA's catalog for this number: 79 is a GPU off the bus, 74 NVLink, 48, 63, 64, 94 and 95 memory, 119 and 120 its GSP; 13, 31, 43 and 45 are mostly the program's".to_owned());
        finding.confirm = Some(
            "dmesg | grep -i -e xid; nvidia-smi -q | grep -i -e retired -e remapped".to_owned(),
        );
    }
    Some(finding)
}

/// Checks that could not tell.
fn unknown(results: &[&DiagnosticResult]) -> Option<Finding> {
    const WORDS: [&str; 10] = [
        "unavailable",
        "incomplete",
        "not usable",
        "partial",
        "truncated",
        "no kernel-log source",
        "skipped",
        "unable to identify",
        "require root",
        "inaccessible",
    ];
    let open: Vec<&&DiagnosticResult> = results
        .iter()
        .filter(|one| !one.ok && one.fact.is_none() && one.check != "net bw")
        .filter(|one| {
            let whole = one.line();
            WORDS.iter().any(|word| whole.contains(word))
        })
        .collect();
    let first = open.first()?;
    let mut checks: Vec<&str> = open.iter().map(|one| one.check.as_str()).collect();
    checks.sort_unstable();
    checks.dedup();
    Some(
        Finding::new(
            "diagnostics-incomplete",
            Severity::Unknown,
            format!("NCCL could not tell everything of {}", list(&checks, "and")),
        )
        .confidence(Confidence::Certain)
        .evidence(first.line())
        .remedy("give the job's user access to the kernel's log, PCI configuration and NVML, or read them as root once for each host")
        .confirm("sudo busbw doctor on each host"),
    )
}
