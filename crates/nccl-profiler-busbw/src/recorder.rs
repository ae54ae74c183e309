//! What an event leaves in memory: NCCL's threads come here, take no lock and wait for nobody.
//! Not NCCL's pointers (`exported`), and not what becomes of it (`writer`).

use std::{
    ffi::{c_char, c_int, c_void},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::{Duration, SystemTime},
};

use nccl_plugin_abi::Logger;

use crate::{
    communicators::{Communicator, Told, place},
    event::{Call, Said, packed, parts, text},
    folder,
    handle::{Handle, Of},
    log,
    memory::{Memory, flag},
    names, process_ends,
    setting::{Extent, Setting},
    slots::NewCall,
    timing::{Kernel, Launched},
    writer,
};

/// How long NCCL's last finalize and the process's exit wait for the file.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// This process's memory of events, and the way to its writer.
#[derive(Debug)]
pub(crate) struct Recorder {
    memory: &'static Memory,
    writer: &'static writer::Orders,
    /// What makes our handles known from another process's.
    process: u16,
    pid: u32,
    extent: Extent,
    /// Masks that were set: addresses of NCCL's.
    masks: Mutex<Vec<usize>>,
    too_many: AtomicBool,
    /// NCCL times broadcasts (NCCL_ALLGATHERV_ENABLE=0).
    times_broadcasts: bool,
}

/// This process's. None within: nothing is recorded, as the environment says or since there is no file.
static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();

/// The recorder, while it records.
pub(crate) fn current() -> Option<&'static Recorder> {
    let recorder = RECORDER.get()?.as_ref()?;
    (recorder.memory.on() && !process_ends::in_child()).then_some(recorder)
}

/// Nothing more is recorded.
pub(crate) fn off(why: &str) {
    if let Some(recorder) = current() {
        recorder.memory.off(why);
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
        RECORDER.get_or_init(|| begin(interface)).as_ref().filter(|one| one.memory.on())
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
            "{variable} is \"{value}\", which is taken as unset: set it to off, standby, sampled or full"
        ));
    }
    let extent = setting.extent;
    if extent == Extent::Off {
        log::info(&format!("{} is off: nothing is recorded", names::VARIABLE));
        return None;
    }
    if extent == Extent::Sampled && extent.sampled(interface).is_none() {
        let variable = names::VARIABLE;
        log::warn(&format!(
            "{variable}=sampled: every kernel is timed, since NCCL 2.31 and newer give wrong times of those that follow one that is not"
        ));
    }
    let folder = folder::make(&setting).map_err(|why| log::warn(&why.to_string())).ok()?;
    // For the process's life: NCCL and exit come here at any time.
    let memory: &'static Memory =
        Box::leak(Box::new(Memory::new(extent.sampled(interface).is_some())));
    let writer: &'static writer::Orders = Box::leak(Box::default());
    let began = SystemTime::now();
    match writer::start(&folder, setting, interface, began, memory, writer) {
        Ok(file) => log::info(&format!("calls are recorded in {}", file.display())),
        Err(why) => {
            log::warn(&format!("{why}: nothing is recorded"));
            return None;
        }
    }
    process_ends::watch(at_exit);
    Some(Recorder {
        memory,
        writer,
        process: process_number(began),
        pid: std::process::id(),
        extent,
        masks: Mutex::new(Vec::new()),
        too_many: AtomicBool::new(false),
        times_broadcasts: std::env::var_os("NCCL_ALLGATHERV_ENABLE")
            .is_some_and(|value| value.to_string_lossy().trim() == "0"),
    })
}

/// 12 bits that another process of the job has only by chance (1 in 4,096).
fn process_number(now: SystemTime) -> u16 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mixed = (since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 32))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 52) as u16
}

/// The process exits: the writer writes what it has, within a bounded time.
fn at_exit() {
    if let Some(recorder) = current() {
        recorder.writer.end(LONGEST_WAIT);
    }
}

impl Recorder {
    /// What makes our handles known from another process's.
    pub fn process(&self) -> u16 {
        self.process
    }

