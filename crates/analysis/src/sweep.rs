//! The result of a sweep over environments or transports, as data: what was tried, every cell, what is best.
//! Not the launches (`busbw-cli`) and not the tables.

mod best;
/// A made-up result.
pub mod example;
mod outcome;
mod transport;

pub use best::{Best, at, overall, sentence, size};
pub use outcome::{
    Cell, Failed, Outcome, RESULT_FILE, SCHEMA, Show, SizeRow, Tried, compare_with, read,
};
pub use transport::{
    Conclusion, EvidenceSource, HOST_TRANSPORT, Moved, Percent, Scope, Support, Transport,
};
