//! What an event leaves in memory: NCCL's threads come here, take no lock and wait for nobody.
//! Not NCCL's pointers (`exported`), and not what becomes of it (`writer`).

use std::{
    ffi::{c_int, c_void},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use nccl_plugin_abi::{Logger, profiler::kind};

use crate::{
    communicators::{Communicator, Communicators, Told, place},
    event::{Call, packed},
    folder,
    handle::{Handle, Of},
    log, names, process_ends,
    setting::{Extent, Setting},
    slots::{NewCall, SLOTS, Slots},
    steps::{STEPS, Steps},
    writer,
};

/// How long NCCL's last finalize and the process's exit wait for the file.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// The calls' class word 0: `communicator(16) flags(8) channels(8) root or peer(32)`.
pub(crate) mod flag {
    /// It has a root.
    pub const ROOT: u64 = 1;
    /// It has a peer.
    pub const PEER: u64 = 2;
    /// Events of its kernel are to come.
    pub const KERNEL: u64 = 4;
    /// It is a send.
    pub const SEND: u64 = 8;
}

/// All that is recorded, and the way to the writer.
#[derive(Debug)]
pub(crate) struct Recorder {
    on: AtomicBool,
    origin: Instant,
    /// What makes our handles known from another process's.
    process: u16,
    pid: u32,
    extent: Extent,
    /// Calls under way.
    pub slots: Slots,
    /// Steps under way.
    pub steps: Steps,
    /// Communicators.
    pub communicators: Communicators,
    /// Calls for which there was no room.
    pub dropped_calls: AtomicU64,
    /// Steps for which there was no room.
    pub dropped_steps: AtomicU64,
    /// The way to the writer's thread.
    pub writer: writer::Orders,
    /// Masks that were set: addresses of NCCL's.
    masks: Mutex<Vec<usize>>,
    too_many: AtomicBool,
}

/// This process's. None within: nothing is recorded, as the environment says or since there is no file.
static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();

/// The recorder, for its writer: also once it is off.
pub(crate) fn begun() -> Option<&'static Recorder> {
    RECORDER.get()?.as_ref()
}

/// The recorder, while it records.
pub(crate) fn current() -> Option<&'static Recorder> {
    let recorder = RECORDER.get()?.as_ref()?;
    (recorder.on.load(Ordering::Relaxed) && !process_ends::in_child()).then_some(recorder)
}

/// Nothing more is recorded: said once, and NCCL is asked for no more events.
pub(crate) fn off(why: &str) {
    let Some(Some(recorder)) = RECORDER.get() else { return };
    if recorder.on.swap(false, Ordering::AcqRel) {
        recorder.communicators.all().for_each(Communicator::silence);
        log::warn(&format!("{why}; this process goes on without being recorded"));
    }
}

/// A communicator begins: the context that NCCL keeps, null where nothing is recorded.
///
/// # Safety
/// `mask` is null or NCCL's mask of events, a static of its library.
pub(crate) unsafe fn init(told: Told, mask: *mut c_int, logger: Option<Logger>) -> *mut c_void {
    let interface = told.interface;
    // A child of fork takes no lock: the thread that held it may not be there.
    let on = if process_ends::in_child() {
        None
    } else {
        log::by(logger);
        let recorder = RECORDER.get_or_init(|| begin(interface)).as_ref();
        recorder.filter(|one| one.on.load(Ordering::Relaxed))
    };
    let Some(recorder) = on else {
        // SAFETY: as the caller says. A mask that an earlier communicator set would ask for events in vain.
        if let Some(mask) = unsafe { mask.as_mut() } {
            *mask = 0;
        }
        return std::ptr::null_mut();
    };
    // SAFETY: as the caller says.
    unsafe { recorder.begin_communicator(told, mask) }
}

/// Makes the recorder and starts the writer. None: nothing is recorded, with a line in NCCL's log.
fn begin(interface: u32) -> Option<Recorder> {
    let setting = Setting::of_process();
    if let Some(value) = &setting.unknown {
        let variable = names::VARIABLE;
        log::warn(&format!(
            "{variable} is \"{value}\", which is taken as unset: set it to off or full"
        ));
    }
    if setting.extent == Extent::Off {
        log::info(&format!("{} is off: nothing is recorded", names::VARIABLE));
        return None;
    }
    let began = SystemTime::now();
    let folder = folder::make(&setting).map_err(|why| log::warn(&why.to_string())).ok()?;
    let recorder = Recorder {
        on: AtomicBool::new(true),
        origin: Instant::now(),
        process: process_number(began),
        pid: std::process::id(),
        extent: setting.extent,
        slots: Slots::new(SLOTS),
        steps: Steps::new(STEPS),
        communicators: Communicators::new(),
        dropped_calls: AtomicU64::new(0),
        dropped_steps: AtomicU64::new(0),
        writer: writer::Orders::default(),
        masks: Mutex::new(Vec::new()),
        too_many: AtomicBool::new(false),
    };
    match writer::start(&folder, setting, interface, began) {
        Ok(file) => log::info(&format!("calls are recorded in {}", file.display())),
        Err(why) => {
            log::warn(&format!("{why}: nothing is recorded"));
            return None;
        }
    }
    process_ends::watch();
    Some(recorder)
}

