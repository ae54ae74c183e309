//! What a run holds in the system while it lives (processes, shared memory, sockets, files), noted
//! from outside, and what of that is still there when it is over.
//! Not what it wrote on purpose: that is the run's own business (`bench`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use super::aftermath;

/// Folders for temporary files that anybody may write to, and that a run must leave alone.
const PUBLIC_FOLDERS: [&str; 4] = ["/dev/shm", "/tmp", "/var/tmp", "/run"];

/// Files are stamped with a clock that runs behind by up to this much.
const FILE_CLOCK: Duration = Duration::from_millis(20);

/// Everything that was seen of one run.
#[derive(Debug)]
pub struct Traces {
    /// The run's process group: all its processes, also those whose environment says nothing.
    group: u32,
    looks_for_sockets: bool,
    /// Its processes, and when each began, in clock ticks: a number alone may be given again.
    processes: BTreeMap<u32, u64>,
    /// Inodes of its shared memory.
    pub memory: BTreeSet<u64>,
    /// Inodes of its sockets.
    pub sockets: BTreeSet<u64>,
    /// Files that it had open for writing.
    written: BTreeSet<PathBuf>,
    /// Since when.
    noted: SystemTime,
    /// When one of its processes was first seen stopped or gone.
    pub struck: Option<Instant>,
}

/// What /proc/PID/stat says of a process: its state, parent, group and beginning.
struct Stat {
    state: char,
    group: u32,
    begun: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        begun: fields.get(19)?.parse().ok()?,
    })
}

/// A zombie holds nothing but its number, until whoever inherited it looks.
fn lives(stat: &Stat) -> bool {
    !matches!(stat.state, 'Z' | 'X')
}

/// Children of a process, whichever thread started them.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

impl Traces {
    /// Of a run that leads a process group of its own; `sockets` says whether to look for those.
    pub fn of(group: u32, sockets: bool) -> Traces {
        Traces {
            group,
            looks_for_sockets: sockets,
            processes: BTreeMap::new(),
            memory: BTreeSet::new(),
            sockets: BTreeSet::new(),
            written: BTreeSet::new(),
            noted: SystemTime::now() - FILE_CLOCK,
            struck: None,
        }
    }

    /// Notes what the run holds now.
    pub fn look(&mut self) {
        for pid in std::iter::once(self.group).chain(children(self.group)) {
            self.look_at(pid);
        }
        let well = |pid: &u32| stat(*pid).is_some_and(|stat| lives(&stat) && stat.state != 'T');
        if self.struck.is_none() && !self.processes.keys().all(well) {
            self.struck = Some(Instant::now());
        }
    }

