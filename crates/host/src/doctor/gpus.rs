//! GPUs: clocks, power, throttling, memory errors, XIDs, what else runs on them.
//! Not their links (`fabric`, `pcie`).

use std::collections::BTreeMap;

use busbw_core::finding::{Finding, Severity};
use busbw_ffi::nvml::{Gpu, Reading, throttle};

use super::{
    Node,
    advice::{About, Advice},
    xid,
};
use crate::machine;

const ABOUT: About = About("gpus");

/// Looks at every GPU.
pub fn check(node: &Node) -> Vec<Finding> {
    let Ok(driver) = &node.driver else { return Vec::new() };
    let mut findings = Vec::new();
    let several = driver.gpus.len() > 1;
    for (index, gpu) in driver.gpus.iter().enumerate() {
        match gpu {
            Ok(gpu) => findings.extend(judge(gpu, several)),
            Err(why) => findings.push(ABOUT.error(
                &format!("GPU {index}"),
                format!("it does not answer: {why}"),
                &Advice {
                    cost: "whatever includes it fails or hangs",
                    remedy: "drain the node; reset the GPU (nvidia-smi --gpu-reset) or reboot",
                    confirm: "nvidia-smi; sudo dmesg | grep -i xid",
                },
            )),
        }
    }
    if !driver.gpus.is_empty() {
        findings.extend(check_xids(node));
    }
    findings
}

/// Everything about one GPU; its state, first, is fine where nothing is wrong or unknown.
fn judge(gpu: &Gpu, several: bool) -> Vec<Finding> {
    let name = &format!("GPU {}", gpu.index);
    let mut findings = Vec::new();
    let unread: Vec<&str> = [
        ("clocks", is_unknown(&gpu.sm_mhz)),
        ("power", is_unknown(&gpu.power_mw)),
        ("throttle reasons", is_unknown(&gpu.throttle)),
        ("ECC errors", is_unknown(&gpu.ecc_uncorrected)),
        ("replaced memory rows", is_unknown(&gpu.remapped)),
    ]
    .into_iter()
    .filter_map(|(what, unknown)| unknown.then_some(what))
    .collect();
    if !unread.is_empty() {
        let why = format!("the driver does not tell its {}", unread.join(", "));
        findings.push(ABOUT.unknown(name, why, &query(gpu)));
    }
    findings.extend(throttled(gpu, name));
    findings.extend(memory_errors(gpu, name));
    if gpu.mig.value() == Some(&true) && several {
        findings.push(ABOUT.slow(
            name,
            "it is cut into MIG instances",
            &Advice {
                cost: "no peer access between instances: NCCL goes through host memory (SHM)",
                remedy: "sudo nvidia-smi -mig 0, where whole GPUs are wanted",
                confirm: "nvidia-smi -q -d MIG; NCCL_DEBUG=INFO shows `via SHM`",
            },
        ));
    }
    if let Some(processes) = gpu.processes.value().filter(|all| !all.is_empty()) {
        let pids: Vec<String> = processes.iter().map(u32::to_string).collect();
        let seen = format!("in use by process {}: measurements share it", pids.join(", "));
        findings.push(ABOUT.note(name, seen, "nvidia-smi pmon -c 1"));
    }
    if gpu.persistent.value() == Some(&false) {
        let seen = "persistence is off: the driver starts anew, for seconds, at every first use";
        findings.push(ABOUT.note(name, seen, "nvidia-smi -q | grep Persistence"));
    }
    let doubt = findings.iter().any(|finding: &Finding| finding.severity >= Severity::Unknown);
    let state = state(gpu);
    let state = if doubt { ABOUT.note(name, state, &query(gpu)) } else { ABOUT.fine(name, state) };
    findings.insert(0, state);
    findings
}

fn is_unknown<T>(reading: &Reading<T>) -> bool {
    matches!(reading, Reading::Unknown(_))
}

fn query(gpu: &Gpu) -> String {
    format!("nvidia-smi -i {} -q", gpu.index)
}

/// One line of what it is and does now.
fn state(gpu: &Gpu) -> String {
    let of = |now: &Reading<u32>, most: &Reading<u32>| match (now.value(), most.value()) {
        (Some(now), Some(most)) => format!("{now} of {most} MHz"),
        _ => "unknown".to_owned(),
    };
    let watt = |mw: &Reading<u32>| mw.value().map(|mw| mw / 1000);
    let power = match (watt(&gpu.power_mw), watt(&gpu.power_limit_mw)) {
        (Some(now), Some(limit)) => format!("{now} of {limit} W"),
        _ => "power unknown".to_owned(),
    };
    let heat = gpu.temperature.value().map_or_else(String::new, |c| format!(", {c} C"));
    let ecc = match gpu.ecc {
        Reading::Value(true) => ", ECC on",
        Reading::Value(false) => ", ECC off",
        _ => "",
    };
    let (sm, memory) = (of(&gpu.sm_mhz, &gpu.sm_max_mhz), of(&gpu.memory_mhz, &gpu.memory_max_mhz));
    format!("{}, SM {sm}, memory {memory}, {power}{heat}{ecc}", gpu.name)
}

