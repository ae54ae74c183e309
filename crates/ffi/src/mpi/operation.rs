//! The collectives. Each waits for ever when a rank has died; the supervisor then ends the process.
//! The size of every buffer is checked here: MPI itself does not know it.
//! Not which collective a benchmark needs.

use std::ffi::{c_int, c_void};

use busbw_core::ReduceOp;

use super::{
    abi::with,
    buffer::{Buffer, Side},
    communicator::Communicator,
    element::{Blocks, Elements, NotPossible, Operator},
    exchange::{counted, fits, number, side},
    library::MpiError,
    session::call,
};

/// The most elements of one MPI call: a larger reduction runs in pieces.
const MAX_REDUCED_ELEMENTS: usize = 1 << 30;

impl Communicator {
    /// The library's operator.
    ///
    /// # Errors
    /// MPI has no operator for averages and sums of scaled elements.
    pub fn operator(&self, op: ReduceOp) -> Result<Operator, NotPossible> {
        self.joined.mpi.operator(op)
    }

    /// MPI_Barrier.
    ///
    /// # Errors
    /// As of every operation below: a buffer is too small, or MPI refuses the call.
    #[inline]
    pub fn barrier(&self) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        with!(mpi, functions => call!(mpi, functions, barrier(self.handle.get())))
    }

    /// MPI_Bcast: every rank gets the root's buffer.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn broadcast(
        &self,
        buffer: Buffer,
        root: usize,
        elements: Elements,
    ) -> Result<(), MpiError> {
        let address = fits("bcast", buffer, elements.bytes())?;
        let (mpi, datatype) = (self.joined.mpi, elements.datatype);
        counted!(mpi, elements.large, bcast / bcast_c, count(n) => (
            address, n(elements.count), datatype.get(), number(root), self.handle.get(),
        ))
    }

    /// Whether [`Communicator::reduce`] is possible in place with that root. All ranks must ask
    /// before, and get the same answer.
    ///
    /// # Errors
    /// MPICH 4.0 to 4.1.1 would end with a segmentation fault.
    pub fn may_reduce_in_place(&self, root: usize) -> Result<(), NotPossible> {
        let mpi = self.joined.mpi;
        if root == 0 || !mpi.faults.only_rank_0_reduces_in_place {
            return Ok(());
        }
        Err(NotPossible(format!(
            "{} crashes in an MPI_Reduce in place with another root than rank 0 (pmodels/mpich#6540): take a newer one",
            mpi.version()
        )))
    }

    /// MPI_Reduce: the root gets the reduction of all. In place is the root's send side, where
    /// [`Communicator::may_reduce_in_place`]; `recv` counts at the root only.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn reduce(
        &self,
        send: Side,
        recv: Buffer,
        operator: Operator,
        root: usize,
        elements: Elements,
    ) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        if send == Side::InPlace {
            self.may_reduce_in_place(root)
                .map_err(|why| MpiError::of_no_call("MPI_Reduce", why.to_string()))?;
        }
        let needed = if self.rank() == root { elements.bytes() } else { 0 };
        let from = side(mpi, "reduce", send, elements.bytes())?;
        let to = fits("reduce", recv, needed)?;
        if elements.gathered() {
            return self.in_pieces(send, to, elements, |from, to, count| {
                let (datatype, comm) = (elements.base, self.handle);
                with!(mpi, functions => call!(mpi, functions, reduce(
                    from, to, count, datatype.get(), operator.0.get(), number(root), comm.get(),
                )))
            });
        }
        let datatype = elements.datatype;
        counted!(mpi, elements.large, reduce / reduce_c, count(n) => (
            from, to, n(elements.count), datatype.get(), operator.0.get(), number(root),
            self.handle.get(),
        ))
    }

    /// MPI_Allreduce: every rank gets the reduction of all. In place is every rank's send side.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn all_reduce(
        &self,
        send: Side,
        recv: Buffer,
        operator: Operator,
        elements: Elements,
    ) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        let from = side(mpi, "allreduce", send, elements.bytes())?;
        let to = fits("allreduce", recv, elements.bytes())?;
        if elements.gathered() {
            return self.in_pieces(send, to, elements, |from, to, count| {
                let (datatype, comm) = (elements.base, self.handle);
                with!(mpi, functions => call!(mpi, functions, allreduce(
                    from, to, count, datatype.get(), operator.0.get(), comm.get(),
                )))
            });
        }
        let datatype = elements.datatype;
        counted!(mpi, elements.large, allreduce / allreduce_c, count(n) => (
            from, to, n(elements.count), datatype.get(), operator.0.get(), self.handle.get(),
        ))
    }

    /// A reduction that MPI cannot run in one call, piece by piece.
    #[cold]
    fn in_pieces(
        &self,
        send: Side,
        to: *mut c_void,
        elements: Elements,
        reduce: impl Fn(*const c_void, *mut c_void, c_int) -> Result<(), MpiError>,
    ) -> Result<(), MpiError> {
        let (total, bytes) = (elements.base_count, elements.element_bytes());
        // Counts that a caller made small for a test make small pieces.
        let piece = MAX_REDUCED_ELEMENTS.min(elements.most);
        for start in (0..total).step_by(piece.max(1)) {
            let at = start * bytes;
            let from = match send {
                Side::Buffer(buffer) => buffer.address().wrapping_byte_add(at),
                Side::InPlace => self.joined.mpi.constants.in_place as *mut c_void,
            };
            let count = piece.min(total - start) as c_int;
            reduce(from, to.wrapping_byte_add(at), count)?;
        }
        Ok(())
    }

    /// Whether [`Communicator::reduce_scatter`] is possible for shares of `elements`.
    ///
    /// # Errors
    /// A library without large counts cannot count them.
    pub fn may_reduce_scatter(&self, elements: Elements) -> Result<(), NotPossible> {
        if !elements.gathered() {
            return Ok(());
        }
        Err(NotPossible(format!(
            "a share of this size needs MPI 4's large counts, which {} lacks",
            self.joined.mpi.version()
        )))
    }

    /// MPI_Reduce_scatter_block: every rank gets its share of the reduction; `elements` are a share's.
    /// In place is every rank's send side, with the input in `recv`.
    ///
    /// # Errors
    /// [`MpiError`]: among others, what [`Communicator::may_reduce_scatter`] refuses.
    #[inline]
    pub fn reduce_scatter(
        &self,
        send: Side,
        recv: Buffer,
        operator: Operator,
        elements: Elements,
    ) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        let whole = elements.bytes().saturating_mul(self.ranks());
        let received = if send == Side::InPlace { whole } else { elements.bytes() };
        let from = side(mpi, "reduce_scatter", send, whole)?;
        let to = fits("reduce_scatter", recv, received)?;
        self.may_reduce_scatter(elements)
            .map_err(|why| MpiError::of_no_call("MPI_Reduce_scatter_block", why.to_string()))?;
        let datatype = elements.datatype;
        counted!(mpi, elements.large, reduce_scatter / reduce_scatter_c, count(n) => (
            from, to, n(elements.count), datatype.get(), operator.0.get(), self.handle.get(),
        ))
    }

    /// MPI_Allgather: every rank gets the concatenation of all; `elements` are one rank's. In place is
    /// every rank's send side, with its part where it belongs in `recv`.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn all_gather(&self, send: Side, recv: Buffer, elements: Elements) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        let from = side(mpi, "allgather", send, elements.bytes())?;
        let to = fits("allgather", recv, elements.bytes().saturating_mul(self.ranks()))?;
        let (count, datatype) = (elements.count, elements.datatype);
        counted!(mpi, elements.large, allgather / allgather_c, count(n) => (
            from, n(count), datatype.get(), to, n(count), datatype.get(), self.handle.get(),
        ))
    }

    /// MPI_Alltoall: every rank sends a different chunk to every rank; `elements` are one chunk's. In
    /// place is every rank's send side.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn all_to_all(&self, send: Side, recv: Buffer, elements: Elements) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        let whole = elements.bytes().saturating_mul(self.ranks());
        let (from, to) = (side(mpi, "alltoall", send, whole)?, fits("alltoall", recv, whole)?);
        let (count, datatype) = (elements.count, elements.datatype);
        counted!(mpi, elements.large, alltoall / alltoall_c, count(n) => (
            from, n(count), datatype.get(), to, n(count), datatype.get(), self.handle.get(),
        ))
    }

    /// MPI_Alltoallv: the same with blocks of different sizes.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn all_to_all_v(
        &self,
        (send, sent): (Buffer, &Blocks),
        (recv, received): (Buffer, &Blocks),
    ) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        for blocks in [sent, received] {
            if blocks.counts.len() != self.ranks() {
                let why = format!("{} blocks for {} ranks", blocks.counts.len(), self.ranks());
                return Err(MpiError::of_no_call("MPI_Alltoallv", why));
            }
        }
        let from = fits("alltoallv", send, sent.reach)?;
        let to = fits("alltoallv", recv, received.reach)?;
        let (comm, types) = (self.handle, (sent.datatype, received.datatype));
        if let (Some((sent, sent_at)), Some((received, received_at))) =
            (&sent.narrow, &received.narrow)
        {
            return with!(mpi, functions => call!(mpi, functions, alltoallv(
                from, sent.as_ptr(), sent_at.as_ptr(), types.0.get(),
                to, received.as_ptr(), received_at.as_ptr(), types.1.get(), comm.get(),
            )));
        }
        let (counts, at) = (sent.counts.as_ptr(), sent.displacements.as_ptr());
        let (recv_counts, recv_at) = (received.counts.as_ptr(), received.displacements.as_ptr());
        with!(mpi, functions => match functions.alltoallv_c {
            // SAFETY: the table's types are mpi.h's; every list has a number for each rank, and the
            // buffers reach as far as the blocks do.
            Some(function) => mpi.status("alltoallv_c", unsafe {
                function(
                    from, counts, at, types.0.get(), to, recv_counts, recv_at, types.1.get(),
                    comm.get(),
                )
            }),
            None => Err(mpi.missing("alltoallv_c")),
        })
    }

    /// MPI_Gather: the root gets the concatenation of all; `elements` are one rank's. In place is the
    /// root's send side; `recv` counts at the root only.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn gather(
        &self,
        send: Side,
        recv: Buffer,
        root: usize,
        elements: Elements,
    ) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        let chunks = if self.rank() == root { self.ranks() } else { 0 };
        let from = side(mpi, "gather", send, elements.bytes())?;
        let to = fits("gather", recv, elements.bytes().saturating_mul(chunks))?;
        let (count, datatype) = (elements.count, elements.datatype);
        counted!(mpi, elements.large, gather / gather_c, count(n) => (
            from, n(count), datatype.get(), to, n(count), datatype.get(), number(root),
            self.handle.get(),
        ))
    }

    /// MPI_Scatter: every rank gets its chunk of the root's buffer; `elements` are one chunk's. In place
    /// is the root's receive side; `send` counts at the root only.
    ///
    /// # Errors
    /// A buffer is smaller than the operation needs, or MPI refuses the call.
    #[inline]
    pub fn scatter(
        &self,
        send: Buffer,
        recv: Side,
        root: usize,
        elements: Elements,
    ) -> Result<(), MpiError> {
        let mpi = self.joined.mpi;
        let chunks = if self.rank() == root { self.ranks() } else { 0 };
        let from = fits("scatter", send, elements.bytes().saturating_mul(chunks))?;
        let to = side(mpi, "scatter", recv, elements.bytes())?;
        let (count, datatype) = (elements.count, elements.datatype);
        counted!(mpi, elements.large, scatter / scatter_c, count(n) => (
            from, n(count), datatype.get(), to, n(count), datatype.get(), number(root),
            self.handle.get(),
        ))
    }
}
