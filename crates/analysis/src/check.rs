//! Whether a set of hosts is fit for a job: lines of a check, each with a verdict, and the decision that follows from them.
//! Not starting anything: who reads hosts and launches benchmarks implements `Stages`.
//!
//! Two rules hold for every line. A fault blocks a job only if two readings or two launches show it. A failure of the
//! check itself is no fault of a host: the line is then "cannot tell".

mod baseline;
mod collective;
mod conduct;
mod gate;
mod junit;
mod limit;
mod openmetrics;
mod pairs;
mod report;
mod settings;
mod table;
mod transports;

#[cfg(test)]
mod tests;

pub use baseline::MIN_SLOWDOWN;
pub use collective::{CollectiveFigures, CollectiveLaunch, Failure, LimitShare, Who};
pub use conduct::{Asked, Stages, Unable, conduct};
pub use gate::{Decided, decide};
pub use junit::junit;
pub use openmetrics::{METRICS, openmetrics};
pub use pairs::{Look, PairsLaunch};
pub use report::{Check, CheckLine, CheckReport, Decision, Figure, SCHEMA, Subject, Verdict};
pub use settings::{Differing, HostFindings, Survey};
pub use table::{conclusion, table};
pub use transports::{NamedTransport, TransportFigures, TransportLaunch};