/// 12 bits that another process of the job has only by chance (1 in 4,096).
fn process_number(now: SystemTime) -> u16 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mixed = (since.as_nanos() as u64 ^ u64::from(std::process::id()) << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 52) as u16
}

/// The process exits: the writer writes what it has, within a bounded time.
pub(crate) fn at_exit() {
    if let Some(recorder) = current() {
        recorder.writer.end(LONGEST_WAIT);
    }
}

impl Recorder {
    /// ns since it began.
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// What makes our handles known from another process's.
    pub fn process(&self) -> u16 {
        self.process
    }

    unsafe fn begin_communicator(&self, told: Told, mask: *mut c_int) -> *mut c_void {
        self.set_mask(told.interface, mask);
        // SAFETY: as the caller of `init` says.
        let begun = unsafe { self.communicators.begin(told, self.now(), mask) };
        let Some(communicator) = begun else {
            if !self.too_many.swap(true, Ordering::Relaxed) {
                log::warn("more than 4,096 communicators: later ones are not recorded");
            }
            return std::ptr::null_mut();
        };
        let index = communicator.number as u16;
        Handle { of: Of::Communicator, generation: 0, index }.pointer(self.process)
    }

    /// Asks NCCL for events: once for each copy of NCCL in the process, since the mask is the process's and may be changed
    /// in a running job (RAS, NCCL 2.31 and newer).
    fn set_mask(&self, interface: u32, mask: *mut c_int) {
        // SAFETY: as the caller of `init` says.
        let Some(mask) = (unsafe { mask.as_mut() }) else { return };
        let mut set = self.masks.lock().unwrap_or_else(PoisonError::into_inner);
        let address = (&raw const *mask).addr();
        if !set.contains(&address) {
            set.push(address);
            *mask = self.extent.mask(interface) as c_int;
        }
    }

    /// A communicator by NCCL's context.
    pub fn communicator(&self, context: *mut c_void) -> Option<&Communicator> {
        let handle = Handle::read(context, self.process)?;
        if handle.of != Of::Communicator {
            return None;
        }
        self.communicators.get(u32::from(handle.index))
    }

    /// A communicator ends. After the last one the file has all, within a bounded time.
    pub fn end_communicator(&self, context: *mut c_void) {
        let Some(communicator) = self.communicator(context) else { return };
        if self.communicators.end(communicator) {
            self.writer.finish(LONGEST_WAIT);
            log::by(None);
        }
    }

    /// A group begins: nothing of it is recorded.
    pub fn group(&self) -> Handle {
        Handle { of: Of::Group, generation: 0, index: 0 }
    }

    /// A call begins.
    pub fn begin_call(
        &self,
        communicator: &Communicator,
        rank: c_int,
        call: &Call,
    ) -> Option<Handle> {
        if communicator.rank.load(Ordering::Relaxed) < 0 {
            communicator.rank.store(rank, Ordering::Relaxed);
        }
        if let Some(said) = &call.said {
            communicator.said.get_or_init(|| said_by_call(said));
        }
        let function: [u64; 2] = packed(call.function);
        let message = call.sequence.is_none();
        let send = function[0] == u64::from_le_bytes(*b"Send\0\0\0\0");
        let other = u32::try_from(call.other).unwrap_or(u32::MAX);
        let sequence = match call.sequence {
            Some(sequence) => sequence,
            // Counted before there is a slot: a dropped call must not shift the numbers of those after it.
            None => match communicator.next_message(other, send, &self.communicators.room) {
                Some(sequence) => sequence,
                None => return self.drop_call(),
            },
        };
        // NCCL has no events of the kernel for what a rank sends to itself (`nProxyOps` in enqueue.cc).
        let itself = message && call.other == communicator.rank.load(Ordering::Relaxed);
        let kernel = communicator.mask() & kind::KERNEL_CHANNEL != 0 && !itself;
        let algorithm: [u64; 2] = packed(call.algorithm);
        let channels =
            if switch_reduces(algorithm[0], communicator.told.nodes) { 0 } else { call.channels };
        let datatype: [u64; 2] = packed(call.datatype);
        let [protocol]: [u64; 1] = packed(call.protocol);
        let mut flags = if kernel { flag::KERNEL } else { 0 };
        if message {
            flags |= flag::PEER | if send { flag::SEND } else { 0 };
        } else if has_root(function[0]) {
            flags |= flag::ROOT;
        }
        let other = if flags & (flag::PEER | flag::ROOT) == 0 { 0 } else { other };
        let head = u64::from(communicator.number) << 48
            | flags << 40
            | u64::from(channels) << 32
            | u64::from(other);
        let class = [
            head,
            call.count as u64,
            function[0],
            function[1],
            datatype[0],
            datatype[1],
            algorithm[0],
            algorithm[1],
            protocol,
        ];
        let new = NewCall { class, sequence, enqueued: self.now() };
        match self.slots.begin(&new) {
            Some((index, generation)) => Some(Handle { of: Of::Call, generation, index }),
            None => self.drop_call(),
        }
    }

