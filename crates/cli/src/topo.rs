//! The tree of this machine or of a file, drawn, tabled and judged for people and programs.
//! Not the tree itself and not the judging, which are `busbw_hardware::topology`'s.

pub mod fabric;
mod output;
mod picture;
mod tables;

#[cfg(test)]
mod tests;

pub use output::Report;
