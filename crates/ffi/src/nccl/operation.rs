//! The operations, enqueued on a stream. The size of every span is checked here: NCCL itself does
//! not know it.
//! Not which operation a benchmark needs.

use std::ffi::{c_int, c_void};

use busbw_core::{DataType, ReduceOp};

use super::{
    call_config::CallConfig,
    communicator::Communicator,
    library::{NcclError, call},
};
use crate::gpu::{Span, Stream};

/// ncclScalarHostImmediate: the scalar is read during the call.
const HOST_IMMEDIATE: c_int = 1;

/// A reduction operator as NCCL numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator(c_int);

impl Operator {
    /// A built-in operator; `None` for `mulsum`, which a communicator creates.
    pub fn builtin(op: ReduceOp) -> Option<Operator> {
        // ncclRedOp_t numbers them in nccl-tests' order.
        (op != ReduceOp::Mulsum).then_some(Operator(op as c_int))
    }
}

/// The arguments that all operations share.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// Element type. ncclDataType_t numbers them in nccl-tests' order.
    pub datatype: DataType,
    /// The operation's count argument, in elements.
    pub count: usize,
    /// The stream.
    pub stream: &'a Stream,
    /// What the call is given beside; only where [`super::Nccl::takes_call_configs`]. Sends and receives ignore it.
    pub config: Option<&'a CallConfig>,
}

/// Calls an operation, or its form that takes a configuration where there is one.
macro_rules! operate {
    ($nccl:expr, $config:expr, $plain:ident, $configured:ident($($argument:expr),* $(,)?)) => {
        match $config {
            None => call!($nccl, $plain($($argument),*)),
            Some(config) => call!($nccl, $configured($($argument),*, config.as_ptr())),
        }
    };
}

impl Operation<'_> {
    fn datatype(&self) -> c_int {
        self.datatype as c_int
    }

    /// A span's address, if it holds `chunks` times the count.
    fn checked(
        &self,
        call: &'static str,
        span: Span,
        chunks: usize,
    ) -> Result<*mut c_void, NcclError> {
        let elements = self.count.saturating_mul(chunks);
        let bytes = elements.saturating_mul(self.datatype.bytes());
        if bytes <= span.bytes() {
            return Ok(span.pointer());
        }
        Err(NcclError::does_not_fit(call, bytes, span))
    }
}

impl Communicator {
    /// An operator that multiplies this rank's elements by `scalar`, a value of `datatype` in its
    /// little-endian bytes, before it adds.
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn premultiplied_sum(
        &self,
        scalar: &mut [u8; 8],
        datatype: DataType,
    ) -> Result<Operator, NcclError> {
        let mut operator = 0;
        let scalar = scalar.as_mut_ptr().cast();
        let datatype = datatype as c_int;
        call!(
            self.nccl,
            premultiplied_sum(&mut operator, scalar, datatype, HOST_IMMEDIATE, self.handle)
        )?;
        Ok(Operator(operator))
    }

    /// Destroys an operator of [`Communicator::premultiplied_sum`].
    pub fn destroy_operator(&self, operator: Operator) {
        // After an abort the communicator has destroyed it.
        if !self.handle.is_null() {
            let _ = call!(self.nccl, operator_destroy(operator.0, self.handle));
        }
    }

    /// Every rank gets the reduction of all.
    ///
    /// # Errors
    /// As of every operation below: a span is smaller than the operation needs, or NCCL refuses the call.
    pub fn all_reduce(
        &self,
        send: Span,
        recv: Span,
        operator: Operator,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let (send, recv) = (o.checked("all_reduce", send, 1)?, o.checked("all_reduce", recv, 1)?);
        let stream = o.stream.handle();
        operate!(
            self.nccl,
            o.config,
            all_reduce,
            all_reduce_config(send, recv, o.count, o.datatype(), operator.0, self.handle, stream)
        )
    }

    /// The root gets the reduction of all.
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn reduce(
        &self,
        send: Span,
        recv: Span,
        operator: Operator,
        root: usize,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let (send, recv) = (o.checked("reduce", send, 1)?, o.checked("reduce", recv, 1)?);
        let (root, stream) = (root as c_int, o.stream.handle());
        operate!(
            self.nccl,
            o.config,
            reduce,
            reduce_config(send, recv, o.count, o.datatype(), operator.0, root, self.handle, stream)
        )
    }

    /// Every rank gets the root's buffer.
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn broadcast(
        &self,
        send: Span,
        recv: Span,
        root: usize,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let (send, recv) = (o.checked("broadcast", send, 1)?, o.checked("broadcast", recv, 1)?);
        let (root, stream) = (root as c_int, o.stream.handle());
        operate!(
            self.nccl,
            o.config,
            broadcast,
            broadcast_config(send, recv, o.count, o.datatype(), root, self.handle, stream)
        )
    }

