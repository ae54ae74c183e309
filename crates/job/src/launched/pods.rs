//! The numbers of pods whose controllers set no pair of variables: Volcano's, and a StatefulSet's.
//! Not of pods whose controllers do (`variables`).

use busbw_core::environment::PODS;

use super::variables::{NAMED_POD, Numbers};

/// By Volcano's list of hosts, or by the number at the end of the pod's name.
pub(super) fn numbers(lookup: impl Fn(&str) -> Option<String>) -> Option<Numbers> {
    of_volcano(&lookup).or_else(|| of_stateful_set(&lookup))
}

/// Of the pods of a Volcano task. Its plugin `env` sets VC_TASK_INDEX, its plugin `svc` a list of hosts for each task,
/// VC_<TASK>_HOSTS, with the task's name in capitals and `_` for `-` (volcano, pkg/controllers/job/plugins/env/env.go
/// and svc/svc.go). Nothing tells the task's own name: it stands in the pod's, `<job>-<task>-<index>`
/// (pkg/controllers/job/helpers/helpers.go).
fn of_volcano(lookup: impl Fn(&str) -> Option<String>) -> Option<Numbers> {
    let rank = lookup("VC_TASK_INDEX")?.trim().parse::<usize>().ok()?;
    let host_name = lookup("HOSTNAME")?;
    let host_name = host_name.trim();
    let job_and_task = host_name.strip_suffix(&format!("-{rank}"))?;
    // A job's name and a task's may have hyphens.
    let tasks = job_and_task.match_indices('-').map(|(at, _)| &job_and_task[at + 1..]);
    let of_task = |task: &str| {
        let variable = format!("VC_{}_HOSTS", task.to_ascii_uppercase().replace('-', "_"));
        let text = lookup(&variable)?;
        let hosts: Vec<&str> = text.trim().split(',').collect();
        // `<pod>.<service>`; another task's list may have the same name.
        (hosts.get(rank)?.split('.').next()? == host_name).then(|| Numbers {
            size: hosts.len(),
            rank,
            variables: format!("{} hosts in {variable}, VC_TASK_INDEX={rank}", hosts.len()),
            names: NAMED_POD,
            host: hosts.first().map(|host| (*host).to_owned()),
        })
    };
    tasks.take(MAX_HYPHENS).find_map(of_task)
}

/// A pod's name has at most 63 characters (RFC 1123).
const MAX_HYPHENS: usize = 63;

/// Of a StatefulSet's pods, `<name>-<ordinal>`, of which BUSBW_PODS tells how many there are
/// (kubernetes, pkg/controller/statefulset/stateful_set_utils.go). Not of an indexed Job's, whose index was told.
fn of_stateful_set(lookup: impl Fn(&str) -> Option<String>) -> Option<Numbers> {
    if lookup("JOB_COMPLETION_INDEX").is_some() {
        return None;
    }
    let size = lookup(PODS)?.trim().parse::<usize>().ok()?;
    let host_name = lookup("HOSTNAME")?;
    let (_, ordinal) = host_name.trim().rsplit_once('-')?;
    let plain = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    // A random suffix, such as a Deployment's, may be a number beyond them.
    let rank = ordinal.parse::<usize>().ok().filter(|rank| plain && *rank < size)?;
    let variables = format!("{PODS}={size}, HOSTNAME={}", host_name.trim());
    Some(Numbers { size, rank, variables, names: NAMED_POD, host: None })
}
