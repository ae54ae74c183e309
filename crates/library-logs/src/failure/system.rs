//! What the kernel, the shell, the loader and container runtimes print when a process ends.
//! Not what launchers make of it (`launcher`).
//!
//! Sources: Linux' mm/oom_kill.c, bash's jobs.c, glibc's elf/dl-load.c and strerror, containerd and Kubernetes.

use super::{
    incident::Incident,
    kind::Kind,
    line::{Line, between, number},
    rule::{Rule, keep, rule, word},
};

pub(super) const RULES: &[Rule] = &[
    rule("ut of memory: Killed process ", Kind::OomKill).read(killed_process),
    rule("ut of memory: Kill process ", Kind::OomKill).read(killed_process),
    rule("OOMKilled", Kind::OomKill).read(|incident, _, _| {
        incident.details.name = Some("a container".to_owned());
        true
    }),
    rule("Killed", Kind::Killed).read(|incident, line, after| {
        incident.details.signal = Some(9);
        shell(incident, line, "Killed", after)
    }),
    rule("Segmentation fault", Kind::Crashed).read(|incident, line, after| {
        incident.details.signal = Some(11);
        shell(incident, line, "Segmentation fault", after)
            || line.text.contains("Fatal Python error: Seg")
    }),
    rule("Caught signal 11 (Segmentation fault", Kind::Crashed).read(|incident, line, _| {
        // UCX: [host:pid:0:pid] Caught signal 11 (Segmentation fault: address not mapped to object at address …)
        incident.details.signal = Some(11);
        let mut origin = line.bare().trim_start_matches('[').split(':');
        incident.host(origin.next().unwrap_or_default());
        incident.pid(origin.next().and_then(number));
        true
    }),
    rule("Bus error", Kind::Crashed).read(|incident, line, after| {
        incident.details.signal = Some(7);
        shell(incident, line, "Bus error", after) || line.text.contains("Fatal Python error: Bus")
    }),
    rule("Aborted", Kind::Aborted).read(|incident, line, after| {
        incident.details.signal = Some(6);
        shell(incident, line, "Aborted", after)
    }),
    rule("annot allocate memory", Kind::HostMemory).read(|incident, line, _| {
        // NICs' registrations have rules of their own; UCX prints its own at healthy starts.
        incident.details.reason = Some(keep(line.bare()));
        !["ibv_", "UCX", "NCCL", "libfabric"].iter().any(|word| line.text.contains(word))
    }),
    rule("std::bad_alloc", Kind::HostMemory).read(|incident, line, _| {
        incident.details.reason = Some(keep(line.bare()));
        true
    }),
    rule("error while loading shared libraries: ", Kind::LibraryMissing).read(
        |incident, _, after| {
            incident.details.name = after.split(": ").next().and_then(word);
            incident.details.reason = after.split_once(": ").map(|(_, reason)| keep(reason));
            true
        },
    ),
    rule(": command not found", Kind::CommandMissing).read(|incident, line, _| {
        let before = line.bare().split(": command not found").next().unwrap_or_default();
        incident.details.name = before.rsplit([' ', ':']).next().and_then(word);
        incident.details.name.is_some()
    }),
    // Ray's memory monitor.
    rule("due to the node running low on memory", Kind::OomKill),
    rule("exit code 137", Kind::Killed).read(|incident, _, _| {
        incident.details.signal = Some(9);
        true
    }),
];

/// Memory cgroup out of memory: Killed process 1440763 (python3) total-vm:…
fn killed_process(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    incident.pid(number(after));
    incident.details.name = between(after, "(", ")").map(keep);
    true
}

/// Whether the shell prints this of a process: alone on a line, or `line 28:  8156 Killed      python3 main.py`.
fn shell(incident: &mut Incident, line: &Line<'_>, name: &str, after: &str) -> bool {
    // A shell's line stands between messages of ranks, and is none of theirs.
    if line.bare() == line.text {
        incident.ranks.clear();
    }
    let alone = line.bare().trim().strip_prefix(name);
    if alone.is_some_and(|rest| rest.is_empty() || rest == " (core dumped)") {
        return true;
    }
    let before = line.text.split(name).next().unwrap_or_default();
    let job = before.trim_end().rsplit(' ').next().unwrap_or_default();
    let pid = job.parse().ok();
    incident.pid(pid);
    pid.is_some() && before.contains("line ") && (after.is_empty() || after.starts_with(' '))
}