    /// Every rank gets its share of the reduction; `count` is a share's.
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn reduce_scatter(
        &self,
        send: Span,
        recv: Span,
        operator: Operator,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let send = o.checked("reduce_scatter", send, self.ranks())?;
        let recv = o.checked("reduce_scatter", recv, 1)?;
        let stream = o.stream.handle();
        operate!(
            self.nccl,
            o.config,
            reduce_scatter,
            reduce_scatter_config(
                send,
                recv,
                o.count,
                o.datatype(),
                operator.0,
                self.handle,
                stream
            )
        )
    }

    /// Every rank gets the concatenation of all; `count` is one rank's.
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn all_gather(
        &self,
        send: Span,
        recv: Span,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let send = o.checked("all_gather", send, 1)?;
        let recv = o.checked("all_gather", recv, self.ranks())?;
        let stream = o.stream.handle();
        operate!(
            self.nccl,
            o.config,
            all_gather,
            all_gather_config(send, recv, o.count, o.datatype(), self.handle, stream)
        )
    }

    /// Every rank sends a different chunk to every rank; `count` is one chunk's. Only where
    /// [`Communicator::has_own_exchanges`].
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn all_to_all(
        &self,
        send: Span,
        recv: Span,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let send = o.checked("all_to_all", send, self.ranks())?;
        let recv = o.checked("all_to_all", recv, self.ranks())?;
        let stream = o.stream.handle();
        operate!(
            self.nccl,
            o.config,
            all_to_all,
            all_to_all_config(send, recv, o.count, o.datatype(), self.handle, stream)
        )
    }

    /// The root gets the concatenation of all; only where [`Communicator::has_own_exchanges`].
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn gather(
        &self,
        send: Span,
        recv: Span,
        root: usize,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let chunks = if self.rank() == root { self.ranks() } else { 0 };
        let (send, recv) = (o.checked("gather", send, 1)?, o.checked("gather", recv, chunks)?);
        let (root, stream) = (root as c_int, o.stream.handle());
        operate!(
            self.nccl,
            o.config,
            gather,
            gather_config(send, recv, o.count, o.datatype(), root, self.handle, stream)
        )
    }

    /// Every rank gets its chunk of the root's buffer; only where
    /// [`Communicator::has_own_exchanges`].
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn scatter(
        &self,
        send: Span,
        recv: Span,
        root: usize,
        operation: Operation<'_>,
    ) -> Result<(), NcclError> {
        let o = operation;
        let chunks = if self.rank() == root { self.ranks() } else { 0 };
        let (send, recv) = (o.checked("scatter", send, chunks)?, o.checked("scatter", recv, 1)?);
        let (root, stream) = (root as c_int, o.stream.handle());
        operate!(
            self.nccl,
            o.config,
            scatter,
            scatter_config(send, recv, o.count, o.datatype(), root, self.handle, stream)
        )
    }

    /// Whether the library has alltoall, gather and scatter of its own (2.28 and later).
    pub fn has_own_exchanges(&self) -> bool {
        let table = &self.nccl.table;
        table.all_to_all.is_some() && table.gather.is_some() && table.scatter.is_some()
    }

    /// Sends to a rank, which must receive the same number of elements.
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn send(&self, from: Span, to: usize, operation: Operation<'_>) -> Result<(), NcclError> {
        let o = operation;
        let from = o.checked("send", from, 1)?;
        let stream = o.stream.handle();
        call!(self.nccl, send(from, o.count, o.datatype(), to as c_int, self.handle, stream))
    }

    /// Receives from a rank.
    ///
    /// # Errors
    /// A span is smaller than the operation needs, or NCCL refuses the call.
    pub fn recv(&self, to: Span, from: usize, operation: Operation<'_>) -> Result<(), NcclError> {
        let o = operation;
        let to = o.checked("recv", to, 1)?;
        let stream = o.stream.handle();
        call!(self.nccl, recv(to, o.count, o.datatype(), from as c_int, self.handle, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nccl.h: ncclInt8 0 … ncclFloat8e5m2 11; ncclSum 0, ncclProd 1, ncclMax 2, ncclMin 3, ncclAvg 4.
    #[test]
    fn the_numbers_are_nccls() {
        let types: Vec<c_int> = DataType::ALL.iter().map(|t| *t as c_int).collect();
        assert_eq!(types, (0..12).collect::<Vec<c_int>>());
        assert_eq!((DataType::Half as c_int, DataType::Bfloat16 as c_int), (6, 9));
        let number = |op| Operator::builtin(op).map(|operator| operator.0);
        assert_eq!(ReduceOp::ALL.map(number), [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
    }
}
