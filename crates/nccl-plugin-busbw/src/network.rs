//! What a network is, whichever version of NCCL's tables asks for it.
//! Not the tables (`exported`), and no network.

use std::ops::Range;

use nccl_plugin_abi::{Status, net::HANDLE_BYTES};

/// What goes from a listener to whoever connects to it, by way of NCCL's bootstrap: plain data.
pub type Handle = [u8; HANDLE_BYTES];

/// Why something failed, and what NCCL is told.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The code.
    pub status: Status,
    /// What was attempted, on what, why it failed: a line for NCCL's log.
    pub text: String,
}

impl Failure {
    /// A failure with NCCL's code for it.
    pub fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    /// A variable of the environment that says what it cannot.
    pub fn variable(name: &str, value: &str, expected: &str) -> Failure {
        Failure::new(Status::INVALID_USAGE, format!("{name}={value} is not {expected}"))
    }

    /// A call to the system that failed: `attempted` reads like "cannot listen on 10.0.0.1".
    pub fn system(attempted: &str, error: &(impl std::error::Error + ?Sized)) -> Failure {
        Failure::new(Status::SYSTEM, format!("{attempted}: {error}"))
    }
}

/// What came out of asking a network.
pub type Result<T> = std::result::Result<T, Failure>;

/// A network. Nothing here blocks, and any thread may call.
pub trait Network: Send + Sync {
    /// What NCCL is told of its devices; none where it must not be used.
    fn devices(&self) -> &[crate::devices::Device];

    /// Listens for one connection, and fills its handle.
    ///
    /// # Errors
    /// When the system does not let us.
    fn listen(&self, device: usize, handle: &mut Handle) -> Result<Box<dyn Listener>>;

    /// Connects to the listener of a handle, which is kept between calls: nothing yet means: ask again.
    ///
    /// # Errors
    /// When there is no way to it, or the handle is none of ours.
    fn connect(&self, device: usize, handle: &mut Handle) -> Result<Option<Box<dyn Sender>>>;
}

/// Somebody who listens for one connection. Ends as it is dropped.
pub trait Listener: Send {
    /// The connection, if it is there.
    ///
    /// # Errors
    /// When it can never be.
    fn accept(&mut self) -> Result<Option<Box<dyn Receiver>>>;
}

/// Number of a request of a connection, below [`REQUESTS`].
pub type Request = usize;
/// Requests of a connection at most: what NCCL has open, twice.
pub const REQUESTS: usize = 2 * nccl_plugin_abi::net::MAX_REQUESTS;

/// The end of a connection that sends. Ends as it is dropped, also with requests open. Only one thread at a
/// time calls it.
pub trait Sender: Send {
    /// Begins to send; nothing means: not now.
    ///
    /// # Safety
    /// The memory stays readable until the request is done, or the connection has ended.
    ///
    /// # Errors
    /// When the connection is broken.
    unsafe fn send(&mut self, data: *const u8, bytes: usize) -> Result<Option<Request>>;

    /// Bytes of a request that is done, after which the number may come again.
    ///
    /// # Errors
    /// When the connection is broken.
    fn test(&mut self, request: Request) -> Result<Option<usize>>;

    /// Memory at these addresses may be gone as soon as this returns: the connection ends if a request reads there.
    fn release(&self, memory: &Range<usize>);
}

/// The end of a connection that receives, messages in the order of their requests. As [`Sender`] otherwise.
pub trait Receiver: Send {
    /// Begins to receive at most `bytes`; nothing means: not now.
    ///
    /// # Safety
    /// The memory stays ours until the request is done, or the connection has ended.
    ///
    /// # Errors
    /// When the connection is broken.
    unsafe fn receive(&mut self, data: *mut u8, bytes: usize) -> Result<Option<Request>>;

    /// Bytes that came for a request that is done, after which the number may come again.
    ///
    /// # Errors
    /// When the connection is broken, or the message was longer than its place.
    fn test(&mut self, request: Request) -> Result<Option<usize>>;

    /// Memory at these addresses may be gone as soon as this returns: the connection ends if a request writes there.
    fn release(&self, memory: &Range<usize>);
}
