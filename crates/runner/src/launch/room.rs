//! Whether this host lets so many ranks start: cores, processes and threads, memory.
//! Not open files (`busbw_job::open_files`), and not the buffers' size (`memory`).

use busbw_core::{
    exit::{Exit, ExitError},
    plan::{Plan, RankLayout},
    record::Machine,
};
use busbw_host::machine;

/// The most rank threads of a core. All of them join within the supervisor's limit of 30 s, and each operation
/// waits until every one had its turn.
const MOST_PER_CORE: usize = 1024;
/// Threads of a rank process beside its rank threads, with the supervisor's own thread that waits for it.
const THREADS_BESIDE: usize = 2;
/// Memory of a rank process beside its buffers, and of a rank thread (stack, kernel stack), at least.
const BYTES_A_PROCESS: u64 = 2 << 20;
const BYTES_A_THREAD: u64 = 64 << 10;

/// What ranks of this host need.
struct Need {
    ranks: usize,
    processes: usize,
    threads: usize,
}

/// What this host allows; none where nothing limits it.
struct Allowed {
    cores: usize,
    tasks: Option<u64>,
    bytes: u64,
}

/// Refuses ranks that this host cannot start.
///
/// # Errors
/// The first thing that is missing.
pub(super) fn enough(plan: &Plan, ranks_here: usize, machine: &Machine) -> Result<(), ExitError> {
    if plan.rank_layout == RankLayout::Alone {
        return Ok(());
    }
    let processes_here = match plan.launched {
        1 => plan.processes(),
        _ => ranks_here.div_ceil(plan.ranks_each().max(1)),
    };
    let each = plan.rank_threads().div_ceil(plan.processes().max(1));
    let threads = processes_here * each;
    let root = machine::Root::system();
    let allowed = Allowed {
        cores: machine::usable_cores().len(),
        tasks: machine::task_limit(&root),
        bytes: machine.memory_available.min(machine.memory_limit.unwrap_or(u64::MAX)),
    };
    missing(&Need { ranks: ranks_here, processes: processes_here, threads }, &allowed)
        .map_or(Ok(()), |why| Err(ExitError::new(Exit::Impossible, why)))
}

fn missing(need: &Need, allowed: &Allowed) -> Option<String> {
    let Need { ranks, processes, threads } = *need;
    let tasks = (threads + processes * THREADS_BESIDE) as u64;
    let bytes = processes as u64 * BYTES_A_PROCESS + threads as u64 * BYTES_A_THREAD;
    let most = allowed.cores.max(1) * MOST_PER_CORE;
    if threads > most {
        return Some(format!(
            "{ranks} ranks here need {threads} threads, and {most} are the most on {} cores: lower -t or -g",
            allowed.cores
        ));
    }
    if let Some(left) = allowed.tasks.filter(|left| tasks > *left) {
        return Some(format!(
            "{ranks} ranks here need {tasks} processes and threads, and {left} more are allowed: lower -t or -g, or raise the limit (ulimit -u, pids.max of the control group, kernel.threads-max)"
        ));
    }
    (bytes > allowed.bytes).then(|| {
        format!(
            "{ranks} ranks here need {} MiB of memory beside their buffers, and {} MiB are available: lower -t or -g",
            bytes >> 20,
            allowed.bytes >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_missing_is_named() {
        let need = Need { ranks: 3000, processes: 1, threads: 3000 };
        let plenty = || Allowed { cores: 64, tasks: None, bytes: 1 << 40 };
        assert_eq!(missing(&need, &plenty()), None);
        let text = missing(&need, &Allowed { cores: 2, ..plenty() }).unwrap();
        assert!(text.contains("3000 threads, and 2048 are the most on 2 cores"), "{text}");
        let text = missing(&need, &Allowed { tasks: Some(2000), ..plenty() }).unwrap();
        assert!(text.contains("3002 processes and threads, and 2000 more"), "{text}");
        let text = missing(&need, &Allowed { bytes: 64 << 20, ..plenty() }).unwrap();
        assert!(text.contains("need 189 MiB of memory beside their buffers, and 64 MiB"), "{text}");
    }
}
