//! From MPI_Init to MPI_Finalize: once in a process, on the thread that then makes every call.
//! Not what the ranks do in between.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ffi::c_int,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    abi::{Bits, with},
    communicator::Communicator,
    element::Parts,
    library::{Mpi, MpiError},
};

/// Whether this process has called MPI_Init: it does so once, with one MPI.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The threads that may call MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threads {
    /// The process has one thread.
    Single,
    /// The thread that called MPI_Init.
    Funneled,
    /// Any thread, one at a time.
    Serialized,
    /// Any threads at once.
    Multiple,
}

/// Calls a function of a bound table and turns its code into a result.
macro_rules! call {
    ($mpi:expr, $functions:ident, $function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the table's types are mpi.h's; handles, buffers and other pointers among the
        // arguments are live, as the calling wrapper or the maker of the buffer vouches for.
        $mpi.status(stringify!($function), unsafe { ($functions.$function)($($argument),*) })
    };
}
pub(super) use call;

/// What a session and its communicators share.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) mpi: &'static Mpi,
    /// Derived types, by their base and its count; freed before MPI_Finalize.
    pub(super) derived: RefCell<BTreeMap<(usize, Parts), Bits>>,
}

/// A process in MPI, on the thread that called MPI_Init. A drop does not call MPI_Finalize: a run
/// that ends early must not wait for the other ranks there.
#[derive(Debug)]
pub struct Session {
    held: Rc<Held>,
    threads: Threads,
}

impl Session {
    /// MPI_Init_thread: waits for the other processes of the launcher without a deadline. From here
    /// on a failed call returns an error (MPI_ERRORS_RETURN); MPI_Init itself may end the process
    /// when it fails.
    ///
    /// # Errors
    /// It has been called in this process before, or fails.
    pub fn join(mpi: &'static Mpi, wanted: Threads) -> Result<Session, MpiError> {
        let (mut initialized, mut provided) = (0, 0);
        with!(mpi, functions => {
            call!(mpi, functions, initialized(&mut initialized))?;
            if initialized != 0 || BEGUN.swap(true, Ordering::SeqCst) {
                let why = "MPI_Init was called in this process before, and can be called only once";
                return Err(MpiError::of_no_call("MPI_Init_thread", why.to_owned()));
            }
            let (none, level) = (std::ptr::null_mut(), mpi.constants.threads[wanted as usize]);
            call!(mpi, functions, init_thread(none, std::ptr::null_mut(), level, &mut provided))?;
            let returning = mpi.constants.errors_return;
            for communicator in [mpi.constants.comm_world, mpi.constants.comm_self] {
                call!(mpi, functions, set_errhandler(communicator.get(), returning.get()))?;
            }
        });
        let [_, funneled, serialized, multiple] = mpi.constants.threads;
        let threads = match provided {
            level if level >= multiple => Threads::Multiple,
            level if level >= serialized => Threads::Serialized,
            level if level >= funneled => Threads::Funneled,
            _ => Threads::Single,
        };
        let derived = RefCell::new(BTreeMap::new());
        Ok(Session { held: Rc::new(Held { mpi, derived }), threads })
    }

    /// The threads that the library lets call it.
    pub fn threads(&self) -> Threads {
        self.threads
    }

    /// The library.
    pub fn mpi(&self) -> &'static Mpi {
        self.held.mpi
    }

    /// MPI_COMM_WORLD.
    ///
    /// # Errors
    /// MPI refuses the call.
    pub fn world(&self) -> Result<Communicator, MpiError> {
        Communicator::of(Rc::clone(&self.held), self.held.mpi.constants.comm_world, false)
    }

    /// MPI_Finalize: waits for the other ranks, without a deadline.
    ///
    /// # Errors
    /// A communicator or a list of requests still exists, and could be used afterwards.
    pub fn finalize(self) -> Result<(), MpiError> {
        let Session { held, .. } = self;
        let held = Rc::try_unwrap(held).map_err(|_| {
            let why = "a communicator or a list of requests is still held";
            MpiError::of_no_call("MPI_Finalize", why.to_owned())
        })?;
        with!(held.mpi, functions => {
            // MPICH complains on stderr about types that were not freed.
            for datatype in held.derived.into_inner().into_values() {
                let mut datatype = datatype.get();
                call!(held.mpi, functions, type_free(&mut datatype))?;
            }
            call!(held.mpi, functions, finalize())
        })
    }

    /// MPI_Abort: the library and its launcher end every rank, this one included, most of them with
    /// exit code `code`.
    pub fn abort(&self, code: i32) -> ! {
        let (mpi, world) = (self.held.mpi, self.held.mpi.constants.comm_world);
        let _: Result<(), MpiError> =
            with!(mpi, functions => call!(mpi, functions, abort(world.get(), code as c_int)));
        // The standard allows it to return.
        std::process::exit(code)
    }
}

impl Mpi {
    /// Whether MPI_Finalize has been called in this process.
    ///
    /// # Errors
    /// MPI refuses the call.
    pub fn is_finalized(&self) -> Result<bool, MpiError> {
        let mut finalized = 0;
        with!(self, functions => call!(self, functions, finalized(&mut finalized)))?;
        Ok(finalized != 0)
    }
}
