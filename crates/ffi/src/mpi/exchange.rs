//! Blocking messages between two ranks. A blocking call waits for ever when its peer has died.
//! Timed loops accept that, because the supervisor ends the process; all other code uses
//! [`Requests`](super::Requests) with a deadline.
//! Not messages in flight (`requests`).

use std::ffi::{c_int, c_void};

use super::{
    buffer::{Buffer, Side},
    communicator::Communicator,
    element::Elements,
    library::{Mpi, MpiError},
    table::name_of,
};

/// Calls a function that takes `int` counts, or its variant for large counts; `$n` converts a count
/// to either type.
macro_rules! counted {
    (
        $mpi:expr, $large:expr, $function:ident / $large_function:ident,
        count($n:ident) => ($($argument:expr),* $(,)?)
    ) => {
        $crate::mpi::abi::with!($mpi, functions => if $large {
            let $n = <i64 as $crate::mpi::table::Count>::of;
            match functions.$large_function {
                Some(function) => {
                    // SAFETY: the table's types are mpi.h's; handles are live, as their owners live, and
                    // buffers hold what is counted: that was checked, and their maker vouches for the rest.
                    $mpi.status(stringify!($large_function), unsafe { function($($argument),*) })
                }
                None => Err($mpi.missing(stringify!($large_function))),
            }
        } else {
            let $n = <::std::ffi::c_int as $crate::mpi::table::Count>::of;
            // SAFETY: as above.
            $mpi.status(stringify!($function), unsafe { (functions.$function)($($argument),*) })
        })
    };
}
pub(super) use counted;

/// The source of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// This rank's.
    Rank(usize),
    /// Any rank (MPI_ANY_SOURCE).
    Any,
}

impl Source {
    #[inline]
    pub(super) fn number(self, mpi: &Mpi) -> c_int {
        match self {
            Source::Rank(rank) => number(rank),
            Source::Any => mpi.constants.any_source,
        }
    }
}

/// A rank as MPI takes it; a number beyond `int` is no rank of any communicator.
#[inline]
pub(super) fn number(rank: usize) -> c_int {
    c_int::try_from(rank).unwrap_or(c_int::MAX)
}

/// The buffer's address, if it has at least this number of bytes.
#[inline]
pub(super) fn fits(
    entry: &'static str,
    buffer: Buffer,
    bytes: usize,
) -> Result<*mut c_void, MpiError> {
    if bytes <= buffer.bytes() {
        return Ok(buffer.address());
    }
    let why = format!("{bytes} bytes do not fit a buffer of {}", buffer.bytes());
    Err(MpiError::of_no_call(name_of(entry), why))
}

/// The side's address, if it has at least this number of bytes, or MPI_IN_PLACE.
#[inline]
pub(super) fn side(
    mpi: &Mpi,
    entry: &'static str,
    side: Side,
    bytes: usize,
) -> Result<*mut c_void, MpiError> {
    match side {
        Side::Buffer(buffer) => fits(entry, buffer, bytes),
        Side::InPlace => Ok(mpi.constants.in_place as *mut c_void),
    }
}

impl Communicator {
    /// MPI_Send.
    ///
    /// # Errors
    /// The buffer is smaller than the message, or MPI refuses the call.
    #[inline]
    pub fn send(
        &self,
        buffer: Buffer,
        elements: Elements,
        to: usize,
        tag: i32,
    ) -> Result<(), MpiError> {
        let address = fits("send", buffer, elements.bytes())?;
        let (mpi, datatype) = (self.joined.mpi, elements.datatype);
        counted!(mpi, elements.large, send / send_c, count(n) => (
            address, n(elements.count), datatype.get(), number(to), tag, self.handle.get(),
        ))
    }

    /// MPI_Recv. A longer message is an error; a shorter one is not noticed.
    ///
    /// # Errors
    /// The buffer is smaller than the message, or MPI refuses the call.
    #[inline]
    pub fn recv(
        &self,
        buffer: Buffer,
        elements: Elements,
        from: Source,
        tag: i32,
    ) -> Result<(), MpiError> {
        let address = fits("recv", buffer, elements.bytes())?;
        let (mpi, datatype) = (self.joined.mpi, elements.datatype);
        let (from, ignore) = (from.number(mpi), mpi.constants.status_ignore as *mut c_void);
        counted!(mpi, elements.large, recv / recv_c, count(n) => (
            address, n(elements.count), datatype.get(), from, tag, self.handle.get(), ignore,
        ))
    }

    /// MPI_Sendrecv of the same number of elements in each direction, with one tag.
    ///
    /// # Errors
    /// The buffer is smaller than the message, or MPI refuses the call.
    #[inline]
    pub fn send_recv(
        &self,
        (send, to): (Buffer, usize),
        (recv, from): (Buffer, Source),
        elements: Elements,
        tag: i32,
    ) -> Result<(), MpiError> {
        let send = fits("sendrecv", send, elements.bytes())?;
        let recv = fits("sendrecv", recv, elements.bytes())?;
        let (mpi, datatype, count) = (self.joined.mpi, elements.datatype, elements.count);
        let (from, ignore) = (from.number(mpi), mpi.constants.status_ignore as *mut c_void);
        counted!(mpi, elements.large, sendrecv / sendrecv_c, count(n) => (
            send, n(count), datatype.get(), number(to), tag,
            recv, n(count), datatype.get(), from, tag,
            self.handle.get(), ignore,
        ))
    }
}
