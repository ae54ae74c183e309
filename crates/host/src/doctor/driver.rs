//! NVIDIA's driver: whether it is loaded, whether library and kernel module have one version, and which
//! kernel module it is.
//! Not the GPUs behind it (`gpus`).

use busbw_core::finding::Finding;
use busbw_ffi::nvml::Reading;

use super::{
    Node,
    advice::{About, Advice},
};
use crate::machine;

const ABOUT: About = About("driver");
const NAME: &str = "NVIDIA driver";

/// Checks the driver.
pub fn check(node: &Node) -> Vec<Finding> {
    let on_bus = node.pci.iter().filter(|device| machine::is_gpu(device));
    let (nvidia, amd): (Vec<_>, Vec<_>) = on_bus.partition(|device| device.vendor == 0x10de);
    let mut findings = Vec::new();
    if !amd.is_empty() {
        let seen = format!("{} on the bus; busbw does not query their driver", amd.len());
        findings.push(ABOUT.note("AMD GPUs", seen, "rocm-smi"));
    }
    let module = node.root.text("sys/module/nvidia/version");
    let version = match &node.driver {
        Ok(driver) => driver.version.value(),
        Err(why) => {
            findings.extend(unanswered(node, why, nvidia.len(), module.as_deref()));
            return findings;
        }
    };
    let version = version.map_or("of unknown version", String::as_str);
    match module {
        // A container may run on a module whose version it does not see.
        Some(module) if module != version => findings.push(ABOUT.error(
            NAME,
            format!("the library is {version}, the kernel module {module}"),
            &MISMATCH,
        )),
        _ => findings.push(ABOUT.fine(NAME, fine(node, version))),
    }
    findings
}

fn fine(node: &Node, version: &str) -> String {
    let cuda = node.driver.as_ref().ok().and_then(|driver| match &driver.cuda {
        Reading::Value((major, minor)) => Some(format!(", runs CUDA up to {major}.{minor}")),
        _ => None,
    });
    let module = match is_open(node) {
        Some(true) => ", open kernel module",
        Some(false) => ", proprietary kernel module",
        None => "",
    };
    format!("{version}{}{module}", cuda.unwrap_or_default())
}

/// Whether the kernel module is the open one: /proc/driver/nvidia/version names it so.
pub(super) fn is_open(node: &Node) -> Option<bool> {
    let text = node.root.text("proc/driver/nvidia/version")?;
    Some(text.contains("Open Kernel Module"))
}

/// The finding where NVML does not answer.
fn unanswered(node: &Node, why: &str, on_bus: usize, module: Option<&str>) -> Option<Finding> {
    let device_files = node.root.names("dev").iter().any(|name| is_gpu_file(name));
    Some(match (on_bus, module) {
        (0, None) if !device_files => ABOUT.absent(NAME, "no NVIDIA GPU here"),
        (_, None) if !device_files => ABOUT.error(
            NAME,
            format!("{on_bus} NVIDIA GPUs on the bus, no kernel module: {why}"),
            &Advice {
                cost: "no program can use the GPUs",
                remedy: "install the driver; sudo modprobe nvidia",
                confirm: "nvidia-smi; lsmod | grep nvidia",
            },
        ),
        // The container toolkit mounts both, or neither was asked for.
        _ if !device_files => ABOUT.error(
            NAME,
            format!("the kernel module is loaded, but /dev has no nvidia0: {why}"),
            &Advice {
                cost: "no program in this container can use the GPUs",
                remedy: "start the container with its GPUs: docker run --gpus all, or a GPU request in the pod",
                confirm: "ls /dev/nvidia*; nvidia-smi",
            },
        ),
        _ => ABOUT.error(NAME, format!("NVML does not answer: {why}"), &MISMATCH),
    })
}

/// Whether a name is that of a GPU's device file: `nvidia0`, not `nvidiactl`.
fn is_gpu_file(name: &str) -> bool {
    let number = name.strip_prefix("nvidia");
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// "Failed to initialize NVML: Driver/library version mismatch" is what nvidia-smi says then.
const MISMATCH: Advice = Advice {
    cost: "CUDA and NVML refuse to start while library and kernel module differ",
    remedy: "reboot, or stop everything on the GPUs and load the new module; in a container, the host's driver libraries must be mounted",
    confirm: "nvidia-smi; cat /proc/driver/nvidia/version",
};
