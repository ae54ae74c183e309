//! Whether a GPU has room for a rank's buffers, and which processes use it where it has not.
//! Not the size of the buffers: the plan was capped by the GPU's total memory.

use busbw_core::{exit::Exit, plan::Plan};
use busbw_ffi::{
    gpu::{Context, Vendor},
    nvml,
};

use super::gpu;
use crate::backend::BackendError;

/// Refuses a GPU whose free memory does not hold the buffers of `rank`: NCCL's own message would be
/// "unhandled cuda error".
///
/// # Errors
/// The buffers do not fit. The error names all processes that compute on the GPU, as far as NVML
/// knows them.
pub(super) fn make_sure_of_room(
    plan: &Plan,
    rank: usize,
    context: &Context,
) -> Result<(), BackendError> {
    let (free, total) = context.memory().map_err(|error| gpu(rank, error))?;
    let buffers = if plan.has_check_buffer() { 3 } else { 2 };
    let needed = plan.buffer_bytes() as u64 * buffers;
    if free >= needed {
        return Ok(());
    }
    let smaller = if plan.calls.is_some() { "replay fewer calls (--calls)" } else { "lower -e" };
    let text = format!(
        "rank {rank}: GPU {} has {} free of {}, and {buffers} buffers need {}{}; free the GPU, or {smaller}",
        context.ordinal(),
        mib(free),
        mib(total),
        mib(needed),
        users(context)
    );
    Err(BackendError::Refused { text, exit: Exit::Impossible })
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// ": it is used by process 4242 (train, 900 MiB)"; nothing where NVML does not say.
fn users(context: &Context) -> String {
    let runtime = context.runtime();
    if runtime.vendor() != Vendor::Nvidia {
        return String::new();
    }
    let facts = runtime.facts(context.ordinal().unsigned_abs() as usize);
    let users = facts
        .ok()
        .and_then(|facts| nvml::open().and_then(|nvml| nvml::users(&nvml, &facts.address)).ok());
    let mut others = users.unwrap_or_default();
    others.retain(|user| user.pid != std::process::id());
    let words: Vec<String> = others
        .iter()
        .map(|user| {
            let name = user.name.as_deref().unwrap_or("name unknown");
            let bytes = user.bytes.map_or(String::new(), |bytes| format!(", {}", mib(bytes)));
            format!("{} ({name}{bytes})", user.pid)
        })
        .collect();
    match words.as_slice() {
        [] => String::new(),
        words => format!("; it is used by process {}", words.join(", ")),
    }
}
