//! What the kernel allows this process: locked memory, cores. Read from /proc, without system calls
//! for limits.
//! Not its use of them.

use std::collections::BTreeSet;

use super::{Root, cpu::processor_list};

/// A resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    Unlimited,
    /// Bytes.
    Bytes(u64),
}

/// How much memory may be locked (the soft limit): "Max locked memory" of proc_pid_limits(5).
pub fn locked_memory(root: &Root) -> Option<Limit> {
    let limits = root.text("proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(Limit::Unlimited),
        bytes => bytes.parse().ok().map(Limit::Bytes),
    }
}

/// Whether the limit does not apply: CAP_IPC_LOCK, bit 14 of the effective capabilities,
/// capabilities(7).
pub fn may_lock(root: &Root) -> Option<bool> {
    let bits = u64::from_str_radix(&status(root, "CapEff")?, 16).ok()?;
    Some(bits >> 14 & 1 == 1)
}

/// Cores that this process may run on: Cpus_allowed_list of proc_pid_status(5).
pub fn allowed_cores(root: &Root) -> Option<BTreeSet<usize>> {
    let cores = processor_list(&status(root, "Cpus_allowed_list")?);
    (!cores.is_empty()).then(|| cores.into_iter().collect())
}

fn status(root: &Root, field: &str) -> Option<String> {
    let text = root.text("proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        for (path, text) in files {
            std::fs::write(folder.path().join(path), text).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn limits_and_capabilities() {
        let (_keep, limited) = root(&[
            (
                "proc/self/limits",
                "Limit  Soft  Hard  Units\nMax locked memory         65536                unlimited            bytes     \n",
            ),
            (
                "proc/self/status",
                "Name:\tx\nCapEff:\t0000000000004000\nCpus_allowed_list:\t0-1,4\n",
            ),
        ]);
        assert_eq!(locked_memory(&limited), Some(Limit::Bytes(65536)));
        assert_eq!(may_lock(&limited), Some(true));
        assert_eq!(allowed_cores(&limited), Some([0, 1, 4].into()));
        let (_keep, nothing) = root(&[]);
        assert_eq!((locked_memory(&nothing), may_lock(&nothing)), (None, None));
    }
}
