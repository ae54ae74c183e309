//! The functions behind the tables: they check NCCL's pointers and ask the communicator's tuner.
//! Not what it answers (`tuner`). Nothing that happens here panics into NCCL, and only `init` fails.

use std::{
    ffi::{c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use nccl_plugin_abi::{
    Logger, Status,
    tuner::{Constants, InitV2, InitV5, NvlDomains},
};

use crate::{
    before::{Ask, Before, Refusal, Table},
    log,
    next_calls::next,
    setting::Setting,
    tuner::{Tuner, choose_by_costs, choose_directly},
};

/// init of v2 to v4.
pub(super) unsafe extern "C" fn init_v2<T: Table<Init = InitV2>>(
    ranks: usize,
    nodes: usize,
    logger: Option<Logger>,
    context: *mut *mut c_void,
) -> Status {
    let open = |file: &Path| {
        // SAFETY: the other tuner gets what NCCL gave, as it would without this one.
        unsafe { Before::open::<T>(file, |init, place| init(ranks, nodes, logger, place)) }
    };
    // SAFETY: NCCL's place for the context.
    unsafe { begin(context, logger, ranks, nodes, open) }
}

/// init since v5.
pub(super) unsafe extern "C" fn init_v5<T: Table<Init = InitV5<COMPUTE>>, const COMPUTE: usize>(
    context: *mut *mut c_void,
    communicator: u64,
    ranks: usize,
    nodes: usize,
    logger: Option<Logger>,
    domains: *mut NvlDomains,
    constants: *mut Constants<COMPUTE>,
) -> Status {
    let open = |file: &Path| {
        // SAFETY: the other tuner gets what NCCL gave, as it would without this one.
        unsafe {
            Before::open::<T>(file, |init, place| {
                init(place, communicator, ranks, nodes, logger, domains, constants)
            })
        }
    };
    // SAFETY: NCCL's place for the context.
    unsafe { begin(context, logger, ranks, nodes, open) }
}

/// Makes the communicator's tuner. A failure makes the communicator fail, with a line in NCCL's log: a rank that went on
/// by itself would choose otherwise than the others.
///
/// # Safety
/// `context` is null or may be written.
unsafe fn begin(
    context: *mut *mut c_void,
    logger: Option<Logger>,
    ranks: usize,
    nodes: usize,
    open: impl FnOnce(&Path) -> Result<Before, Refusal>,
) -> Status {
    if context.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    // SAFETY: it is not null.
    unsafe { context.write(std::ptr::null_mut()) };
    let made = catch_unwind(AssertUnwindSafe(|| {
        let setting = Setting::of_process()?;
        Tuner::new(&setting, ranks, nodes, open)
    }));
    match made {
        Ok(Ok((tuner, said))) => {
            log::info(logger, &said);
            // SAFETY: it is not null. NCCL keeps the tuner until it calls `end`.
            unsafe { context.write(Box::into_raw(Box::new(tuner)).cast()) };
            Status::SUCCESS
        }
        Ok(Err(failure)) => {
            log::warn(logger, &failure.to_string());
            Status::INVALID_USAGE
        }
        Err(_) => {
            log::warn(logger, "init: a bug of busbw's; please report it");
            Status::INTERNAL
        }
    }
}

/// getCollInfo of v2.
pub(super) unsafe extern "C" fn ask_v2(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    collnet: c_int,
    nvls: c_int,
    operations: c_int,
    algorithm: *mut c_int,
    protocol: *mut c_int,
    channels: *mut c_int,
) -> Status {
    quiet(|| {
        // SAFETY: what `begin` made, or null.
        let Some(tuner) = (unsafe { context.cast::<Tuner>().as_ref() }) else { return };
        if let Some(next) = next() {
            // Without a table nothing says what can run.
            next.refuse();
        } else if let Some(entry) = tuner.choice(function, bytes, operations) {
            // SAFETY: NCCL's places for the results, or null.
            let places = unsafe { (algorithm.as_mut(), protocol.as_mut(), channels.as_mut()) };
            choose_directly(entry, places.0, places.1, places.2);
        } else if let Some((other, Ask::V2(ask))) = tuner.before().map(Before::ask) {
            // SAFETY: its own context, and what NCCL gave.
            let _ = unsafe {
                ask(
                    other, function, bytes, collnet, nvls, operations, algorithm, protocol,
                    channels,
                )
            };
        }
    })
}

/// getCollInfo of v3.
pub(super) unsafe extern "C" fn ask_v3(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    operations: c_int,
    costs: *mut *mut f32,
    algorithms: c_int,
    protocols: c_int,
    channels: *mut c_int,
) -> Status {
    // SAFETY: the same call with less.
    unsafe {
        ask_v4(context, function, bytes, operations, costs, algorithms, protocols, 0, channels)
    }
}

/// getCollInfo since v4. Whether buffers are registered is not looked at: ranks may see it differently.
pub(super) unsafe extern "C" fn ask_v4(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    operations: c_int,
    costs: *mut *mut f32,
    algorithms: c_int,
    protocols: c_int,
    registered: c_int,
    channels: *mut c_int,
) -> Status {
    quiet(|| {
        // SAFETY: what `begin` made, or null.
        let Some(tuner) = (unsafe { context.cast::<Tuner>().as_ref() }) else { return };
        let next = next();
        let entry = tuner.choice(function, bytes, operations).filter(|_| next.is_none());
        if next.is_some() || entry.is_some() {
            let (Ok(rows), Ok(columns)) = (usize::try_from(algorithms), usize::try_from(protocols))
            else {
                return;
            };
            if costs.is_null() {
                return;
            }
            // SAFETY: NCCL's table is in one piece, a row an algorithm, whatever the pointer's type says.
            let costs =
                unsafe { std::slice::from_raw_parts_mut(costs.cast::<f32>(), rows * columns) };
            // SAFETY: NCCL's place for the channels, or null.
            let channels = unsafe { channels.as_mut() };
            match (next, entry) {
                (Some(next), _) => next.choose(costs, columns, channels),
                (None, Some(entry)) => choose_by_costs(entry, costs, columns, channels),
                (None, None) => {}
            }
            return;
        }
        match tuner.before().map(Before::ask) {
            Some((other, Ask::V4(ask))) => {
                // SAFETY: its own context, and what NCCL gave.
                let _ = unsafe {
                    ask(
                        other, function, bytes, operations, costs, algorithms, protocols,
                        registered, channels,
                    )
                };
            }
            Some((other, Ask::V3(ask))) => {
                // SAFETY: its own context, and what NCCL gave.
                let _ = unsafe {
                    ask(other, function, bytes, operations, costs, algorithms, protocols, channels)
                };
            }
            Some((_, Ask::V2(_))) | None => {}
        }
    })
}

/// getChunkSize since v6, which only the other tuner changes.
pub(super) unsafe extern "C" fn chunk_size(
    context: *mut c_void,
    function: c_int,
    bytes: usize,
    algorithm: c_int,
    protocol: c_int,
    channels: c_int,
    chunk: *mut usize,
) -> Status {
    quiet(|| {
        // SAFETY: what `begin` made, or null.
        let tuner = unsafe { context.cast::<Tuner>().as_ref() };
        if let Some(before) = tuner.and_then(Tuner::before) {
            // SAFETY: what NCCL gave.
            unsafe {
                before.chunk_size((function, bytes, algorithm, protocol, channels), chunk);
            }
        }
    })
}

/// destroy, or finalize since v5.
pub(super) unsafe extern "C" fn end(context: *mut c_void) -> Status {
    quiet(|| {
        if !context.is_null() {
            // SAFETY: what `begin` made; NCCL gives it back once. A communicator whose init failed has null.
            drop(unsafe { Box::from_raw(context.cast::<Tuner>()) });
        }
    })
}

/// Runs a call that never fails: a code other than success would fail the collective.
fn quiet(act: impl FnOnce()) -> Status {
    let _ = catch_unwind(AssertUnwindSafe(act));
    Status::SUCCESS
}