    fn drop_call(&self) -> Option<Handle> {
        self.dropped_calls.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// A channel of a call's kernel begins; without a time the version has none.
    pub fn begin_channel(&self, parent: *mut c_void, timer: Option<u64>) -> Option<Handle> {
        let call = Handle::read(parent, self.process).filter(|handle| handle.of == Of::Call)?;
        let of = if timer.is_some() { Of::Channel } else { Of::UntimedChannel };
        let begun = self.slots.channel_started(call.index, call.generation, timer.unwrap_or(0));
        begun.then_some(Handle { of, ..call })
    }

    /// A proxy operation begins. Where it is of another process (`pid`), the context is that process's.
    pub fn begin_operation(
        &self,
        context: *mut c_void,
        pid: c_int,
        peer: c_int,
        send: bool,
    ) -> Option<Handle> {
        if u32::try_from(pid) != Ok(self.pid) {
            return None;
        }
        let communicator = self.communicator(context)?;
        let peer = u32::try_from(peer).ok()?;
        let place = place(peer, send);
        if communicator.sums(place, &self.communicators.room).is_none() {
            self.dropped_steps.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Handle {
            of: Of::ProxyOperation,
            generation: place,
            index: communicator.number as u16,
        })
    }

    /// A step of a proxy operation begins.
    pub fn begin_step(&self, parent: *mut c_void) -> Option<Handle> {
        let operation =
            Handle::read(parent, self.process).filter(|one| one.of == Of::ProxyOperation)?;
        match self.steps.begin(u32::from(operation.index), operation.generation) {
            Some((index, generation)) => Some(Handle { of: Of::Step, generation, index }),
            None => {
                self.dropped_steps.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// An event ends.
    pub fn stop(&self, handle: *mut c_void) {
        let Some(handle) = Handle::read(handle, self.process) else { return };
        match handle.of {
            Of::Call => self.slots.stop(handle.index, handle.generation),
            Of::UntimedChannel => self.slots.channel_ended(handle.index, handle.generation, 0),
            Of::Step => self.end_step(handle),
            Of::Communicator | Of::Group | Of::Channel | Of::ProxyOperation => {}
        }
    }

    fn end_step(&self, handle: Handle) {
        let ended = self.steps.end(handle.index, handle.generation, self.now());
        let Some(ended) = ended else { return };
        if let Some(communicator) = self.communicators.get(ended.communicator)
            && let Some(sums) = communicator.sums(ended.peer, &self.communicators.room)
        {
            ended.add_to(sums);
        }
    }

    /// A channel of a kernel ended, at a time of the GPU's own clock.
    pub fn end_channel(&self, handle: *mut c_void, timer: u64) {
        let handle = Handle::read(handle, self.process).filter(|handle| handle.of == Of::Channel);
        if let Some(handle) = handle {
            self.slots.channel_ended(handle.index, handle.generation, timer);
        }
    }

    /// A step enters a state.
    pub fn enter(&self, handle: *mut c_void, state: c_int, bytes: u64) {
        let handle = Handle::read(handle, self.process).filter(|handle| handle.of == Of::Step);
        if let Some(handle) = handle {
            self.steps.enter(handle.index, handle.generation, state, self.now(), bytes);
        }
    }
}

/// Id and name, as a call of v2 and v3 says them.
fn said_by_call(said: &crate::event::Said) -> (String, String) {
    let id =
        if said.communicator == 0 { String::new() } else { format!("{:016x}", said.communicator) };
    // SAFETY: NCCL's string ends with a zero.
    let name = unsafe { crate::exported::text(said.name) };
    (id, name)
}

/// Whether NCCL leaves the number of channels unset: a switch reduces (`isCollnet` in enqueue.cc).
fn switch_reduces(algorithm: u64, nodes: u32) -> bool {
    algorithm == u64::from_le_bytes(*b"COLLNET_")
        || algorithm == u64::from_le_bytes(*b"NVLS\0\0\0\0") && nodes != 1
}

/// Whether an operation has a root, by the first letters of its name.
fn has_root(function: u64) -> bool {
    const NAMES: [&[u8; 8]; 4] = [b"Broadcas", b"Reduce\0\0", b"Gather\0\0", b"Scatter\0"];
    NAMES.iter().any(|name| function == u64::from_le_bytes(**name))
}
