//! How many processes the kernel has killed because memory ran out: in this process's control
//! group, version 2 or 1, and on the whole machine. Which processes they were, only dmesg says.
//! Not how much memory there is (`cgroup`).

use super::Root;

/// The kernel's counts so far; `None` where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutOfMemoryKills {
    group: Option<u64>,
    machine: Option<u64>,
}

/// Whether the kernel has killed a process because memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfMemory {
    /// In this process's control group.
    InGroup,
    /// Somewhere on this machine; as far as the group's own count says, not in this group.
    OnMachine,
    /// Nowhere.
    No,
    /// The kernel has no count.
    Unknown,
}

impl OutOfMemoryKills {
    /// The kills since `earlier`.
    pub fn since(&self, earlier: &OutOfMemoryKills) -> OutOfMemory {
        let rose = |now: Option<u64>, then: Option<u64>| Some(now? > then?);
        match (rose(self.group, earlier.group), rose(self.machine, earlier.machine)) {
            (Some(true), _) => OutOfMemory::InGroup,
            (_, Some(true)) => OutOfMemory::OnMachine,
            (_, Some(false)) => OutOfMemory::No,
            // The group's own count misses kills in groups above or beside it.
            (_, None) => OutOfMemory::Unknown,
        }
    }
}

/// The current counts.
pub fn out_of_memory(root: &Root) -> OutOfMemoryKills {
    let groups = root.text("proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().filter_map(|line| group_count(root, line)).max();
    let machine = root.text("proc/vmstat").as_deref().and_then(count);
    OutOfMemoryKills { group, machine }
}

/// The count of the group in one line `id:controllers:path`.
fn group_count(root: &Root, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (mounts, file): (&[&str], _) = if controllers.is_empty() {
        (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.events")
    } else if controllers.split(',').any(|c| c == "memory") {
        (&["sys/fs/cgroup/memory"], "memory.oom_control")
    } else {
        return None;
    };
    let read = |folder: String| count(&root.text(format!("{folder}/{file}"))?);
    // Within a container the path may not exist under the mount; the mount's own file is then used.
    let own = |mount: &&str| read(format!("{mount}/{}", path.trim_start_matches('/')));
    mounts.iter().find_map(own).or_else(|| mounts.iter().find_map(|m| read((*m).to_owned())))
}

/// Parses the line `oom_kill N`, which all these files have.
fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kills(files: &[(&str, &str)]) -> OutOfMemoryKills {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        out_of_memory(&Root::new(folder.path()))
    }

    #[test]
    fn version_two() {
        let of = |kills| {
            [
                ("proc/self/cgroup", "0::/a\n"),
                ("sys/fs/cgroup/a/memory.events", kills),
                ("proc/vmstat", "oom_kill 7\n"),
            ]
        };
        let before = kills(&of("low 0\nmax 3\noom 1\noom_kill 0\n"));
        let after = kills(&of("low 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n"));
        assert_eq!(after.since(&before), OutOfMemory::InGroup);
        assert_eq!(before.since(&before), OutOfMemory::No);
    }

    #[test]
    fn version_one_and_a_hidden_path() {
        let of = |kills| {
            [
                ("proc/self/cgroup", "4:cpu,memory:/hidden\n0::/\n"),
                ("sys/fs/cgroup/memory/memory.oom_control", kills),
            ]
        };
        let before = kills(&of("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"));
        let after = kills(&of("oom_kill_disable 0\nunder_oom 1\noom_kill 3\n"));
        assert_eq!(after.since(&before), OutOfMemory::InGroup);
        assert_eq!(after.since(&after), OutOfMemory::Unknown);
    }

    #[test]
    fn the_machine_alone_and_nothing_at_all() {
        let (before, after) = (
            kills(&[("proc/vmstat", "oom_kill 1\n")]),
            kills(&[("proc/vmstat", "pgfree 9\noom_kill 2\n")]),
        );
        assert_eq!(after.since(&before), OutOfMemory::OnMachine);
        assert_eq!(kills(&[]).since(&kills(&[])), OutOfMemory::Unknown);
    }
}
