//! What a network must do, independent of the version of NCCL's table.
//! Not the tables (`exported`), and no network.

use std::ops::Range;

use nccl_plugin_abi::{Status, net::HANDLE_BYTES};

pub use crate::failure::{Failure, Result};

/// What a listener passes to the end that connects, through NCCL's bootstrap: plain data.
pub type Handle = [u8; HANDLE_BYTES];

/// A network. Nothing here blocks, and any thread may call.
pub trait Network: Send + Sync {
    /// How many devices NCCL is told of, with those that were made of several; none where NCCL must not use this network.
    fn count(&self) -> usize;

    /// A device by its number.
    fn device(&self, at: usize) -> Option<&crate::devices::Device>;

    /// A communicator begins to use the network, in versions that tell when it has ended.
    fn begin(&self) {}

    /// A communicator has ended.
    fn end(&self) {}

    /// Makes one device of several, whose connections use all of them. Returns its number.
    ///
    /// # Errors
    /// They do not go together, or are too many.
    fn merge(&self, _parts: &[usize]) -> Result<usize> {
        let text =
            "devices of this network cannot be merged: it has one for all interfaces already";
        Err(Failure::new(Status::INVALID_USAGE, text))
    }

    /// Listens for one connection, and fills its handle.
    ///
    /// # Errors
    /// When the system does not let us.
    fn listen(&self, device: usize, handle: &mut Handle) -> Result<Box<dyn Listener>>;

    /// Connects to the listener of a handle, which the caller keeps between calls. `None`: not connected yet, call again.
    ///
    /// # Errors
    /// When the listener is unreachable, or another network wrote the handle.
    fn connect(&self, device: usize, handle: &mut Handle) -> Result<Option<Box<dyn Sender>>>;
}

/// Listens for one connection. Dropping it ends listening.
pub trait Listener: Send {
    /// The connection, once it is there.
    ///
    /// # Errors
    /// When it can no longer come.
    fn accept(&mut self) -> Result<Option<Box<dyn Receiver>>>;
}

/// Number of a request of a connection, below [`REQUESTS`].
pub type Request = usize;
/// Requests of a connection at most: twice as many as NCCL has open.
pub const REQUESTS: usize = 2 * nccl_plugin_abi::net::MAX_REQUESTS;

/// Memory that NCCL registers with a connection before requests use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Its addresses.
    pub addresses: Range<usize>,
    /// Whether it is a GPU's.
    pub is_device: bool,
    /// The dma-buf that it is, and where in it it begins, where NCCL has one.
    pub dma_buf: Option<(i32, u64)>,
}

impl Memory {
    /// Of a network that reads and writes with this process's own hands.
    pub(crate) fn must_be_of_host(&self) -> Result<()> {
        match self.is_device {
            true => Err(Failure::new(
                Status::INVALID_ARGUMENT,
                "memory of a GPU cannot be registered: only host memory is taken",
            )),
            false => Ok(()),
        }
    }
}

/// The sending end of a connection. Dropping it closes it, also with requests open. One thread at a time calls it.
pub trait Sender: Send {
    /// Begins to send. `None`: no request is free, call again.
    ///
    /// # Safety
    /// The memory stays readable until the request is done, or the connection has ended.
    ///
    /// # Errors
    /// When the connection is broken.
    unsafe fn send(&mut self, data: *const u8, bytes: usize) -> Result<Option<Request>>;

    /// Bytes of a request that is done; its number is free then.
    ///
    /// # Errors
    /// When the connection is broken.
    fn test(&mut self, request: Request) -> Result<Option<usize>>;

    /// Registers memory that requests will use; [`release`](Self::release) ends that.
    ///
    /// # Errors
    /// When the device cannot reach it.
    fn register(&self, memory: &Memory) -> Result<()> {
        memory.must_be_of_host()
    }

    /// Releases memory that may be freed as soon as this returns: the connection ends if a request reads there.
    fn release(&self, memory: &Range<usize>);
}

/// The receiving end of a connection: messages come in the order of their requests. As [`Sender`] otherwise.
pub trait Receiver: Send {
    /// Begins to receive at most `bytes`. `None`: no request is free, call again.
    ///
    /// # Safety
    /// The memory stays ours until the request is done, or the connection has ended.
    ///
    /// # Errors
    /// When the connection is broken.
    unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>>;

    /// Makes what was received visible to a GPU into whose memory it was. `None`: no request is free, call again.
    ///
    /// # Errors
    /// When the connection is broken, or only host memory is taken.
    fn flush(&mut self, _data: *mut u8, _bytes: usize) -> Result<Option<Request>> {
        let text = "only host memory is taken: there is nothing to flush";
        Err(Failure::new(Status::INTERNAL, text))
    }

    /// Bytes received for a request that is done; its number is free then.
    ///
    /// # Errors
    /// When the connection is broken, or the message is longer than its buffer.
    fn test(&mut self, request: Request) -> Result<Option<usize>>;

    /// Registers memory that requests will use; [`release`](Self::release) ends that.
    ///
    /// # Errors
    /// When the device cannot reach it.
    fn register(&self, memory: &Memory) -> Result<()> {
        memory.must_be_of_host()
    }

    /// Releases memory that may be freed as soon as this returns: the connection ends if a request writes there.
    fn release(&self, memory: &Range<usize>);
}
