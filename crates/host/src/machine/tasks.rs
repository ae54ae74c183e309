//! How many more processes and threads this process may start, by every limit that Linux has for that.
//! Not memory (`cgroup`) and not open files.

use rustix::process::{Resource, getrlimit, getuid};

use super::{Root, cgroup};

/// Processes and threads that are still allowed; `None` where no limit can be read.
pub fn task_limit(root: &Root) -> Option<u64> {
    // The kernel holds everybody to it but root.
    let of_user = getrlimit(Resource::Nproc).current.filter(|_| !getuid().is_root());
    let running = running(root);
    let left = |limit: Option<u64>| limit.map(|limit| limit.saturating_sub(running));
    let of_kernel = ["proc/sys/kernel/threads-max", "proc/sys/kernel/pid_max"];
    let of_kernel = of_kernel.map(|path| left(root.number(path)));
    [of_user, cgroup::task_limit(root)].into_iter().chain(of_kernel).flatten().min()
}

/// Processes and threads of the system: behind the slash in /proc/loadavg.
fn running(root: &Root) -> u64 {
    let text = root.text("proc/loadavg").unwrap_or_default();
    let all = text.split_whitespace().nth(3).and_then(|word| word.split_once('/'));
    all.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let root = Root::new(folder.path());
        write("proc/loadavg", "0.1 0.2 0.3 2/400 12345\n");
        write("proc/sys/kernel/pid_max", "500\n");
        assert_eq!(task_limit(&root), Some(100));
        write("proc/self/cgroup", "0::/job\n");
        write("sys/fs/cgroup/job/pids.max", "64\n");
        write("sys/fs/cgroup/job/pids.current", "4\n");
        assert_eq!(task_limit(&root), Some(60));
    }
}
