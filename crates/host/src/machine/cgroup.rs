//! The limits of this process's control group, version 2 or 1, over all its ancestors: memory, and tasks.
//! Not what is in use: only what the group already holds is subtracted.

use super::Root;

/// A controller, and its files for the limit and the usage in version 2 and in version 1.
struct Controller {
    folder: &'static str,
    name: &'static str,
    files: [[&'static str; 2]; 2],
}

/// Bytes that the control groups still allow; `None` without a limit.
pub fn memory_limit(root: &Root) -> Option<u64> {
    let first = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
    let files = [["memory.max", "memory.current"], first];
    limit(root, &Controller { folder: "sys/fs/cgroup/memory", name: "memory", files })
}

/// Processes and threads that the control groups still allow; `None` without a limit.
pub(super) fn task_limit(root: &Root) -> Option<u64> {
    let files = [["pids.max", "pids.current"]; 2];
    limit(root, &Controller { folder: "sys/fs/cgroup/pids", name: "pids", files })
}

fn limit(root: &Root, controller: &Controller) -> Option<u64> {
    let groups = root.text("proc/self/cgroup")?;
    groups.lines().filter_map(|line| line_limit(root, line, controller)).min()
}

/// The limit that follows from one line `id:controllers:path`.
fn line_limit(root: &Root, line: &str, controller: &Controller) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let [second, first] = controller.files;
    let (mounts, [limit, usage]): (&[&str], _) = if controllers.is_empty() {
        (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], second)
    } else if controllers.split(',').any(|c| c == controller.name) {
        (std::slice::from_ref(&controller.folder), first)
    } else {
        return None;
    };
    let mut least = None;
    for mount in mounts {
        // Within a container the path may not exist under the mount; the mount's own files then hold.
        let mut path = path.trim_start_matches('/');
        loop {
            let folder = format!("{mount}/{path}");
            if let Some(free) = free_in(root, &folder, limit, usage) {
                least = Some(least.map_or(free, |l: u64| l.min(free)));
            }
            if path.is_empty() {
                break;
            }
            path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }
    least
}

fn free_in(root: &Root, folder: &str, limit: &str, usage: &str) -> Option<u64> {
    let limit: u64 = root.text(format!("{folder}/{limit}"))?.parse().ok()?;
    // Version 1 says "no limit" with a number near 2^63.
    if limit >= 1 << 60 {
        return None;
    }
    let used: u64 =
        root.text(format!("{folder}/{usage}")).and_then(|t| t.parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn version_two_takes_the_tightest_ancestor() {
        let (_keep, root) = root(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "300\n"),
        ]);
        assert_eq!(memory_limit(&root), Some(700));
    }

    #[test]
    fn version_one_and_no_limit() {
        let files = [
            ("proc/self/cgroup", "3:cpu:/\n9:memory:/job\n0::/\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        let (_keep, with) = root(&files);
        assert_eq!(memory_limit(&with), Some(5000));
        let (_keep, without) = root(&[("proc/self/cgroup", "0::/\n")]);
        assert_eq!(memory_limit(&without), None);
    }
}
