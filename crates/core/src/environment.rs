//! The variables of the environment that busbw itself reads, and who sets them: one place for their names.
//! Not NCCL's, UCX's and the launchers' own (`busbw-lint`, `busbw_job::launched`), and not their values.

/// Names a launch of `sweep` to itself: the variables that the sweep sets, with commas between them.
pub const SWEPT: &str = "BUSBW_SWEPT";
/// Set for processes whose outputs another busbw writes.
pub const RELAYED: &str = "BUSBW_RELAYED";
/// Set by a busbw that has a launcher start these processes: its -H, in the order in which hosts are filled.
pub const HOSTS: &str = "BUSBW_HOSTS";
/// What only processes of a job know.
pub const JOB_SECRET: &str = "BUSBW_JOB_SECRET";
/// Over which interface processes on several hosts meet.
pub const INTERFACE: &str = "BUSBW_INTERFACE";
/// What a supervisor tells a rank's process. Readable by the same user only, which the token in it needs.
pub const RANK: &str = "BUSBW_RANK";
/// 1 writes no record.
pub const NO_RECORD: &str = "BUSBW_NO_RECORD";

/// All variables of this process. What is not Unicode is left out as a name, and mended as a value.
pub fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}
