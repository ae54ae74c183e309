//! The variables of the environment that busbw itself reads, and who sets them: one place for their names.
//! Not NCCL's, UCX's and the launchers' own (`busbw-lint`, `busbw_job::launched`), and not their values.

/// Names a launch of `sweep` to itself: the variables that the sweep sets, with commas between them.
pub const SWEPT: &str = "BUSBW_SWEPT";
/// Set for processes whose outputs another busbw writes.
pub const RELAYED: &str = "BUSBW_RELAYED";
/// Set by a busbw that has a launcher start these processes: its -H, in the order in which hosts are filled.
pub const HOSTS: &str = "BUSBW_HOSTS";
/// The secret by which the processes of a job authenticate.
pub const JOB_SECRET: &str = "BUSBW_JOB_SECRET";
/// The interface of control connections between hosts (`--interface`).
pub const INTERFACE: &str = "BUSBW_INTERFACE";
/// The rank assignment of a rank process. Only the same user can read it, which protects the token in it.
pub const RANK: &str = "BUSBW_RANK";
/// 1 writes no record.
pub const NO_RECORD: &str = "BUSBW_NO_RECORD";

/// All variables of this process. A name that is not Unicode is left out; in a value, what is not Unicode is replaced.
pub fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}
