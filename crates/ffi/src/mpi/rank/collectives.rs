//! Collectives between parts of the ranks' buffers, and their counts.
//! Not messages between two ranks (`rank`).

use busbw_core::{DataType, ReduceOp};

use super::{
    super::{
        buffer::Side,
        element::{Blocks, Element, Elements, NotPossible, Operator},
    },
    Input, Part, Rank, RankError,
};

impl Rank {
    /// `count` elements to move.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    pub fn moved(&self, datatype: DataType, count: usize) -> Result<Elements, RankError> {
        let (element, count) = Element::moved(datatype, count);
        Ok(self.world.elements(element, count)?)
    }

    /// `count` elements to reduce, and the operator.
    ///
    /// # Errors
    /// [`RankError::NotPossible`] among others.
    pub fn reduced(
        &self,
        datatype: DataType,
        op: ReduceOp,
        count: usize,
    ) -> Result<(Elements, Operator), RankError> {
        let operator = self.world.operator(op)?;
        Ok((self.world.elements(Element::reduced(datatype)?, count)?, operator))
    }

    /// Blocks of an all-to-all, as counts and displacements of elements.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    pub fn blocks(
        &self,
        datatype: DataType,
        counts: &[usize],
        displacements: &[usize],
    ) -> Result<Blocks, RankError> {
        let (element, unit) = Element::moved(datatype, 1);
        let scaled = |values: &[usize]| values.iter().map(|value| value * unit).collect::<Vec<_>>();
        Ok(self.world.blocks(element, &scaled(counts), &scaled(displacements))?)
    }

    #[inline]
    fn side(&self, part: Input) -> Result<Side, RankError> {
        part.map_or(Ok(Side::InPlace), |part| Ok(Side::Buffer(self.buffer(part)?)))
    }

    /// MPI_Barrier.
    ///
    /// # Errors
    /// As of all below: a part lies outside its buffer, a message is in flight, or MPI refuses the call.
    pub fn barrier(&mut self) -> Result<(), RankError> {
        Ok(self.world.barrier()?)
    }

    /// MPI_Allreduce.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn all_reduce(
        &mut self,
        send: Input,
        recv: Part,
        (elements, operator): (Elements, Operator),
    ) -> Result<(), RankError> {
        let (send, recv) = (self.side(send)?, self.buffer(recv)?);
        Ok(self.world.all_reduce(send, recv, operator, elements)?)
    }

    /// MPI_Reduce.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn reduce(
        &mut self,
        send: Input,
        recv: Part,
        (elements, operator): (Elements, Operator),
        root: usize,
    ) -> Result<(), RankError> {
        let (send, recv) = (self.side(send)?, self.buffer(recv)?);
        Ok(self.world.reduce(send, recv, operator, root, elements)?)
    }

    /// Whether MPI_Reduce is possible in place with this root.
    ///
    /// # Errors
    /// [`NotPossible`]: the library would crash.
    pub fn may_reduce_in_place(&self, root: usize) -> Result<(), NotPossible> {
        self.world.may_reduce_in_place(root)
    }

    /// Whether MPI_Reduce_scatter_block is possible for shares of this size.
    ///
    /// # Errors
    /// [`NotPossible`]: the library cannot count them.
    pub fn may_reduce_scatter(&self, elements: Elements) -> Result<(), NotPossible> {
        self.world.may_reduce_scatter(elements)
    }

    /// Whether MPI_Reduce_scatter_block is possible in place.
    ///
    /// # Errors
    /// [`NotPossible`]: with buffers in a GPU's memory the library would crash, or its results be wrong.
    pub fn may_reduce_scatter_in_place(&self) -> Result<(), NotPossible> {
        let mpi = self.mpi();
        if !mpi.faults.misreads_gpus_in_place || !self.recv.is_on_gpu() {
            return Ok(());
        }
        Err(NotPossible(format!(
            "{} crashes, or has wrong results, in an MPI_Reduce_scatter_block in place in a GPU's memory \
             (open-mpi/ompi#13883): take 5.0.11 or newer",
            mpi.version()
        )))
    }

    /// MPI_Reduce_scatter_block.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn reduce_scatter(
        &mut self,
        send: Input,
        recv: Part,
        (elements, operator): (Elements, Operator),
    ) -> Result<(), RankError> {
        let (send, recv) = (self.side(send)?, self.buffer(recv)?);
        Ok(self.world.reduce_scatter(send, recv, operator, elements)?)
    }

    /// MPI_Allgather.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn all_gather(
        &mut self,
        send: Input,
        recv: Part,
        elements: Elements,
    ) -> Result<(), RankError> {
        let (send, recv) = (self.side(send)?, self.buffer(recv)?);
        Ok(self.world.all_gather(send, recv, elements)?)
    }

    /// MPI_Alltoall.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn all_to_all(
        &mut self,
        send: Input,
        recv: Part,
        elements: Elements,
    ) -> Result<(), RankError> {
        let (send, recv) = (self.side(send)?, self.buffer(recv)?);
        Ok(self.world.all_to_all(send, recv, elements)?)
    }

    /// MPI_Alltoallv.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn all_to_all_v(
        &mut self,
        (send, sent): (Part, &Blocks),
        (recv, received): (Part, &Blocks),
    ) -> Result<(), RankError> {
        let (send, recv) = (self.buffer(send)?, self.buffer(recv)?);
        Ok(self.world.all_to_all_v((send, sent), (recv, received))?)
    }

    /// MPI_Bcast.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn broadcast(
        &mut self,
        part: Part,
        root: usize,
        elements: Elements,
    ) -> Result<(), RankError> {
        let buffer = self.buffer(part)?;
        Ok(self.world.broadcast(buffer, root, elements)?)
    }

    /// MPI_Gather.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn gather(
        &mut self,
        send: Input,
        recv: Part,
        root: usize,
        elements: Elements,
    ) -> Result<(), RankError> {
        let (send, recv) = (self.side(send)?, self.buffer(recv)?);
        Ok(self.world.gather(send, recv, root, elements)?)
    }

    /// MPI_Scatter; in place is the root's receive side.
    ///
    /// # Errors
    /// A part lies outside its buffer, a message is still in flight, or MPI refuses the call.
    #[inline]
    pub fn scatter(
        &mut self,
        send: Part,
        recv: Input,
        root: usize,
        elements: Elements,
    ) -> Result<(), RankError> {
        let (send, recv) = (self.buffer(send)?, self.side(recv)?);
        Ok(self.world.scatter(send, recv, root, elements)?)
    }
}
