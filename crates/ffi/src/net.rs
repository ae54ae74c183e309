//! Net plugins of NCCL's and RCCL's kind, `ncclNetPlugin_v8` to `v12`: any of them, behind one interface.
//! Not what is sent over them, and not busbw's own plugin (`plugin`).
//!
//! Functions that a plugin leaves out are said, not called. Memory that a request uses stays where it is, and
//! nobody here looks at it, until the request is done or its connection is closed.

mod calls;
mod connection;
mod error;
mod library;
mod listener;
mod logger;
mod memory;
mod properties;

pub use connection::{Receiver, Sender, Ticket};
pub use error::NetError;
pub use library::{Handle, Plugin, VERSIONS};
pub use listener::Listener;
pub use logger::{Line, pass_on, take_lines};
pub use memory::{Busy, Guard, Memory};
pub use properties::Properties;
