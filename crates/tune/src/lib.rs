//! What to set: a search over settings under noise, the space that it may search, and an outcome that holds.
//! Not a driver: no clock, no files, no threads; who runs launches asks for trials here and reports what they gave.

#![forbid(unsafe_code)]

pub mod catalogue;
mod failures;
mod model;
mod objective;
mod outcome;
mod random;
mod search;
mod space;
mod trial;

pub use failures::{Disqualified, Suspected};
pub use objective::{Goal, Objective};
pub use outcome::{Advice, AtSize, Choice, Compared, MAX_P, MIN_GAIN, OwnGain, Report};
pub use random::Random;
pub use search::{Best, Budget, End, Search, SearchError, Settings};
pub use space::{Assignment, Need, Point, Scope, Space, SpaceError, Variable};
pub use trial::{Failure, Finished, Outcome, Purpose, ReportError, SizeTimes, Trial};
