//! What the protocol is built from: atomics, cells, the clock and ways to rest. The real ones, or
//! under `cfg(loom)` the model checker's, which then runs the very code that ranks run.
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
