//! The ancestors of this process, and whether a process is stopped.
//! Not what else they are doing.

use super::Root;

/// The nearest ancestor with this name (the first 15 letters, as in /proc/PID/comm): its process
/// number and its start time, which together are unique (/proc/PID/stat, fields 4 and 22,
/// proc_pid_stat(5)).
pub fn ancestor(root: &Root, name: &str) -> Option<String> {
    let (pid, fields) = find(root, name)?;
    Some(format!("{name} {pid} {}", fields.get(19)?))
}

/// The command line of that process, as words.
pub fn command_of_ancestor(root: &Root, name: &str) -> Option<Vec<String>> {
    let (pid, _) = find(root, name)?;
    let line = root.text(format!("proc/{pid}/cmdline"))?;
    Some(line.split_terminator('\0').map(str::to_owned).collect())
}

/// The nearest ancestor with that name: its number, and the fields after its name.
fn find(root: &Root, name: &str) -> Option<(String, Vec<String>)> {
    let mut pid = "self".to_owned();
    loop {
        let (comm, fields) = stat(root, &pid)?;
        if pid != "self" && name.get(..15).unwrap_or(name) == comm {
            return Some((pid, fields));
        }
        pid.clone_from(fields.get(1)?);
        if pid == "0" {
            return None;
        }
    }
}

/// The parent of this process, if it has one of these names: its name, its number and its start
/// time.
pub fn parent(root: &Root, names: &[&str]) -> Option<String> {
    let (_, ours) = stat(root, "self")?;
    let pid = ours.get(1)?;
    let (comm, fields) = stat(root, pid)?;
    let known = names.iter().any(|name| name.get(..15).unwrap_or(name) == comm);
    known.then(|| Some(format!("{comm} {pid} {}", fields.get(19)?)))?
}

/// Whether a process is stopped by a signal or a debugger (field 3).
pub fn is_stopped(root: &Root, pid: u32) -> bool {
    stat(root, &pid.to_string())
        .is_some_and(|(_, fields)| fields.first().is_some_and(|s| matches!(s.as_str(), "T" | "t")))
}

/// A process's name, and the fields after it.
fn stat(root: &Root, pid: &str) -> Option<(String, Vec<String>)> {
    let text = root.text(format!("proc/{pid}/stat"))?;
    // The name is in brackets, and may contain any character.
    let (head, tail) = text.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    Some((comm, tail.split_whitespace().map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn through_shells_and_odd_names() {
        let folder = tempfile::tempdir().unwrap();
        let stat = |pid: &str, comm: &str, parent: u32| {
            let path = folder.path().join("proc").join(pid);
            std::fs::create_dir_all(&path).unwrap();
            let rest = (5..=21).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
            std::fs::write(path.join("stat"), format!("{pid} ({comm}) S {parent} {rest} 777 9"))
                .unwrap();
        };
        stat("self", "busbw", 30);
        stat("30", "a shell) S 1 (", 20);
        stat("20", "hydra_pmi_proxy", 10);
        stat("10", "mpiexec.hydra", 1);
        stat("1", "init", 0);
        let root = Root::new(folder.path());
        assert_eq!(ancestor(&root, "hydra_pmi_proxy").as_deref(), Some("hydra_pmi_proxy 20 777"));
        assert_eq!(ancestor(&root, "slurmstepd"), None);
        std::fs::write(folder.path().join("proc/20/cmdline"), "/a b/hydra_pmi_proxy\0--id\0")
            .unwrap();
        let words = command_of_ancestor(&root, "hydra_pmi_proxy").unwrap();
        assert_eq!(words, ["/a b/hydra_pmi_proxy", "--id"]);
        // The shell is between the two.
        assert_eq!(parent(&root, &["hydra_pmi_proxy"]), None);
        stat("self", "busbw", 20);
        let of = parent(&root, &["orted", "hydra_pmi_proxy"]);
        assert_eq!(of.as_deref(), Some("hydra_pmi_proxy 20 777"));
        assert!(!is_stopped(&root, 20) && !is_stopped(&root, 99));
    }
}
