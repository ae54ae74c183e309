//! The variables of the environment that busbw itself reads: one place for their names, of which
//! docs/environment.md is made. Not NCCL's, UCX's and the launchers' own (`busbw-lint`, `busbw_job::launched`).

/// NCCL's file, instead of the one that is found.
pub const NCCL: &str = "BUSBW_NCCL";
/// RCCL's file.
pub const RCCL: &str = "BUSBW_RCCL";
/// The file of CUDA's driver.
pub const CUDA: &str = "BUSBW_CUDA";
/// HIP's file.
pub const HIP: &str = "BUSBW_HIP";
/// NVML's file.
pub const NVML: &str = "BUSBW_NVML";
/// MPI's file.
pub const MPI: &str = "BUSBW_MPI";
/// The backend where `--backend` names none.
pub const BACKEND: &str = "BUSBW_BACKEND";
/// 1 writes no record.
pub const NO_RECORD: &str = "BUSBW_NO_RECORD";
/// Interface of busbw's own control connections between hosts.
pub const INTERFACE: &str = "BUSBW_INTERFACE";
/// A secret that only processes of a job know.
pub const JOB_SECRET: &str = "BUSBW_JOB_SECRET";
/// A file that holds that secret.
pub const JOB_SECRET_FILE: &str = "BUSBW_JOB_SECRET_FILE";
/// The number of pods of a job, each with one process.
pub const PODS: &str = "BUSBW_PODS";
/// A file that holds the coordinator's address, or will hold it.
pub const COORDINATOR_FILE: &str = "BUSBW_COORDINATOR_FILE";
/// A pod's termination message, instead of /dev/termination-log.
pub const TERMINATION_LOG: &str = "BUSBW_TERMINATION_LOG";
/// The hosts of a job in the order in which they are filled, set for its processes.
pub const HOSTS: &str = "BUSBW_HOSTS";
/// The file by which busbw's tuner chooses, with its hash: `FILE#sha256=<64 hex>`.
pub const TUNER: &str = "BUSBW_TUNER";
/// The library of a tuner that busbw's asks where its file has no entry.
pub const TUNER_BEFORE: &str = "BUSBW_TUNER_BEFORE";
/// What busbw's profiler records of a job: `off`, `standby`, `every`, `full`, or unset.
pub const WATCH: &str = "BUSBW_WATCH";
/// Where the profiler's files go.
pub const WATCH_FOLDER: &str = "BUSBW_WATCH_DIR";
/// Set for processes whose outputs another busbw writes.
pub const RELAYED: &str = "BUSBW_RELAYED";
/// Set for launches of a sweep: the variables that it sets, with commas between them.
pub const SWEPT: &str = "BUSBW_SWEPT";
/// A rank's assignment. Readable by the same user only, which the token in it needs.
pub const RANK: &str = "BUSBW_RANK";

/// The name of this host in results, where the system's own is not the one that people know.
pub const HOST: &str = "BUSBW_HOST";
/// A file with the nodes of a command's first launch in a cluster, for its other launches.
pub const NODES_FILE: &str = "BUSBW_NODES_FILE";
/// Seconds that the processes of a job wait for each other.
pub const RENDEZVOUS_TIMEOUT: &str = "BUSBW_RENDEZVOUS_TIMEOUT";
/// A file with what settings do to the times of `--backend fake`, for tests.
pub const FAKE: &str = "BUSBW_FAKE";

/// Who sets a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// Users.
    User,
    /// busbw, for its own processes.
    Busbw,
}

