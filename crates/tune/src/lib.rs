//! What to set: a search over settings under noise, the space that it may search, and an outcome that holds.
//! Not a driver: no clock, no files, no threads; who runs launches asks for trials here and reports what they gave.

#![forbid(unsafe_code)]

mod call;
pub mod catalogue;
mod compared;
mod failures;
mod model;
mod objective;
mod outcome;
mod search;
mod space;
mod trial;
/// A tuning as data.
pub mod tuned;

pub use call::Call;
pub use compared::{Compared, MIN_GAIN};
pub use failures::{Disqualified, Suspected};
pub use objective::{Goal, Objective};
pub use outcome::{Advice, AtCall, Choice, Found, OwnGain, Report};
pub use search::{Best, Budget, Climbed, End, Rung, Search, SearchError, Settings, Step, Strategy};
pub use space::{Assignment, Need, Point, Scope, Space, SpaceError, Variable};
pub use trial::{CallTimes, Failed, Failure, Finished, Outcome, Purpose, ReportError, Trial};
