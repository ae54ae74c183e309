//! What to expect of collectives on a fabric: time and bandwidth by size, with a range and what limits.
//! Not a limit (`limits`): a forecast may be exceeded; and not a measurement.
//!
//! Bytes: the flows that an algorithm makes of a placement share the fabric's links max-min fair (`flows`). A pipeline, such as a
//! ring or a tree, is one flow over all its edges, since its edges move at one pace. Latency and choice: NCCL's own model
//! (`tuning`). Sources, assumptions and what is left out: docs/fabric.md.

pub mod alltoall;
pub mod answer;
pub mod groups;
pub mod hypercube;
pub mod job;
pub mod loads;
pub mod pipelines;
pub mod question;
pub mod rooted;
pub mod steps;
pub mod tolerance;
pub mod wave;

pub use answer::{Answer, OfDimension, Prediction};
pub use groups::{Group, Member, Placement};
pub use job::{Dimension, Job};
pub use question::{Question, Unanswerable};
pub use tolerance::{Target, Tolerance};
pub use wave::{Wave, Way};

#[cfg(test)]
mod closed_forms;
#[cfg(test)]
mod symmetry;
