//! Reads the tree of this machine, and prints trees as pictures, tables, findings and JSON.
//! Not the tree itself, and not the findings (`model::topology`).

mod host;
mod picture;
mod report;
mod tables;

#[cfg(test)]
mod tests;

pub use host::read;
pub use report::Report;
