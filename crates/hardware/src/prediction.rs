//! What to expect of a collective on a machine before it is run: time, algbw and busbw with a range, by size.
//! Not a limit (`limits`: no true result exceeds that), and not NCCL's own time (`tuning`), which only chooses.
//!
//! A range has a stated basis: public results on links of the same kind (`calibration.tsv`), those of a neighbouring
//! kind, or NCCL's constants alone. Derivation, and how well it does on results kept aside: docs/plan.md.

mod attainable;
mod calibration;
mod curve;
mod plausible;

pub use attainable::{Attainable, Basis, attainable};
pub use calibration::{CALIBRATION, Point, points};
pub use curve::{Expected, NoPrediction, Question, Span};
pub use plausible::{Conditional, Left, Mistake, Most, Plausibility, Position, plausibility};
