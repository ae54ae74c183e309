//! What this machine is, read from /proc and /sys under a root path, so that tests can bring their own.
//! Not a judgement of it, and no driver or library is asked.

mod cgroup;
mod cpu;
mod devices;
mod out_of_memory;

use std::path::{Path, PathBuf};

use model::record::Machine;

pub use cgroup::memory_limit;
pub use cpu::{near, processor_list, usable_cores};
pub use out_of_memory::{OutOfMemory, OutOfMemoryKills, out_of_memory};

/// A file system root to read from: `/` outside of tests.
#[derive(Debug, Clone)]
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

    fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative)
    }

    /// A file's text without the trailing newline; none where it cannot be read.
    fn text(&self, relative: impl AsRef<Path>) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(relative)).ok()?;
        Some(text.trim_end().to_owned())
    }

    /// Names in a folder, sorted.
    fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(relative)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A field of /proc/meminfo in bytes.
    fn meminfo(&self, field: &str) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    }
}

/// Host name up to the first dot.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or("").to_owned()
}

/// Everything about the machine that explains results.
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
