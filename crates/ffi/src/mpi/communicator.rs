//! One rank of a communicator: its number, the size, and sub-communicators by host or colour.
//! Not its operations (`operation`, `exchange`).

use std::{ffi::c_int, rc::Rc};

use super::{
    abi::{Bits, UNDEFINED, with},
    library::{Mpi, MpiError},
    session::{Held, call},
    table::Handle,
};

/// One rank of a communicator, on the thread that called MPI_Init.
#[derive(Debug)]
pub struct Communicator {
    pub(super) joined: Rc<Held>,
    pub(super) handle: Bits,
    rank: usize,
    ranks: usize,
    /// Whether it was created here and must be freed.
    owned: bool,
}

impl Communicator {
    pub(super) fn of(
        joined: Rc<Held>,
        handle: Bits,
        owned: bool,
    ) -> Result<Communicator, MpiError> {
        let mpi = joined.mpi;
        let (mut rank, mut size) = (0, 0);
        with!(mpi, functions => {
            call!(mpi, functions, rank(handle.get(), &mut rank))?;
            call!(mpi, functions, size(handle.get(), &mut size))?;
        });
        let (rank, ranks) = (rank.unsigned_abs() as usize, size.unsigned_abs() as usize);
        Ok(Communicator { joined, handle, rank, ranks, owned })
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The library.
    pub fn mpi(&self) -> &'static Mpi {
        self.joined.mpi
    }

    /// The ranks that share memory with this one, in rank order. Collective.
    ///
    /// # Errors
    /// MPI refuses the call.
    pub fn of_host(&self) -> Result<Communicator, MpiError> {
        let (mpi, constants) = (self.joined.mpi, &self.joined.mpi.constants);
        let key = self.rank as c_int;
        let new = with!(mpi, functions => {
            let mut new = Handle::of(constants.comm_null.0);
            let (handle, info) = (self.handle.get(), constants.info_null.get());
            call!(mpi, functions, split_type(handle, constants.shared, key, info, &mut new))?;
            Bits(new.bits())
        });
        Communicator::of(Rc::clone(&self.joined), new, true)
    }

    /// The ranks of the same colour, in the order of `key`; `None` for a rank without a colour.
    /// Collective. A colour is at most 2^31 - 1.
    ///
    /// # Errors
    /// MPI refuses the call.
    pub fn split(&self, colour: Option<u32>, key: i32) -> Result<Option<Communicator>, MpiError> {
        let (mpi, constants) = (self.joined.mpi, &self.joined.mpi.constants);
        // A larger colour becomes negative, which MPI refuses.
        let number = colour.map_or(UNDEFINED, |colour| c_int::try_from(colour).unwrap_or(-1));
        let new = with!(mpi, functions => {
            let mut new = Handle::of(constants.comm_null.0);
            call!(mpi, functions, split(self.handle.get(), number, key, &mut new))?;
            Bits(new.bits())
        });
        if colour.is_none() || new == constants.comm_null {
            return Ok(None);
        }
        Communicator::of(Rc::clone(&self.joined), new, true).map(Some)
    }

    /// Frees it. Collective. The world stays.
    ///
    /// # Errors
    /// MPI refuses the call.
    pub fn free(self) -> Result<(), MpiError> {
        if !self.owned {
            return Ok(());
        }
        let mpi = self.joined.mpi;
        with!(mpi, functions => {
            let mut handle = self.handle.get();
            call!(mpi, functions, free(&mut handle))
        })
    }
}
