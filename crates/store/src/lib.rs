//! Where records live: written line by line while a run goes on, read back by every command.
//! Not their schema (`busbw_core::record`) and not their printed form (`render`).
#![forbid(unsafe_code)]

/// Measured algorithm tables.
pub mod algorithms;
mod environment;
/// One line of a record as text.
pub mod line;
/// Local time as nccl-tests prints it.
pub mod local_time;
mod paths;
mod reader;
mod writer;

pub use environment::{environment, masked, shown};
pub use paths::{
    find, find_result, last, launches_of, new_path, new_result_path, results, sweep_of,
};
pub use reader::{ReadError, parse, read};
pub use writer::{Writer, write_private};
