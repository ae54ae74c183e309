//! Limits, machine files and topologies, on files as they really come: one binary, linked once.
//! Not the single rules: those are tested beside the code.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod fabric_file;
mod forecast;
mod limits;
mod limits_of_fabrics;
mod machine_file;
mod plan_curves;
mod plan_points;
mod topology;