    /// # Safety
    /// As of [`init`].
    unsafe fn begin_communicator(&self, told: Told, mask: *mut c_int) -> *mut c_void {
        // SAFETY: as the caller says.
        let begun = unsafe {
            self.set_mask(told.interface, mask);
            let asked = self.extent.sampled(told.interface).unwrap_or_default();
            self.memory.communicators.begin(told, self.memory.now(), mask, asked)
        };
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
    ///
    /// # Safety
    /// As of [`init`].
    unsafe fn set_mask(&self, interface: u32, mask: *mut c_int) {
        let mut set = self.masks.lock().unwrap_or_else(PoisonError::into_inner);
        if !mask.is_null() && !set.contains(&mask.addr()) {
            set.push(mask.addr());
            // SAFETY: as the caller says. NCCL reads it atomically.
            let mask = unsafe { AtomicI32::from_ptr(mask) };
            mask.store(self.extent.mask(interface) as c_int, Ordering::Relaxed);
        }
    }

    /// A communicator by NCCL's context.
    pub fn communicator(&self, context: *mut c_void) -> Option<&Communicator> {
        let handle = Handle::read(context, self.process)?;
        if handle.of != Of::Communicator {
            return None;
        }
        self.memory.communicators.get(u32::from(handle.index))
    }

    /// A communicator ends. After the last one the file has all, within a bounded time.
    pub fn end_communicator(&self, context: *mut c_void) {
        let Some(communicator) = self.communicator(context) else { return };
        let memory = self.memory;
        if memory.communicators.end(communicator) {
            self.writer.finish(LONGEST_WAIT);
            log::by(None);
        }
    }

    /// A program calls a collective.
    pub fn called(&self, communicator: &Communicator, function: *const c_char) {
        let broadcast = packed::<2>(function) == packed::<2>(c"Broadcast".as_ptr());
        if broadcast && !self.times_broadcasts && communicator.ends_kernel_times() {
            log::info(
                "no times of kernels are recorded from a communicator's first ncclBroadcast on: NCCL 2.31 and newer give wrong ones then, unless NCCL_ALLGATHERV_ENABLE=0",
            );
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
            None => match communicator.next_message(other, send, &self.memory.communicators.room) {
                Some(sequence) => sequence,
                None => return self.drop_call(),
            },
        };
        // NCCL has no events of the kernel for what a rank sends to itself (`nProxyOps` in enqueue.cc).
        let itself = message && call.other == communicator.rank.load(Ordering::Relaxed);
        let algorithm: [u64; 2] = packed(call.algorithm);
        let channels =
            if switch_reduces(algorithm[0], communicator.told.nodes) { 0 } else { call.channels };
        let datatype: [u64; 2] = packed(call.datatype);
        let [protocol]: [u64; 1] = packed(call.protocol);
        let now = self.memory.now();
        // Of a symmetric kernel NCCL's host says which numbers it has.
        let counted = communicator.has_kernel_times() || call.symmetric;
        let kernel = if itself || !counted {
            Kernel::Untold
        } else {
            let parts = parts(function[0], communicator.told.ranks);
            let bytes = call.bytes().map(|bytes| bytes.saturating_mul(parts.max(1)));
            let launched = Launched { bytes, number: call.sequence };
            self.memory.timing.launched(communicator, launched, now)
        };
        let mut flags = match kernel {
            Kernel::Told => flag::KERNEL,
            Kernel::Perhaps => flag::PERHAPS_KERNEL,
            Kernel::Untold => 0,
        };
        if message {
            flags |= flag::PEER;
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
        let new = NewCall { class, sequence, enqueued: now };
        match self.memory.slots.begin(&new) {
            Some((index, generation)) => {
                let of = if counted { Of::Call } else { Of::UncountedCall };
                Some(Handle { of, generation, index })
            }
            None => self.drop_call(),
        }
    }

    fn drop_call(&self) -> Option<Handle> {
        self.memory.dropped_calls.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// A channel of a call's kernel begins; without a time the version has none.
    pub fn begin_channel(&self, parent: *mut c_void, timer: Option<u64>) -> Option<Handle> {
        let call = Handle::read(parent, self.process).filter(|handle| handle.of == Of::Call)?;
        let of = if timer.is_some() { Of::Channel } else { Of::UntimedChannel };
        let begun =
            self.memory.slots.channel_started(call.index, call.generation, timer.unwrap_or(0));
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
        if communicator.sums(place, &self.memory.communicators.room).is_none() {
            self.memory.dropped_steps.fetch_add(1, Ordering::Relaxed);
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
        match self.memory.steps.begin(u32::from(operation.index), operation.generation) {
            Some((index, generation)) => Some(Handle { of: Of::Step, generation, index }),
            None => {
                self.memory.dropped_steps.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// An event ends.
    pub fn stop(&self, handle: *mut c_void) {
        let Some(handle) = Handle::read(handle, self.process) else { return };
        match handle.of {
            Of::Call | Of::UncountedCall => self.memory.slots.stop(handle.index, handle.generation),
            Of::UntimedChannel => {
                let _ = self.memory.slots.channel_ended(handle.index, handle.generation, 0);
            }
            Of::Step => self.end_step(handle),
            Of::Communicator | Of::Group | Of::Channel | Of::ProxyOperation => {}
        }
    }

    fn end_step(&self, handle: Handle) {
        let ended = self.memory.steps.end(handle.index, handle.generation, self.memory.now());
        let Some(ended) = ended else { return };
        if let Some(communicator) = self.memory.communicators.get(ended.communicator)
            && let Some(sums) = communicator.sums(ended.peer, &self.memory.communicators.room)
        {
            ended.add_to(sums);
        }
    }

    /// A channel of a kernel ended, at a time of the GPU's own clock.
    pub fn end_channel(&self, handle: *mut c_void, timer: u64) {
        let handle = Handle::read(handle, self.process).filter(|handle| handle.of == Of::Channel);
        let Some(handle) = handle else { return };
        let ended = self.memory.slots.channel_ended(handle.index, handle.generation, timer);
        if let Some(communicator) = ended.and_then(|one| self.memory.communicators.get(one)) {
            communicator.gpu_clock.seen(self.memory.now(), timer);
        }
    }

    /// A step enters a state.
    pub fn enter(&self, handle: *mut c_void, state: c_int, bytes: u64) {
        let handle = Handle::read(handle, self.process).filter(|handle| handle.of == Of::Step);
        if let Some(handle) = handle {
            self.memory.steps.enter(
                handle.index,
                handle.generation,
                state,
                self.memory.now(),
                bytes,
            );
        }
    }
}

/// Id and name, as a call of v2 and v3 says them.
fn said_by_call(said: &Said) -> (String, String) {
    let id =
        if said.communicator == 0 { String::new() } else { format!("{:016x}", said.communicator) };
    // SAFETY: NCCL's string ends with a zero.
    let name = unsafe { text(said.name) };
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
