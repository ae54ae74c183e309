//! One rank on its GPU: communicator, stream, buffers and the checker of their contents.
//! Not the operations on them (`case`).

use std::sync::Arc;

use busbw_core::plan::{GpuOptions, Plan, Registration};
use busbw_ffi::{
    gpu::{Context, Event, GpuError, Memory, Span, Stream},
    nccl::{Communicator, Nccl as Library, NcclError, Registration as Registered, Symmetric},
};

use crate::backend::nccl::checker::Checker;

/// A rank. Fields drop in order: the registration first, then the communicator, then the memory.
pub(super) struct GpuRank {
    /// World rank.
    pub(super) rank: usize,
    _registered: Vec<Registered>,
    pub(super) communicator: Communicator,
    pub(super) stream: Stream,
    pub(super) buffers: Buffers,
    pub(super) checker: Checker,
    /// Events that iterations recorded (`-I`), and how many of them are in use.
    events: Vec<Event>,
    passed: usize,
}

/// A rank's buffers, of `Plan::buffer_bytes` each.
pub(super) struct Buffers {
    pub(super) send: Memory,
    pub(super) recv: Memory,
    /// The check buffer: the last timed operation's result goes here. None without checks.
    pub(super) check: Option<Memory>,
}

impl Buffers {
    /// Allocates them as NCCL prefers, where it has a preference (nccl-tests src/common.cu:1105).
    pub(super) fn allocate(
        plan: &Plan,
        library: &'static Library,
        context: &Arc<Context>,
    ) -> Result<Buffers, Failed> {
        let bytes = plan.buffer_bytes();
        let allocate = || -> Result<Memory, Failed> {
            if library.allocates() {
                Ok(library.allocate(context, bytes)?)
            } else {
                Ok(Memory::allocate(context, bytes)?)
            }
        };
        let check = if plan.has_check_buffer() { Some(allocate()?) } else { None };
        Ok(Buffers { send: allocate()?, recv: allocate()?, check })
    }

    fn spans(&self) -> impl Iterator<Item = Span> {
        [&self.send, &self.recv].into_iter().chain(&self.check).map(Memory::span)
    }
}

/// The library that refused.
#[derive(Debug)]
pub(super) enum Failed {
    Gpu(GpuError),
    Nccl(NcclError),
}

impl From<GpuError> for Failed {
    fn from(error: GpuError) -> Failed {
        Failed::Gpu(error)
    }
}

impl From<NcclError> for Failed {
    fn from(error: NcclError) -> Failed {
        Failed::Nccl(error)
    }
}

/// The registration that the plan's option asks for.
fn kind(options: &GpuOptions) -> Option<Symmetric> {
    match options.register {
        Registration::None => None,
        Registration::Local => Some(Symmetric::No),
        Registration::Symmetric => Some(Symmetric::Yes),
    }
}

/// Registers the buffers of all ranks of one thread within one group: symmetric registration waits
/// for every rank.
pub(super) fn register(
    options: &GpuOptions,
    library: &Library,
    ranks: &[(Communicator, Buffers)],
) -> Result<Vec<Vec<Registered>>, NcclError> {
    let Some(kind) = kind(options) else { return Ok(ranks.iter().map(|_| Vec::new()).collect()) };
    library.group_start()?;
    let registered = ranks
        .iter()
        .map(|(communicator, buffers)| {
            buffers.spans().map(|span| communicator.register(span, kind)).collect()
        })
        .collect();
    // The group must end, even after an error.
    let ended = library.group_end();
    ended.and(registered)
}

impl GpuRank {
    /// Sets up a rank.
    pub(super) fn new(
        rank: usize,
        registered: Vec<Registered>,
        (communicator, buffers): (Communicator, Buffers),
        stream: Stream,
        checker: Checker,
    ) -> GpuRank {
        let (events, passed) = (Vec::new(), 0);
        GpuRank {
            rank,
            _registered: registered,
            communicator,
            stream,
            buffers,
            checker,
            events,
            passed,
        }
    }

    /// Forgets all recorded events.
    pub(super) fn start(&mut self) {
        self.passed = 0;
    }

    /// Creates events for `count` records: none may be created while the clock runs.
    pub(super) fn make_events(&mut self, count: usize) -> Result<(), GpuError> {
        while self.events.len() < count {
            self.events.push(Event::create(self.communicator.context())?);
        }
        Ok(())
    }

    /// Records the next event on the stream.
    pub(super) fn pass(&mut self) -> Result<(), GpuError> {
        if self.passed == self.events.len() {
            self.events.push(Event::create(self.communicator.context())?);
        }
        self.events[self.passed].record(&self.stream)?;
        self.passed += 1;
        Ok(())
    }

    /// Seconds between successive events, which must all have completed.
    pub(super) fn laps(&self) -> Result<Vec<f64>, GpuError> {
        self.events[..self.passed].windows(2).map(|pair| pair[0].seconds_to(&pair[1])).collect()
    }

    /// Waits until the stream is idle.
    pub(super) fn settle(&self) -> Result<(), GpuError> {
        while !self.stream.is_done()? {
            std::thread::yield_now();
        }
        Ok(())
    }
}
