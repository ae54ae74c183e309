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

/// Whether this process has joined: it does so once, with one MPI.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Which threads may call MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threads {
    /// There is one.
    Single,
    /// The one that joined.
    Funneled,
    /// One at a time.
    Serialized,
    /// All at once.
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

/// What a process that joined has in common with its communicators.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) mpi: &'static Mpi,
    /// Types made of others, by the other and how many of it; freed before MPI_Finalize.
    pub(super) derived: RefCell<BTreeMap<(usize, Parts), Bits>>,
}

/// A process that takes part, on the thread that joined. Dropped, it leaves MPI as it is: a run that
/// ends early must not wait for the others in MPI_Finalize.
#[derive(Debug)]
pub struct Session {
    held: Rc<Held>,
    threads: Threads,
}

impl Session {
    /// MPI_Init_thread: joins the other processes that the launcher started, and waits for them without
    /// a deadline. From here on a failed call returns an error (MPI_ERRORS_RETURN); MPI_Init itself may
    /// end the process when it fails.
    ///
    /// # Errors
    /// [`MpiError`]: it has been called in this process before, or fails.
    pub fn join(mpi: &'static Mpi, wanted: Threads) -> Result<Session, MpiError> {
        let (mut initialized, mut provided) = (0, 0);
        with!(mpi, functions => {
            call!(mpi, functions, initialized(&mut initialized))?;
            if initialized != 0 || BEGUN.swap(true, Ordering::SeqCst) {
                let why = "MPI has been started in this process already, and starts only once";
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

    /// Which threads the library lets call it.
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
    /// [`MpiError`]: a communicator or a list of requests is still held, and could be used afterwards.
    pub fn finalize(self) -> Result<(), MpiError> {
        let Session { held, .. } = self;
        let held = Rc::try_unwrap(held).map_err(|_| {
            let why = "a communicator or a list of requests is still held";
            MpiError::of_no_call("MPI_Finalize", why.to_owned())
        })?;
        with!(held.mpi, functions => {
            // MPICH complains on stderr of types that are left.
            for datatype in held.derived.into_inner().into_values() {
                let mut datatype = datatype.get();
                call!(held.mpi, functions, type_free(&mut datatype))?;
            }
            call!(held.mpi, functions, finalize())
        })
    }

    /// MPI_Abort: the library and its launcher end every rank, this one included, most of them with
    /// `code`.
    pub fn abort(&self, code: i32) -> ! {
        let (mpi, world) = (self.held.mpi, self.held.mpi.constants.comm_world);
        let _: Result<(), MpiError> =
            with!(mpi, functions => call!(mpi, functions, abort(world.get(), code as c_int)));
        // The standard lets it return.
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
