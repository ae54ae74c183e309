//! What the tests of the search share: landscapes with a known optimum, and the search over one.
//! Not a model of NCCL.

#![allow(dead_code)]

pub mod landscape;
pub mod opponents;
pub mod run;
