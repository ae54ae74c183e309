//! Values that a variable cannot have, or that NCCL reads as something else than written.
//! Not what two variables mean together (`pairs`).

mod number;
mod word;

use busbw_core::finding::{Finding, Severity};

use crate::assignment::Assignment;
use crate::known::{Kind, tables};

pub(super) fn check(assignment: &Assignment) -> Option<Finding> {
    let kind = tables().kind(assignment.name.as_str())?;
    let value = assignment.literal()?;
    let finding = match kind {
        Kind::Int { least, most } => number::check(&assignment.name, value, *least, *most),
        Kind::Warps { least, most } => number::check_warps(&assignment.name, value, *least, *most),
        Kind::Word { words, any_case } => word::check_one(value, words, *any_case),
        Kind::Words { words } => word::check_list(value, words),
        Kind::Choice { words } => word::check_choice(value, words),
        Kind::Distance { words } => word::check_distance(value, words),
    };
    finding.map(|finding| finding.place(assignment.place()))
}

fn finding(severity: Severity, cause: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding::new("value-range", severity, cause).remedy(remedy)
}

/// The value of `name` as a whole number, for rules that compare.
pub(super) fn whole_number(assignment: &Assignment) -> Option<i64> {
    match number::read(assignment.literal()?) {
        number::Reading::Whole(value) => Some(value),
        _ => None,
    }
}
