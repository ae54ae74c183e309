//! The facts about this machine, read from /proc and /sys under a root path, so that tests can
//! bring their own.
//! Not a judgement of it, and no driver or library is called.

mod ancestry;
mod cgroup;
mod cpu;
mod dcb;
mod devices;
mod devlink;
mod interfaces;
mod kernel_log;
mod netlink;
mod out_of_memory;
mod pci;
mod process;
mod proximity;
mod rdma;
mod shaper;
mod tasks;

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use busbw_core::{environment::HOST, record::Machine};

pub use ancestry::{ancestor, command_of_ancestor, is_stopped, parent};
pub use cgroup::memory_limit;
pub use cpu::{cores_of_parent, last_cache, near, of_node, processor_list, usable_cores};
pub use dcb::{Bridging, bridging};
pub use devlink::{Devlink, devlink};
pub(crate) use interfaces::speed_mbps;
pub use interfaces::{Interface, interfaces};
pub use kernel_log::kernel_log;
pub use out_of_memory::{OutOfMemory, OutOfMemoryKills, out_of_memory};
pub use pci::{Access, PciDevice, is_address, is_gpu};
pub use process::{Limit, allowed_cores, locked_memory, may_lock};
pub use proximity::{Proximity, nearest_gpu};
pub use rdma::{
    AddressKind, Candidates, Choice, Gid, Port, RdmaDevice, Wanted, candidates, choose, roce_mtu,
};
pub use shaper::shaped_rate;
pub use tasks::task_limit;

/// A file system root to read from: `/` outside of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// Reads below `path`.
    pub fn new(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// This machine.
    pub fn system() -> Root {
        Root::new("/")
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative)
    }

    /// A file's text without the trailing newline; `None` where it cannot be read.
    pub fn text(&self, relative: impl AsRef<Path>) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(relative)).ok()?;
        Some(text.trim_end().to_owned())
    }

    /// Names in a folder, sorted.
    pub fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(relative)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A file's bytes, at most `most` of them; `None` where it cannot be read.
    pub(crate) fn bytes(&self, relative: impl AsRef<Path>, most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(self.0.join(relative)).ok()?;
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The number that a file holds.
    pub(crate) fn number<T: std::str::FromStr>(&self, relative: impl AsRef<Path>) -> Option<T> {
        self.text(relative)?.trim().parse().ok()
    }

    /// Whether the path exists.
    pub(crate) fn exists(&self, relative: impl AsRef<Path>) -> bool {
        self.0.join(relative).exists()
    }

    /// The target of a symbolic link, below the root.
    pub(crate) fn real(&self, relative: impl AsRef<Path>) -> Option<PathBuf> {
        let real = std::fs::canonicalize(self.0.join(relative)).ok()?;
        let root = std::fs::canonicalize(&self.0).ok()?;
        real.strip_prefix(root).ok().map(Path::to_owned)
    }

    /// The root itself.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// A field of /proc/meminfo in bytes.
    pub(crate) fn meminfo(&self, field: &str) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    }
}

/// Host name up to the first dot.
pub fn host_name() -> String {
    // A pod has a name of its own: people know its node.
    let told = std::env::var(HOST).ok().filter(|name| !name.trim().is_empty());
    told.unwrap_or_else(system_name)
}

/// The system's own name, up to its first dot.
pub fn system_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or("").to_owned()
}

/// Facts about the machine that explain results.
pub fn read(root: &Root) -> Machine {
    let os_release = root.text("etc/os-release").unwrap_or_default();
    let os = os_release
        .lines()
        .find_map(|l| l.strip_prefix("PRETTY_NAME="))
        .map_or_else(String::new, |name| name.trim_matches('"').to_owned());
    Machine {
        host: host_name(),
        os,
        kernel: root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
        cpu: cpu::read(root),
        memory_total: root.meminfo("MemTotal").unwrap_or(0),
        memory_available: root.meminfo("MemAvailable").unwrap_or(0),
        memory_limit: memory_limit(root),
        nics: devices::nics(root),
        gpus: devices::gpus(root),
    }
}

/// Network devices, GPUs, bridges and accelerators on the PCI bus, by address. Takes longer than the
/// plain names that [`read`] asks for.
pub fn pci(root: &Root) -> Vec<PciDevice> {
    pci::read(root)
}

/// Every RDMA device, by name.
pub fn rdma(root: &Root) -> Vec<RdmaDevice> {
    rdma::read(root)
}

/// Names of all network interfaces and RDMA devices.
pub fn device_names(root: &Root) -> Vec<String> {
    let mut names = root.names("sys/class/net");
    names.extend(root.names("sys/class/infiniband"));
    names
}

/// Largest resident memory of this process so far, bytes (VmHWM).
pub fn peak_resident(root: &Root) -> u64 {
    let text = root.text("proc/self/status").unwrap_or_default();
    text.lines()
        .find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}
