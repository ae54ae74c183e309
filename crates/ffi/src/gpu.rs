//! GPUs through CUDA's driver, or through HIP on AMD: contexts, memory, streams, events, graphs,
//! modules.
//! Not NCCL, and not what runs on the GPU.

mod context;
mod event;
mod graph;
mod memory;
mod module;
mod registered;
mod runtime;
mod stream;
mod table;

pub use context::{Context, Facts};
pub use event::Event;
pub use graph::{Captured, Graph};
pub use memory::{Memory, Span};
pub use module::{Argument, Function, Module};
pub use registered::{Export, ExportError, Registered};
pub use runtime::{GpuError, Runtime, Vendor};
pub use stream::Stream;
