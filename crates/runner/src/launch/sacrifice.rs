//! Which of our processes the kernel kills first for want of memory: ranks, whose loss is told and whose rows
//! are kept, and not the supervisor, which tells it.
//! Not how a kill is noticed (`local`).

use std::fs;

/// What the kernel weighs a process with, from -1000 (never) to 1000 (first): proc(5).
const WEIGHT: &str = "/proc/self/oom_score_adj";

/// Spares this process, where we may: lowering the weight takes CAP_SYS_RESOURCE. The kernel may find
/// nobody else while ranks that it has killed still hold on to shared memory.
pub(super) fn spare_us() {
    // Whoever may not is killed as before.
    let _ = fs::write(WEIGHT, "-1000");
}

/// Puts this process, which holds ranks, before others of the machine; raising is always allowed.
pub(super) fn offer_us() {
    let _ = fs::write(WEIGHT, "500");
}
