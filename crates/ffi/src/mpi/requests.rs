//! Messages in flight: started without waiting, and waited for together, with or without a
//! deadline.
//! Not blocking ones (`exchange`).

use std::{
    ffi::c_int,
    rc::Rc,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    abi::with,
    buffer::Buffer,
    communicator::Communicator,
    element::Elements,
    exchange::{Source, counted, fits, number},
    library::MpiError,
    session::{Held, call},
};

/// Polls of the requests between two checks of the clock and the abort flag: one poll takes 20 to
/// 200 ns, the clock as long.
const POLLS_PER_CLOCK_CHECK: u32 = 64;
/// After this time other threads get the core between polls.
const YIELD_AFTER: Duration = Duration::from_millis(1);

/// Why a wait ended without success. The requests are still in flight: their buffers must stay.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WaitError {
    /// An MPI call failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// The deadline passed.
    #[error("{open} messages were still in flight at the deadline")]
    Late {
        /// How many were waited for.
        open: usize,
    },
    /// `given_up` returned true.
    #[error("the run was aborted with {open} messages in flight")]
    Aborted {
        /// How many were waited for.
        open: usize,
    },
}

/// The address of the handle of that number.
fn slot<H>(base: *mut usize, at: usize) -> *mut H {
    base.cast::<H>().wrapping_add(at)
}

/// Started sends and receives. The list has room for a fixed number, so that starting one allocates
/// nothing. When it is dropped, its requests stay in flight.
#[derive(Debug)]
pub struct Requests {
    joined: Rc<Held>,
    /// Handles one after the other, in the library's width; a word is wide enough for either.
    handles: Vec<usize>,
    open: usize,
}

impl Requests {
    /// Room for `most` requests.
    pub fn new(communicator: &Communicator, most: usize) -> Requests {
        Requests { joined: Rc::clone(&communicator.joined), handles: vec![0; most], open: 0 }
    }

    /// The number of requests in flight.
    pub fn open(&self) -> usize {
        self.open
    }

    fn room(&self, entry: &'static str) -> Result<(), MpiError> {
        if self.open < self.handles.len() {
            return Ok(());
        }
        let why = format!("the list has room for {} messages", self.handles.len());
        Err(MpiError::of_no_call(super::table::name_of(entry), why))
    }

    /// MPI_Isend.
    ///
    /// # Errors
    /// The list has no room, or MPI refuses the call.
    #[inline]
    pub fn send(
        &mut self,
        communicator: &Communicator,
        buffer: Buffer,
        elements: Elements,
        to: usize,
        tag: i32,
    ) -> Result<(), MpiError> {
        self.room("isend")?;
        let address = fits("isend", buffer, elements.bytes())?;
        let (mpi, open, base) = (self.joined.mpi, self.open, self.handles.as_mut_ptr());
        let (datatype, comm) = (elements.datatype, communicator.handle);
        counted!(mpi, elements.large, isend / isend_c, count(n) => (
            address,
            n(elements.count),
            datatype.get(),
            number(to),
            tag,
            comm.get(),
            slot(base, open),
        ))?;
        self.open += 1;
        Ok(())
    }

    /// MPI_Irecv.
    ///
    /// # Errors
    /// The list has no room, or MPI refuses the call.
    #[inline]
    pub fn recv(
        &mut self,
        communicator: &Communicator,
        buffer: Buffer,
        elements: Elements,
        from: Source,
        tag: i32,
    ) -> Result<(), MpiError> {
        self.room("irecv")?;
        let address = fits("irecv", buffer, elements.bytes())?;
        let (mpi, open, base) = (self.joined.mpi, self.open, self.handles.as_mut_ptr());
        let (datatype, comm) = (elements.datatype, communicator.handle);
        let from = from.number(mpi);
        counted!(mpi, elements.large, irecv / irecv_c, count(n) => (
            address,
            n(elements.count),
            datatype.get(),
            from,
            tag,
            comm.get(),
            slot(base, open),
        ))?;
        self.open += 1;
        Ok(())
    }

    /// MPI_Waitall: for ever, when a peer has died.
    ///
    /// # Errors
    /// MPI refuses the call.
    #[inline]
    pub fn wait_all(&mut self) -> Result<(), MpiError> {
        let (mpi, base) = (self.joined.mpi, self.handles.as_mut_ptr());
        let (open, ignore) = (self.open as c_int, mpi.constants.status_ignore as *mut _);
        with!(mpi, functions => call!(mpi, functions, waitall(open, base.cast(), ignore)))?;
        self.open = 0;
        Ok(())
    }

    /// MPI_Testall: whether all are complete; the list is then empty.
    ///
    /// # Errors
    /// MPI refuses the call.
    #[inline]
    pub fn all_done(&mut self) -> Result<bool, MpiError> {
        let (mpi, base) = (self.joined.mpi, self.handles.as_mut_ptr());
        let (open, ignore) = (self.open as c_int, mpi.constants.status_ignore as *mut _);
        let mut done = 0;
        with!(mpi, functions => call!(mpi, functions, testall(open, base.cast(), &mut done, ignore)))?;
        if done != 0 {
            self.open = 0;
        }
        Ok(done != 0)
    }

    /// Waits for all until `deadline`, or until `given_up` returns true. It polls the requests
    /// without a pause, as MPI_Waitall does, and yields the core between polls after 1 ms.
    ///
    /// # Errors
    /// The deadline passes, `given_up` returns true, or MPI reports an error.
    pub fn wait_all_until(
        &mut self,
        deadline: Instant,
        mut given_up: impl FnMut() -> bool,
    ) -> Result<(), WaitError> {
        let mut began = None;
        loop {
            for _ in 0..POLLS_PER_CLOCK_CHECK {
                if self.all_done()? {
                    return Ok(());
                }
            }
            let now = Instant::now();
            let began = *began.get_or_insert(now);
            if given_up() {
                return Err(WaitError::Aborted { open: self.open });
            }
            if now >= deadline {
                return Err(WaitError::Late { open: self.open });
            }
            if now - began > YIELD_AFTER {
                std::thread::yield_now();
            }
        }
    }
}
