//! NCCL's side of each version: the descriptions that it makes, and the calls in its order (src/plugin/profiler.cc).
//! Not which events are played (`scenarios`).

use std::{
    ffi::{CStr, c_int, c_void},
    ptr,
    sync::atomic::AtomicI32,
};

use nccl_plugin_abi::{Status, profiler::*};
use nccl_profiler_busbw::exported::*;

/// A handle of the profiler's, which NCCL passes between its threads.
#[derive(Debug, Clone, Copy)]
pub struct Handle(pub *mut c_void);

// SAFETY: only passed on.
unsafe impl Send for Handle {}

impl Handle {
    /// Whether the profiler wants to be told no more.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub sequence: u64,
    pub function: &'static CStr,
    pub count: usize,
    pub datatype: &'static CStr,
    pub algorithm: &'static CStr,
    pub channels: u8,
    /// The root, or the peer.
    pub other: c_int,
}

/// NCCL as a version of it.
pub trait Nccl: Sync {
    /// A communicator begins.
    fn init(
        &self,
        mask: &'static AtomicI32,
        communicator: u64,
        ranks: c_int,
        rank: c_int,
    ) -> Handle;
    /// An event begins.
    fn group(&self, context: Handle) -> Handle;
    fn collective(&self, context: Handle, call: &Call) -> Handle;
    fn message(&self, context: Handle, call: &Call) -> Handle;
    fn channel(&self, context: Handle, parent: Handle, timer: u64) -> Handle;
    fn operation(&self, context: Handle, pid: u32, peer: c_int, send: bool) -> Handle;
    fn step(&self, context: Handle, parent: Handle) -> Handle;
    /// It ends.
    fn stop(&self, event: Handle);
    /// A channel ends: its state with the time, and the event.
    fn end_channel(&self, event: Handle, timer: u64);
    /// A step enters a state.
    fn enter(&self, event: Handle, state: c_int, bytes: usize);
    fn finalize(&self, context: Handle);
}

const NAME: &CStr = c"world";

macro_rules! version {
    (
        $name:ident, $table:ident, $description:ty, ($($call:tt)*), ($($message:tt)*), $says:ident, $channels:ident,
        $init:expr, $kernel:expr, $record:expr
    ) => {
        pub struct $name;

        impl $name {
            /// A program calls a collective (v5 and newer).
            #[allow(dead_code, reason = "not every version has it played")]
            pub fn called(&self, context: Handle, function: &'static CStr) {
                let event = self.start(context, |one| {
                    one.kind = kind::COLLECTIVE_CALL as _;
                    one.of.collective_call.function = function.as_ptr();
                });
                assert!(event.is_null());
            }

            fn start(&self, context: Handle, fill: impl FnOnce(&mut $description)) -> Handle {
                // SAFETY: numbers, and pointers that may be null.
                let mut description: $description = unsafe { std::mem::zeroed() };
                description.rank = 3;
                fill(&mut description);
                let mut handle = ptr::dangling_mut::<u64>().cast();
                let start = $table.table.start.unwrap();
                // SAFETY: as NCCL calls it.
                assert_eq!(unsafe { start(context.0, &raw mut handle, &description) }, Status::SUCCESS);
                Handle(handle)
            }
        }

        impl Nccl for $name {
            fn init(&self, mask: &'static AtomicI32, communicator: u64, ranks: c_int, rank: c_int) -> Handle {
                let mut context = ptr::null_mut();
                let init = $table.table.init.unwrap();
                // SAFETY: as NCCL calls it.
                let status = unsafe { $init(init, &raw mut context, mask.as_ptr(), communicator, ranks, rank) };
                assert_eq!(status, Status::SUCCESS);
                Handle(context)
            }

            fn group(&self, context: Handle) -> Handle {
                self.start(context, |description| description.kind = kind::GROUP as _)
            }

            fn collective(&self, context: Handle, call: &Call) -> Handle {
                self.start(context, |description| {
                    description.kind = kind::COLLECTIVE as _;
                    // SAFETY: a plain structure within the union.
                    let of = unsafe { &mut description.of.collective $($call)* };
                    of.sequence = call.sequence;
                    of.function = call.function.as_ptr();
                    of.count = call.count;
                    of.datatype = call.datatype.as_ptr();
                    of.algorithm = call.algorithm.as_ptr();
                    of.protocol = c"SIMPLE".as_ptr();
                    of.root = call.other;
                    of.$channels = call.channels;
                    $says!(of);
                })
            }

            fn message(&self, context: Handle, call: &Call) -> Handle {
                self.start(context, |description| {
                    description.kind = kind::MESSAGE as _;
                    // SAFETY: a plain structure within the union.
                    let of = unsafe { &mut description.of.message $($message)* };
                    of.function = call.function.as_ptr();
                    of.count = call.count;
                    of.datatype = call.datatype.as_ptr();
                    of.peer = call.other;
                    $says!(of, call);
                })
            }

            fn channel(&self, context: Handle, parent: Handle, timer: u64) -> Handle {
                self.start(context, |description| {
                    description.kind = kind::KERNEL_CHANNEL as _;
                    description.parent = parent.0;
                    $kernel(description, timer);
                })
            }

            fn operation(&self, context: Handle, pid: u32, peer: c_int, send: bool) -> Handle {
                self.start(context, |description| {
                    description.kind = kind::PROXY_OPERATION as _;
                    // SAFETY: a plain structure within the union.
                    let of = unsafe { &mut description.of.proxy_operation };
                    (of.pid, of.peer, of.send) = (pid as c_int, peer, c_int::from(send));
                })
            }

            fn step(&self, context: Handle, parent: Handle) -> Handle {
                self.start(context, |description| {
                    description.kind = kind::PROXY_STEP as _;
                    description.parent = parent.0;
                })
            }

            fn stop(&self, event: Handle) {
                // NCCL does not call it for a null handle.
                if !event.is_null() {
                    // SAFETY: as NCCL calls it.
                    assert_eq!(unsafe { $table.table.stop.unwrap()(event.0) }, Status::SUCCESS);
                }
            }

            fn end_channel(&self, event: Handle, timer: u64) {
                if !event.is_null() {
                    $record($table.table.record_state.unwrap(), event, state::KERNEL_CHANNEL_STOP, timer);
                    self.stop(event);
                }
            }

            fn enter(&self, event: Handle, state: c_int, bytes: usize) {
                if !event.is_null() {
                    $record($table.table.record_state.unwrap(), event, state, bytes as u64);
                }
            }

            fn finalize(&self, context: Handle) {
                // SAFETY: as NCCL calls it.
                assert_eq!(unsafe { $table.table.finalize.unwrap()(context.0) }, Status::SUCCESS);
            }
        }
    };
}

