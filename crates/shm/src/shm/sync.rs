//! The primitives of the protocol: atomics, cells, the clock and ways to sleep. They are the real
//! ones, or under `cfg(loom)` the model checker's, which then runs the same code as ranks do.
//! Not the protocol.

#[cfg(all(test, loom))]
pub mod explore;
#[cfg(loom)]
mod modelled;
#[cfg(not(loom))]
mod real;

#[cfg(loom)]
pub use modelled::*;
#[cfg(not(loom))]
pub use real::*;