    fn look_at(&mut self, pid: u32) {
        let Some(stat) = stat(pid).filter(lives) else { return };
        self.processes.insert(pid, stat.begun);
        self.memory.extend(aftermath::shared_memory(pid));
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(to) = fs::read_link(entry.path()) else { continue };
            let text = to.to_string_lossy();
            if text.starts_with("/memfd:busbw-") || text.starts_with("pipe:") {
                continue;
            }
            if let Some(inode) = text.strip_prefix("socket:[").and_then(|t| t.strip_suffix(']')) {
                self.sockets.extend(inode.parse::<u64>());
            } else if to.is_absolute()
                && is_for_writing(pid, &entry.file_name().to_string_lossy())
                // The descriptor may have become another file's in between.
                && fs::read_link(entry.path()).is_ok_and(|again| again == to)
            {
                self.written.insert(to);
            }
        }
    }

    /// What is still there, in words; nothing when all is gone. A process that began before the run
    /// is none of it, and nobody handed it anything.
    pub fn left(&self, mark: &str) -> Vec<String> {
        let mut left = Vec::new();
        let begun = self.processes.get(&self.group).copied().unwrap_or(0);
        for pid in aftermath::all_pids() {
            let Some(stat) = stat(pid).filter(|stat| lives(stat) && stat.begun >= begun) else {
                continue;
            };
            if stat.group == self.group {
                left.push(format!("process {pid} of its group"));
            } else if self.processes.get(&pid) == Some(&stat.begun) {
                left.push(format!("process {pid}, which left its group"));
            } else if aftermath::is_marked(pid, mark) {
                left.push(format!("process {pid}, unseen so far"));
            }
            if !aftermath::shared_memory(pid).is_disjoint(&self.memory) {
                left.push(format!("its shared memory, held by {pid}"));
            }
        }
        if self.looks_for_sockets {
            left.extend(self.tcp_left());
        }
        left.extend(self.system_v_left());
        left.extend(self.files_left());
        left
    }

    /// Sockets by inode: a port may be somebody else's by now. What the kernel keeps for a while
    /// after a connection has no inode.
    fn tcp_left(&self) -> Vec<String> {
        let table = ["/proc/net/tcp", "/proc/net/tcp6"]
            .map(|path| fs::read_to_string(path).unwrap_or_default());
        let of_run = |line: &&str| {
            line.split_whitespace()
                .nth(9)
                .and_then(|inode| inode.parse().ok())
                .is_some_and(|inode: u64| self.sockets.contains(&inode))
        };
        table
            .iter()
            .flat_map(|text| text.lines())
            .filter(of_run)
            .map(|line| format!("socket {line}"))
            .collect()
    }

    fn system_v_left(&self) -> Vec<String> {
        let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let creator = |line: &str| line.split_whitespace().nth(4)?.parse::<u32>().ok();
        text.lines()
            .filter(|line| creator(line).is_some_and(|pid| self.processes.contains_key(&pid)))
            .map(|line| format!("System V memory {line}"))
            .collect()
    }

    /// New files in public folders that bear the program's name, or the number of one of its processes.
    fn files_left(&self) -> Vec<String> {
        let numbers: Vec<String> = self.processes.keys().map(u32::to_string).collect();
        let ours = |name: &str| {
            let mut parts = name.split(|c: char| !c.is_ascii_digit());
            name.contains("busbw") || parts.any(|part| numbers.iter().any(|pid| pid == part))
        };
        let is_new = |entry: &fs::DirEntry| {
            entry.metadata().and_then(|m| m.modified()).is_ok_and(|at| at >= self.noted)
        };
        PUBLIC_FOLDERS
            .iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
            .filter(|entry| ours(&entry.file_name().to_string_lossy()) && is_new(entry))
            .map(|entry| format!("file {}", entry.path().display()))
            .collect()
    }

    /// Files that the run had open for writing, beneath none of `folders` and on no device.
    pub fn written_outside(&self, folders: &[&Path]) -> Vec<&PathBuf> {
        let device = |path: &Path| path.starts_with("/dev") && !path.starts_with("/dev/shm");
        // Nothing can be left there.
        let kernel = |path: &Path| path.starts_with("/proc") || path.starts_with("/sys");
        let expected = |path: &Path| {
            device(path) || kernel(path) || folders.iter().any(|folder| path.starts_with(folder))
        };
        self.written.iter().filter(|path| !expected(path)).collect()
    }
}

/// Whether a descriptor was opened for writing, by its flags (octal; the last two bits).
fn is_for_writing(pid: u32, fd: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|f| f & 3 != 0)
}

/// Who leaves something is found out: a check that sees nothing proves nothing.
#[test]
fn what_is_left_is_seen() {
    let mut command = std::process::Command::new("sh");
    let mut child = command
        .args(["-c", "sleep 30 & exec sleep 0.3"])
        .env_clear()
        .process_group(0)
        .spawn()
        .unwrap();
    let mut traces = Traces::of(child.id(), true);
    let sleeper = aftermath::until(Duration::from_secs(5), "a child", || {
        traces.look();
        children(child.id()).first().copied()
    });
    traces.look();
    child.wait().unwrap();
    let left = traces.left("no such mark");
    aftermath::signal(sleeper, rustix::process::Signal::KILL);
    assert_eq!(left, [format!("process {sleeper} of its group")]);

    let mut traces = Traces::of(child.id(), true);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let memory = rustix::fs::memfd_create("busbw-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = tempfile::Builder::new()
        .prefix(&format!("test-{}-", std::process::id()))
        .tempfile()
        .unwrap();
    traces.look_at(std::process::id());
    let left = traces.left("no such mark").join("\n");
    for what in [
        "its shared memory, held by ",
        "socket ",
        "left its group",
        &file.path().display().to_string(),
    ] {
        assert!(left.contains(what), "no '{what}' in {left}");
    }
    assert!(traces.written_outside(&[]).iter().any(|path| *path == file.path()));
    drop((listener, memory));
}
