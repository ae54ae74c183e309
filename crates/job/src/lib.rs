//! The processes of one job: how they meet, exchange a few bytes, and learn of a loss.
//! Not the data path, and not what ranks measure.

/// Who takes part, and how they find each other.
pub mod world;
