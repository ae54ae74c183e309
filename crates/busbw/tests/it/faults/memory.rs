//! A control group with little memory: sizes are capped to what it allows, and nobody is killed; with
//! less than was there at the start, somebody is, and the message says why.
//! Not the formula of the cap.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use busbw_core::exit::Exit;

use crate::processes::{
    aftermath,
    bench::{Bench, Ended, Running, SOON},
};

const LIMIT: u64 = 300 << 20;

/// A control group of its own, gone with this.
struct Group {
    folder: PathBuf,
    files: Files,
}

/// What the files of a version are called.
#[derive(Clone, Copy)]
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// Counts out-of-memory kills.
    kills: &'static str,
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    kills: "memory.oom_control",
};

const VERSION_2: Files =
    Files { limit: "memory.max", usage: "memory.current", kills: "memory.events" };

impl Group {
    /// Beneath this process's own group, or beneath the mount where a container hides that. None,
    /// with the reason told, where none can be made.
    fn create(name: &str, limit: u64) -> Option<Group> {
        let name = format!("busbw-faults-{name}-{}", std::process::id());
        let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut why = "no memory controller is mounted".to_owned();
        for line in text.lines() {
            let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else {
                continue;
            };
            let (mounts, files) = match controllers {
                "" => (["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], VERSION_2),
                _ if controllers.split(',').any(|c| c == "memory") => {
                    (["/sys/fs/cgroup/memory"; 2], VERSION_1)
                }
                _ => continue,
            };
            for parent in mounts.map(|mount| [format!("{mount}{path}"), mount.to_owned()]).concat()
            {
                match Group::beneath(Path::new(&parent), &name, limit, files) {
                    Ok(group) => return Some(group),
                    Err(e) => why = format!("{parent}: {e}"),
                }
            }
        }
        aftermath::waive(&format!("no control group can be made: {why}"));
        None
    }

    fn beneath(parent: &Path, name: &str, limit: u64, files: Files) -> std::io::Result<Group> {
        fs::metadata(parent)?;
        let group = Group { folder: parent.join(name), files };
        fs::create_dir(&group.folder)?;
        // Without the controller the file does not exist, and must not come to be.
        fs::metadata(group.folder.join(files.limit))?;
        group.set_limit(limit)?;
        Ok(group)
    }

    fn set_limit(&self, bytes: u64) -> std::io::Result<()> {
        fs::write(self.folder.join(self.files.limit), bytes.to_string())
    }

    fn usage(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.files.usage)).unwrap();
        text.trim().parse().unwrap()
    }

    /// A run inside.
    fn start(&self, words: &str) -> Running {
        Bench::in_shell(&self.script("\"$@\""), words).start()
    }

    /// A shell's script that goes inside and becomes `command`.
    fn script(&self, command: &str) -> String {
        format!("echo $$ > {}/cgroup.procs && exec {command}", self.folder.display())
    }

    fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.files.kills)).unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.map_or(0, |count| count.trim().parse().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only an empty group goes away; a failed test may need a moment for that.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn sizes_are_capped_to_the_groups_memory() {
    let Some(group) = Group::create("cap", LIMIT) else { return };
    for shape in ["-g 2", "-t 2 -g 1"] {
        let words = format!("all_reduce {shape} -b 1M -e 8G -f 4 -n 2 --batches 1 -w 1");
        let ended = group.start(&words).end(SOON);
        ended.exits(0);
        let head = "# Reducing maxBytes to ";
        let line = ended.stdout.lines().find_map(|line| line.strip_prefix(head)).unwrap();
        let most: u64 = line.split(' ').next().unwrap().parse().unwrap();
        // Two ranks with three buffers each, and something for the programs themselves.
        assert!((1 << 20..LIMIT / 6).contains(&most), "{most}");
        let sizes: Vec<u64> = ended
            .rows()
            .iter()
            .map(|row| row.split_whitespace().next().unwrap().parse().unwrap())
            .collect();
        assert!(sizes.len() >= 2 && sizes.iter().all(|size| *size <= most), "{sizes:?}");
        ended.says("-e is lowered from ");
        let run = ended.read_record().run;
        assert_eq!(run.reduced_max_bytes, Some(most));
        assert!(run.machine.memory_limit.unwrap() <= LIMIT);
    }
    assert_eq!(group.kills(), 0);
}

/// What two ranks need for their buffers of so many MiB, and what the group allows at first.
const fn need(mib: u64) -> u64 {
    2 * 3 * (mib << 20)
}
const AT_FIRST: u64 = 4 << 30;

/// Its message names the rank and says that memory was the reason, and what to do.
fn is_out_of_memory(group: &Group, ended: &Ended, shape: &str, place: &str) {
    ended.exits(6).is_cut_short_and_shown_again();
    assert!(group.kills() > 0);
    let ranks = if shape == "-g 2" { "rank " } else { "ranks 0, 1 " };
    ended.says(&format!("busbw: {ranks}")).says("killed by signal 9 (SIGKILL)").says(place);
    ended.says("the kernel's out-of-memory killer acted in this control group");
    ended.says("lower -e or -g, or raise the group's limit");
    assert_eq!(ended.read_record().end.unwrap().exit, Exit::RankLost);
}

/// How the kernel weighs a process that it looks for memory in: ranks put 500 there, and a supervisor
/// -1000 where it may.
fn weight(process: u32) -> Option<i32> {
    fs::read_to_string(format!("/proc/{process}/oom_score_adj")).ok()?.trim().parse().ok()
}

/// While ranks touch their buffers for the first time, the limit comes down to little more than they
/// have. Below what they have version 1 refuses to go.
#[test]
fn a_limit_that_is_lowered_while_memory_is_taken() {
    for shape in ["-g 2", "-t 2 -g 1"] {
        // On a busy machine the look at the ranks may come when half of the memory is taken: again then.
        for last in [false, false, false, false, true] {
            let Some(group) = Group::create("lowered", AT_FIRST) else { return };
            let mut running = group.start(&format!("all_reduce {shape} -b 256M -e 256M -n 1"));
            let lowered = aftermath::until(SOON, "a lower limit", || {
                let has = group.usage();
                let ranks = running.ranks();
                let begun = ranks.len() == if shape == "-g 2" { 2 } else { 1 };
                // Before that, the largest is the supervisor, where that may not lower its score.
                let begun = begun && ranks.iter().all(|rank| weight(*rank) == Some(500));
                (begun && group.set_limit(has + (4 << 20)).is_ok()).then_some(has)
            });
            let spared = weight(running.pid()) == Some(-1000);
            let ended = running.end(SOON);
            if ended.signal() == Some(9) && !spared && !last {
                // The ranks were killed already, and had not yet given back what they share.
                aftermath::tell("memory: the kernel took the supervisor as well: once more");
                continue;
            }
            if lowered < need(256) / 2 {
                is_out_of_memory(&group, &ended, shape, "at the start");
                break;
            }
            assert!(!last, "{lowered} bytes were taken already, five times in a row");
        }
    }
}

/// Takes memory inside of a group, until it goes.
struct Ballast(Child);

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// After some rows the group is full, and another of its processes wants more: the kernel kills the
/// largest, which is a rank. Rows are kept.
#[test]
fn a_neighbour_that_takes_the_memory() {
    for shape in ["-g 2", "-t 2 -g 1"] {
        let Some(group) = Group::create("neighbour", AT_FIRST) else { return };
        let words = format!("all_reduce {shape} -b 16M -e 16M -n 1 --batches 1 -c 1 -N 0");
        let mut running = group.start(&words);
        running.at_row(1);
        assert!(group.usage() >= need(16));
        aftermath::until(SOON, "a lower limit", || group.set_limit(group.usage() + (8 << 20)).ok());
        // Next after the ranks, where the supervisor may not lower its score and is about as large.
        let after =
            "sh -c 'echo 250 >/proc/self/oom_score_adj; exec dd if=/dev/zero of=/dev/null bs=64M'";
        let script = group.script(after);
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::null()).stderr(Stdio::null());
        let ballast = Ballast(command.spawn().unwrap());
        let ended = running.end(SOON);
        drop(ballast);
        is_out_of_memory(&group, &ended, shape, " row ");
        assert!(!ended.rows().is_empty());
    }
}
