//! Out-of-memory scores: the kernel is to kill a rank, whose loss is reported, rather than the supervisor, which
//! reports it and keeps the rows.
//! Not how a kill is detected (`supervisor`).

use std::fs;

/// The kernel's adjustment of a process's score, from -1000 (never) to 1000 (first): proc(5).
const OOM_SCORE_PATH: &str = "/proc/self/oom_score_adj";

/// Protects this process, if it has CAP_SYS_RESOURCE, which a lower score needs. Killed ranks may still hold shared
/// memory, and the kernel would kill the supervisor next.
pub(super) fn protect_supervisor() {
    // Without the capability the score stays as it is.
    let _ = fs::write(OOM_SCORE_PATH, "-1000");
}

/// Makes this rank process a preferred victim; raising a score needs no capability.
pub(super) fn prefer_rank_as_victim() {
    let _ = fs::write(OOM_SCORE_PATH, "500");
}
