//! First words of the command line by which busbw starts itself for a purpose of its own.
//! Not commands that users type: `--help` does not list them.

/// A rank, started by a supervisor.
pub const RANK: &str = "__rank";
/// A rank that `doctor -g` asks for what it sees.
pub const FINGERPRINT: &str = "__fingerprint";
/// The filter of what MPI prints (`backend::mpi`).
pub const LOG_FILTER: &str = "__log_filter";
/// One rule of `plugin check`.
pub const RULE: &str = "__plugin_rule";
/// The other process of such a rule.
pub const PARTNER: &str = "__plugin_partner";
/// What starts the processes of a host over ssh.
pub const AGENT: &str = "__agent";
/// A launcher's program, which ends with the process that started it.
pub const TIED: &str = "__tied";
/// A process of a job that describes its host before the job runs.
pub const SURVEY: &str = "__survey";
/// What sets a job's profilers back when `watch --enable-profiling` ends, however it ends.
pub const PROFILER_MASK: &str = "__profiler_mask";
/// A host's part of `watch -H`: prints what is added to the profiler's files.
pub const WATCH_FILES: &str = "__watch_files";