/// Lower clocks than the GPU could have. nvml.h, nvmlClocksThrottleReasons, says what each reason means.
fn throttled(gpu: &Gpu, name: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let bits = *gpu.throttle.value().unwrap_or(&0);
    let confirm = &format!("nvidia-smi -i {} -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE", gpu.index);
    // The slowdown bit stands beside its cause.
    let (hot, brake) = (bits & throttle::HARDWARE_HEAT != 0, bits & throttle::POWER_BRAKE != 0);
    if bits & (throttle::HARDWARE | throttle::HARDWARE_HEAT | throttle::POWER_BRAKE) != 0 {
        let why = match (hot, brake) {
            (true, _) => "heat",
            (_, true) => "its power supply asks for it",
            _ => "heat or power",
        };
        findings.push(ABOUT.slow(
            name,
            format!("the hardware slows its clocks down: {why}"),
            &Advice {
                cost: "clocks are divided by 2 or more; every collective waits for this GPU",
                remedy: "look at fans, air flow, power supplies and their cables",
                confirm,
            },
        ));
    }
    if bits & throttle::HEAT != 0 {
        findings.push(ABOUT.slow(
            name,
            "the driver lowers its clocks: too hot",
            &Advice {
                cost: "clocks below maximum; every collective waits for this GPU",
                remedy: "look at fans and air flow",
                confirm,
            },
        ));
    }
    if bits & throttle::APPLICATION_CLOCKS != 0 {
        findings.push(ABOUT.slow(
            name,
            "application clocks are set below its maximum",
            &Advice {
                cost: "kernels, NCCL's too, run at the lower clock",
                remedy: "sudo nvidia-smi -rac, or -rgc for locked clocks",
                confirm,
            },
        ));
    }
    if let (Some(limit), Some(usual)) = (gpu.power_limit_mw.value(), gpu.power_default_mw.value())
        && limit < usual
    {
        let (limit, usual) = (limit / 1000, usual / 1000);
        let cause = format!("its power limit is {limit} W where {usual} W is the default");
        let advice = Advice {
            cost: "clocks fall as soon as computing needs more than the limit",
            remedy: &format!("sudo nvidia-smi -i {} -pl {usual}, unless it is meant", gpu.index),
            confirm,
        };
        findings.push(ABOUT.slow(name, cause, &advice));
    } else if bits & throttle::POWER_CAP != 0 {
        let seen = "at its power limit now: clocks follow the load";
        findings.push(ABOUT.note(name, seen, confirm));
    }
    findings
}

/// Memory that erred. NVIDIA, "GPU Memory Error Management" (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt).
fn memory_errors(gpu: &Gpu, name: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let confirm = &format!("nvidia-smi -i {} -q -d ECC,ROW_REMAPPER", gpu.index);
    let reset = "stop what runs on it, then sudo nvidia-smi --gpu-reset, or reboot";
    let error = |cause: String, cost: &str, remedy: &str| {
        ABOUT.error(name, cause, &Advice { cost, remedy, confirm })
    };
    if let Some(errors) = gpu.ecc_uncorrected.value().filter(|errors| **errors > 0) {
        let cause = format!("uncorrected memory errors since the driver was loaded: {errors}");
        findings.push(error(cause, "programs that meet one are ended (XID 48, 94, 95)", reset));
    }
    if let Some(rows) = gpu.remapped.value() {
        if rows.failed {
            let cause = "no spare memory row is left".to_owned();
            findings.push(error(cause, "the next memory error stays", "replace the GPU (RMA)"));
        } else if rows.pending {
            let cause = "a memory row waits to be replaced".to_owned();
            findings.push(error(cause, "until then it may err again", reset));
        } else if rows.uncorrectable + rows.correctable > 0 {
            let (bad, worn) = (rows.uncorrectable, rows.correctable);
            let seen = format!(
                "memory rows that were replaced: {bad} after uncorrected errors, {worn} after corrected ones"
            );
            findings.push(ABOUT.note(name, seen, confirm));
        }
    }
    if let Some(errors) = gpu.ecc_corrected.value().filter(|errors| **errors > 0) {
        let seen = format!("corrected memory errors since the driver was loaded: {errors}");
        findings.push(ABOUT.note(name, seen, confirm));
    }
    // nvml.h, nvmlDeviceGpuRecoveryAction_t.
    let asked = match gpu.recovery.value() {
        Some(1) => "a reset of the GPU",
        Some(2) => "a reboot of the node",
        Some(3) => "that peer traffic is drained",
        Some(4) => "that it is drained and reset",
        _ => return findings,
    };
    let cause = format!("the driver asks for {asked}");
    findings.push(error(cause, "until then the GPU is unfit for work", reset));
    findings
}

/// XIDs in the kernel's log, counted by GPU and number.
fn check_xids(node: &Node) -> Vec<Finding> {
    const CONFIRM: &str = "sudo dmesg | grep -i xid";
    let log = match machine::kernel_log(&node.root) {
        Ok(log) => log,
        Err(why) => {
            return vec![ABOUT.unknown("XIDs", format!("the kernel's log: {why}"), CONFIRM)];
        }
    };
    let mut counts: BTreeMap<(String, u32), u32> = BTreeMap::new();
    for (address, number) in log.lines().filter_map(xid::parse) {
        *counts.entry((address, number)).or_default() += 1;
    }
    if counts.is_empty() {
        return vec![ABOUT.fine("XIDs", "none in the kernel's log")];
    }
    let judge = |((address, number), count): (&(String, u32), &u32)| {
        let gpu = node.gpus().find(|gpu| gpu.address.starts_with(address.as_str()));
        let name = gpu.map_or_else(|| format!("GPU at {address}"), |g| format!("GPU {}", g.index));
        let (meaning, remedy) = xid::meaning(*number);
        let seen = format!("XID {number} ({meaning}), {count} in the kernel's log");
        match remedy {
            Some(remedy) => {
                let cost = "work on this GPU was lost, and may be again";
                ABOUT.error(&name, seen, &Advice { cost, remedy, confirm: CONFIRM })
            }
            None => ABOUT.note(&name, seen, CONFIRM),
        }
    };
    counts.iter().map(judge).collect()
}
