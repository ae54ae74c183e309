//! NCCL's and RCCL's net plugins, `ncclNetPlugin_v8` to `v12`, behind one interface.
//! Not what is sent over them, and not busbw's own plugin (`nccl-plugin-busbw`).
//!
//! A function that a plugin lacks is an error, and is not called. Memory that a request uses stays
//! allocated and is not read here until the request is complete or its connection is closed.

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
