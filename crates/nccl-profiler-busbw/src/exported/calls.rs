//! The functions behind the tables: they check NCCL's pointers and tell the recorder.
//! Not what is recorded (`recorder`). Nothing that happens here panics into NCCL, and no call fails.

use std::{
    ffi::{c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
};

use nccl_plugin_abi::{
    Logger, Status,
    profiler::{
        DescriptionV2, DescriptionV3, DescriptionV4, DescriptionV5, DescriptionV7,
        StateArgumentsV2, StateArgumentsV4, kind, state,
    },
};

use crate::{
    communicators::Told,
    event::{Call, text},
    handle::Handle,
    recorder::{self, Recorder},
};

/// init of v2.
pub(super) unsafe extern "C" fn init_v2(context: *mut *mut c_void, mask: *mut c_int) -> Status {
    // SAFETY: NCCL's pointers.
    unsafe { begin(context, mask, None, || Told { interface: 2, ..Told::default() }) }
}

/// init of v3.
pub(super) unsafe extern "C" fn init_v3(context: *mut *mut c_void, mask: *mut c_int) -> Status {
    // SAFETY: NCCL's pointers.
    unsafe { begin(context, mask, None, || Told { interface: 3, ..Told::default() }) }
}

/// init of v4.
pub(super) unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    communicator: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    logger: Option<Logger>,
) -> Status {
    // SAFETY: NCCL's pointers.
    unsafe { begin(context, mask, logger, || told(4, communicator, name, nodes, ranks, rank)) }
}

macro_rules! init_since_v5 {
    ($name:ident, $version:literal) => {
        /// init of this version.
        pub(super) unsafe extern "C" fn $name(
            context: *mut *mut c_void,
            communicator: u64,
            mask: *mut c_int,
            name: *const c_char,
            nodes: c_int,
            ranks: c_int,
            rank: c_int,
            logger: Option<Logger>,
        ) -> Status {
            // SAFETY: NCCL's pointers.
            unsafe {
                begin(context, mask, logger, || {
                    told($version, communicator, name, nodes, ranks, rank)
                })
            }
        }
    };
}

init_since_v5!(init_v5, 5);
init_since_v5!(init_v6, 6);
init_since_v5!(init_v7, 7);

/// # Safety
/// `name` is null or ends with a zero.
unsafe fn told(
    interface: u32,
    communicator: u64,
    name: *const c_char,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
) -> Told {
    let count = |number: c_int| u32::try_from(number).unwrap_or(0);
    Told {
        interface,
        id: format!("{communicator:016x}"),
        // SAFETY: as the caller says.
        name: unsafe { text(name) },
        nodes: count(nodes),
        ranks: count(ranks),
        rank: Some(count(rank)),
    }
}

/// # Safety
/// `context` is null or may be written, `mask` is null or NCCL's mask.
unsafe fn begin(
    context: *mut *mut c_void,
    mask: *mut c_int,
    logger: Option<Logger>,
    told: impl FnOnce() -> Told,
) -> Status {
    quiet(|| {
        if context.is_null() {
            return;
        }
        // SAFETY: it is not null.
        unsafe { context.write(std::ptr::null_mut()) };
        // SAFETY: as the caller says.
        let made = unsafe { recorder::init(told(), mask, logger) };
        // SAFETY: it is not null.
        unsafe { context.write(made) };
    })
}

/// startEvent: `read` takes what it needs of the description.
///
/// # Safety
/// `handle` is null or may be written.
unsafe fn start(
    handle: *mut *mut c_void,
    read: impl FnOnce(&'static Recorder) -> Option<Handle>,
) -> Status {
    if handle.is_null() {
        return Status::SUCCESS;
    }
    // What NCCL has there may be of an earlier event.
    // SAFETY: it is not null.
    unsafe { handle.write(std::ptr::null_mut()) };
    quiet(|| {
        let Some(recorder) = recorder::current() else { return };
        if let Some(begun) = read(recorder) {
            // SAFETY: it is not null.
            unsafe { handle.write(begun.pointer(recorder.process())) };
        }
    })
}

macro_rules! start {
    (@timer $event:ident untimed) => {
        None
    };
    (@timer $event:ident timed) => {
        Some($event.of.kernel_channel.timer)
    };
    ($name:ident, $description:ty, $kernel:ident) => {
        /// startEvent of this version.
        pub(super) unsafe extern "C" fn $name(
            context: *mut c_void,
            handle: *mut *mut c_void,
            description: *const $description,
        ) -> Status {
            let read = |recorder: &'static Recorder| {
                // SAFETY: NCCL's description of this version, or null.
                let event = unsafe { description.as_ref() }?;
                // SAFETY: the kind says which member of the union it is.
                unsafe {
                    match u64::from(event.kind) {
                        kind::GROUP => Some(recorder.group()),
                        kind::COLLECTIVE => {
                            let call = Call::from(&event.of.collective);
                            recorder.begin_call(recorder.communicator(context)?, event.rank, &call)
                        }
                        kind::MESSAGE => {
                            let call = Call::from(&event.of.message);
                            recorder.begin_call(recorder.communicator(context)?, event.rank, &call)
                        }
                        kind::KERNEL_CHANNEL => {
                            recorder.begin_channel(event.parent, start!(@timer event $kernel))
                        }
                        kind::PROXY_OPERATION => {
                            let of = &event.of.proxy_operation;
                            recorder.begin_operation(context, of.pid, of.peer, of.send != 0)
                        }
                        kind::PROXY_STEP => recorder.begin_step(event.parent),
                        _ => None,
                    }
                }
            };
            // SAFETY: NCCL's place for the handle, or null.
            unsafe { start(handle, read) }
        }
    };
}

