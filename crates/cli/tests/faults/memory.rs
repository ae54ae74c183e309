//! A control group with little memory: sizes are capped to what it allows, and nobody is killed.
//! Not the formula of the cap.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    aftermath,
    bench::{Bench, SOON},
};

const LIMIT: u64 = 300 << 20;

/// A control group of its own, gone with this.
struct Group {
    folder: PathBuf,
    /// File that counts kills for want of memory.
    kills: &'static str,
}

impl Group {
    /// Beneath this process's own group, or beneath the mount where a container hides that.
    fn create(name: &str) -> Result<Group, String> {
        let text = fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
        let mut why = "no memory controller is mounted".to_owned();
        for line in text.lines() {
            let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else {
                continue;
            };
            let (mounts, limit, kills) = match controllers {
                "" => (["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max", "memory.events"),
                _ if controllers.split(',').any(|c| c == "memory") => {
                    let mount = "/sys/fs/cgroup/memory";
                    ([mount, mount], "memory.limit_in_bytes", "memory.oom_control")
                }
                _ => continue,
            };
            for parent in mounts.map(|mount| [format!("{mount}{path}"), mount.to_owned()]).concat()
            {
                match Group::beneath(Path::new(&parent), name, limit, kills) {
                    Ok(group) => return Ok(group),
                    Err(e) => why = format!("{parent}: {e}"),
                }
            }
        }
        Err(why)
    }

    fn beneath(
        parent: &Path,
        name: &str,
        limit: &str,
        kills: &'static str,
    ) -> std::io::Result<Group> {
        fs::metadata(parent)?;
        let group = Group { folder: parent.join(name), kills };
        fs::create_dir(&group.folder)?;
        // Without the controller the file does not exist, and must not come to be.
        fs::metadata(group.folder.join(limit))?;
        fs::write(group.folder.join(limit), LIMIT.to_string())?;
        Ok(group)
    }

    fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.kills)).unwrap();
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
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn sizes_are_capped_to_the_groups_memory() {
    let group = match Group::create(&format!("busbw-faults-{}", std::process::id())) {
        Ok(group) => group,
        Err(why) => return aftermath::waive(&format!("no control group can be made: {why}")),
    };
    for shape in ["-g 2", "-t 2 -g 1"] {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.folder.display());
        let words = format!("all_reduce {shape} -b 1M -e 8G -f 4 -n 2 --batches 1 -w 1");
        let ended = Bench::in_shell(&script, &words).run();
        ended.exits(0, SOON);
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