macro_rules! each_call {
    ($of:ident $(, $call:ident)?) => {{
        $of.communicator_name = NAME.as_ptr();
        $of.communicator = COMMUNICATOR.with(std::cell::Cell::get);
    }};
}

macro_rules! init_says {
    ($of:ident) => {{}};
    ($of:ident, $call:ident) => {{
        $of.channels = $call.channels;
    }};
}

thread_local! {
    /// The communicator of this thread's calls: v2 and v3 say it with each.
    pub static COMMUNICATOR: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

unsafe fn init_v2(
    init: InitV2,
    context: *mut *mut c_void,
    mask: *mut c_int,
    _: u64,
    _: c_int,
    _: c_int,
) -> Status {
    // SAFETY: as NCCL calls it.
    unsafe { init(context, mask) }
}

unsafe fn init_v4(
    init: InitV4,
    context: *mut *mut c_void,
    mask: *mut c_int,
    communicator: u64,
    ranks: c_int,
    rank: c_int,
) -> Status {
    // SAFETY: as NCCL calls it.
    unsafe { init(context, mask, NAME.as_ptr(), communicator, 2, ranks, rank, None) }
}

unsafe fn init_v5(
    init: InitV5,
    context: *mut *mut c_void,
    mask: *mut c_int,
    communicator: u64,
    ranks: c_int,
    rank: c_int,
) -> Status {
    // SAFETY: as NCCL calls it.
    unsafe { init(context, communicator, mask, NAME.as_ptr(), 2, ranks, rank, None) }
}

/// Before v4 NCCL gives no state of kernels.
fn no_state(_: RecordState<StateArgumentsV2>, _: Handle, _: c_int, _: u64) {}

fn with_state(record: RecordState<StateArgumentsV4>, event: Handle, entered: c_int, value: u64) {
    let arguments = StateArgumentsV4 { timer: value };
    // SAFETY: as NCCL calls it.
    assert_eq!(unsafe { record(event.0, entered, &arguments) }, Status::SUCCESS);
}

version!(
    V2,
    ncclProfiler_v2,
    DescriptionV2,
    (),
    (),
    each_call,
    most_channels,
    init_v2,
    |_: &mut DescriptionV2, _| panic!("v2 has no kernels"),
    no_state
);
version!(
    V3,
    ncclProfiler_v3,
    DescriptionV3,
    (),
    (),
    each_call,
    most_channels,
    init_v2,
    |_: &mut DescriptionV3, _| (),
    no_state
);
version!(
    V4,
    ncclProfiler_v4,
    DescriptionV4,
    (),
    (),
    init_says,
    channels,
    init_v4,
    |one: &mut DescriptionV4, timer| one.of.kernel_channel.timer = timer,
    with_state
);
version!(
    V5, ncclProfiler_v5, DescriptionV5, (.v4), (.v4), init_says, channels,
    init_v5, |one: &mut DescriptionV5, timer| one.of.kernel_channel.timer = timer, with_state
);
version!(
    V6, ncclProfiler_v6, DescriptionV5, (.v4), (.v4), init_says, channels,
    init_v5, |one: &mut DescriptionV5, timer| one.of.kernel_channel.timer = timer, with_state
);
version!(
    V7, ncclProfiler_v7, DescriptionV7, (.v5.v4), (.v5.v4), init_says, channels,
    init_v5, |one: &mut DescriptionV7, timer| one.of.kernel_channel.timer = timer, with_state
);