start!(start_v2, DescriptionV2, untimed);
start!(start_v3, DescriptionV3, untimed);
start!(start_v4, DescriptionV4, timed);
start!(start_v5, DescriptionV5, timed);
start!(start_counted_v7, DescriptionV7, timed);

/// startEvent of v7, which looks at a program's calls, too.
pub(super) unsafe extern "C" fn start_v7(
    context: *mut c_void,
    handle: *mut *mut c_void,
    description: *const DescriptionV7,
) -> Status {
    quiet(|| {
        let Some(recorder) = recorder::current() else { return };
        // SAFETY: NCCL's description of this version, or null.
        let Some(event) = (unsafe { description.as_ref() }) else { return };
        if event.kind == kind::COLLECTIVE_CALL
            && let Some(communicator) = recorder.communicator(context)
        {
            // SAFETY: the kind says which member of the union it is.
            recorder.called(communicator, unsafe { event.of.collective_call.function });
        }
    });
    // SAFETY: as the caller says.
    unsafe { start_counted_v7(context, handle, description) }
}

/// stopEvent.
pub(super) unsafe extern "C" fn stop(handle: *mut c_void) -> Status {
    quiet(|| {
        if let Some(recorder) = recorder::current() {
            recorder.stop(handle);
        }
    })
}

/// recordEventState of v2 and v3: steps are not asked for there, and kernels have no times.
pub(super) unsafe extern "C" fn state_v2(
    _: *mut c_void,
    _: c_int,
    _: *const StateArgumentsV2,
) -> Status {
    Status::SUCCESS
}

/// recordEventState since v4.
pub(super) unsafe extern "C" fn state_v4(
    handle: *mut c_void,
    entered: c_int,
    arguments: *const StateArgumentsV4,
) -> Status {
    quiet(|| {
        let Some(recorder) = recorder::current() else { return };
        // SAFETY: NCCL's arguments, or null.
        let arguments = unsafe { arguments.as_ref() };
        match entered {
            state::KERNEL_CHANNEL_STOP => {
                // SAFETY: the state says which member it is.
                let timer = arguments.map_or(0, |one| unsafe { one.timer });
                recorder.end_channel(handle, timer);
            }
            state::SEND_GPU_WAIT..=state::RECEIVE_GPU_WAIT | state::SEND_PEER_WAIT => {
                // SAFETY: the state says which member it is.
                let bytes = arguments.map_or(0, |one| unsafe { one.transfer_bytes });
                recorder.enter(handle, entered, bytes as u64);
            }
            _ => {}
        }
    })
}

/// finalize.
pub(super) unsafe extern "C" fn finalize(context: *mut c_void) -> Status {
    quiet(|| {
        if let Some(recorder) = recorder::current() {
            recorder.end_communicator(context);
        }
    })
}

/// Runs a call that never fails: a code other than success would end the profiler, or the job's call. After a panic nothing
/// more is recorded.
fn quiet(act: impl FnOnce()) -> Status {
    if catch_unwind(AssertUnwindSafe(act)).is_err() {
        let _ = catch_unwind(|| recorder::off("a bug of busbw's profiler; please report it"));
    }
    Status::SUCCESS
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::{process::Command, ptr};

    use super::*;
    use crate::names::FOLDER;

    /// In a process of its own: what records is one a process.
    #[test]
    fn a_panic_ends_the_recording_and_nothing_else() {
        if std::env::var_os(FOLDER).is_some() {
            return planted();
        }
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["a_panic_ends_the_recording_and_nothing_else", "--nocapture"])
            .env(FOLDER, folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.matches("a bug of busbw's profiler; please report it").count(),
            1,
            "{said}"
        );
    }

    fn planted() {
        let (mut context, mut mask) = (ptr::null_mut(), 0);
        // SAFETY: as NCCL calls it.
        unsafe { init_v6(&raw mut context, 1, &raw mut mask, ptr::null(), 1, 2, 0, None) };
        assert!(!context.is_null() && mask != 0);
        let begins = || {
            let mut handle = ptr::null_mut();
            // SAFETY: as NCCL calls it; numbers, and pointers that may be null.
            unsafe {
                let mut description: DescriptionV5 = std::mem::zeroed();
                description.kind = kind::GROUP;
                start_v5(context, &raw mut handle, &description);
            }
            !handle.is_null()
        };
        assert!(begins());
        for _ in 0..2 {
            assert_eq!(quiet(|| panic!("planted")), Status::SUCCESS);
        }
        assert!(!begins() && mask == 0);
    }
}
