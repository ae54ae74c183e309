//! What the trials so far say about every environment: a table for each variable and for each pair of them,
//! learned from noisy times. Not a decision (`search`): it says how fast, and how sure that is.
//!
//! The logarithm of a time is a sum: a constant, an effect of each variable's value, an effect of each pair of
//! values, a deviation of the environment itself, drift of the machine, and noise. Each part has a Gaussian prior,
//! so together they are an additive Gaussian process (Duvenaud, Nickisch and Rasmussen, "Additive Gaussian
//! Processes", NIPS 2011; Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1).
//! How large each part is follows from the trials ([`fit`]). Since values are few, each part is a table ([`tables`]).

pub(crate) mod fit;
mod kernels;
pub(crate) mod matrix;
pub(crate) mod minimise;
pub(crate) mod tables;

pub(crate) use fit::{Fitted, Observation, Weights};
pub(crate) use kernels::Kernels;
pub(crate) use minimise::Forbidden;
pub(crate) use tables::Tables;
