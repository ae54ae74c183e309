//! Lower bounds on a collective's time from the bytes that cross each part of a machine: algbw,
//! busbw, and which part sets them. Derivations and sources: docs/limits.md.
//! Not a prediction (`tuning`), and nothing of latency: bytes only.
//!
//! Three figures are kept apart: *line* is the physical rate, *payload* is line less framing, and
//! what NCCL *expects* is its own constants, which true results may exceed. Percent and bottleneck are
//! taken from payload, or line where there is none.

pub mod algorithm;
pub mod bound;
pub mod candidates;
pub mod framing;
pub mod judgement;
pub mod placement;
pub mod resource;

mod growth;
mod loads;
mod traffic;
mod trees;

pub use algorithm::Algorithm;
pub use bound::{
    Bound, Expectation, Limit, Load, counted, limit, limit_of_traffic, one_way, to_busbw,
};
pub use candidates::{Candidate, Possible, candidates, conditional, explaining};
pub use growth::{Crossed, crossed};
pub use judgement::{Bottleneck, Judgement, Rating, judge};
pub use placement::{Inside, Memory, RankPlacement};
pub use resource::{Capacity, Resource, nccl_link};

#[cfg(test)]
mod properties;
