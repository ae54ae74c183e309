//! Compares sets of runs: the same points of two sides, or of one machine with several numbers of hosts.
//! Not where runs come from, and not how a comparison is printed.

mod matched;
mod point;
mod repeated;
mod scaling;
mod side;
mod variant;

pub use matched::{Basis, Matched, Matching, compare_sides};
pub use point::Point;
pub use repeated::{Repeated, Sameness, distinct};
pub use scaling::{Scaled, Step, Width, scale};
pub use side::{Side, Times};

#[cfg(test)]
mod tests;