/// Every variable of the program with who sets it and what it does. The net plugin's own are in docs/plugin.md.
pub const VARIABLES: [(&str, SetBy, &str); 26] = [
    (NCCL, SetBy::User, "the file of NCCL, such as /opt/nccl/lib/libnccl.so.2 (`--nccl`)"),
    (RCCL, SetBy::User, "the file of RCCL (`--nccl`)"),
    (CUDA, SetBy::User, "the file of CUDA's driver"),
    (HIP, SetBy::User, "the file of HIP"),
    (NVML, SetBy::User, "the file of NVML"),
    (MPI, SetBy::User, "the file of MPI (`--mpi`)"),
    (
        BACKEND,
        SetBy::User,
        "who moves the bytes where `--backend` does not say; `host` lets X_perf measure a machine without GPU",
    ),
    (NO_RECORD, SetBy::User, "1: no record is written (`--no-record`)"),
    (
        INTERFACE,
        SetBy::User,
        "the interface of busbw's own control connections between hosts (`--interface`)",
    ),
    (
        JOB_SECRET,
        SetBy::User,
        "a secret that all processes of a job have, by which they authenticate; set by busbw with `--launcher` and -H",
    ),
    (JOB_SECRET_FILE, SetBy::User, "a file that holds that secret, such as one of a pod's Secret"),
    (
        PODS,
        SetBy::User,
        "the number of pods of an indexed Job or a StatefulSet, each with one process ([launchers](launchers.md))",
    ),
    (
        HOST,
        SetBy::User,
        "the name of this host in results, where the system's own is not the one that people know: of a pod its node's",
    ),
    (
        RENDEZVOUS_TIMEOUT,
        SetBy::User,
        "how many seconds the processes of a job wait for each other [default: 30, or -T]",
    ),
    (
        COORDINATOR_FILE,
        SetBy::User,
        "a file that holds the address of process 0, or will hold it, such as a pod's annotation in a downwardAPI volume; tried before MASTER_ADDR, at the port MASTER_PORT",
    ),
    (
        TERMINATION_LOG,
        SetBy::User,
        "in a pod: the file of its termination message, /dev/termination-log where it is not set",
    ),
    (FAKE, SetBy::User, "for tests: a file with what settings do to the times of `--backend fake`"),
    (
        TUNER,
        SetBy::User,
        "the file by which busbw's tuner chooses, with its hash: `FILE#sha256=<64 hex>`; the same on all ranks ([tuner](tuner.md))",
    ),
    (
        TUNER_BEFORE,
        SetBy::User,
        "the library of a tuner that busbw's tuner asks where its file has no entry",
    ),
    (
        WATCH,
        SetBy::User,
        "what busbw's profiler records of a job: calls and the times of their kernels where it is not set; `sampled` few kernels of small calls that follow one another closely (up to NCCL 2.30), `full` the network's steps too, `standby` nothing until `watch --enable-profiling`, `off` nothing ([watch](watch.md))",
    ),
    (
        WATCH_FOLDER,
        SetBy::User,
        "the folder of the profiler's files; on a network file system only where it is named",
    ),
    (HOSTS, SetBy::Busbw, "the hosts of -H, in the order in which they are filled"),
    (RELAYED, SetBy::Busbw, "1: this process's rows go to the busbw that started the job"),
    (SWEPT, SetBy::Busbw, "the variables that a sweep sets for this launch"),
    (
        NODES_FILE,
        SetBy::Busbw,
        "a file with the nodes of a command's first launch in a cluster, for its other launches",
    ),
    (RANK, SetBy::Busbw, "the assignment of a process of ranks"),
];

/// All variables of this process. What is not Unicode is left out as a name, and mended as a value.
pub fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/environment.md, as it follows from the table.
    fn page() -> String {
        let row = |(name, _, meaning): &(&str, SetBy, &str)| format!("| {name} | {meaning} |\n");
        let rows = |by: SetBy| VARIABLES.iter().filter(move |one| one.1 == by).map(row);
        format!(
            "# Environment variables\n\nMade from `busbw_core::environment`. The net plugin's own variables are in \
             [plugin](plugin.md#variables); NCCL_TESTS_* are nccl-tests' own and have its meaning.\n\n\
             ## For users\n| variable | meaning |\n|---|---|\n{}\n\
             ## Set by busbw for its own processes\n| variable | meaning |\n|---|---|\n{}",
            rows(SetBy::User).collect::<String>(),
            rows(SetBy::Busbw).collect::<String>()
        )
    }

    #[test]
    fn the_page_is_made_from_the_table() {
        let committed = include_str!("../../../docs/environment.md");
        assert!(committed == page(), "docs/environment.md is to be:\n{}", page());
    }
}
