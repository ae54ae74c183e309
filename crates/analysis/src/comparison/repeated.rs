//! Finds one launch that was read several times: its record, its log and its report in one folder, or a copy.
//! Not similar launches: what may be two launches stays two.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use busbw_core::record::Figures;
use busbw_logs::measurement::{Measurement, Row};

/// Minimum of rows that agree in every digit before two readings are one launch.
const MIN_MATCHING_ROWS: usize = 3;
/// A time with three digits or more (largest digit 100 times the last) identifies a launch.
const MIN_DIGITS_FACTOR: f64 = 100.0;

/// A run that repeats another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// Where it was read.
    pub name: String,
    /// Where the first was read.
    pub of: String,
    /// The evidence.
    pub by: Sameness,
    /// Whether it was left out.
    pub left_out: bool,
}

/// The evidence that two runs are one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sameness {
    /// The same bytes.
    Text,
    /// The run's unique name.
    Id,
    /// The same start, and no figure that differs.
    Start,
    /// All figures of at least three rows, to the last digit that both state.
    Figures,
    /// All figures, but of too few rows: both are kept.
    FewFigures,
}

/// Splits runs into distinct launches and repeated ones. Of several readings of a launch the record is kept:
/// it has the most facts.
pub fn distinct(runs: Vec<Measurement>) -> (Vec<Measurement>, Vec<Repeated>) {
    let mut kept: Vec<Measurement> = Vec::with_capacity(runs.len());
    let mut repeated = Vec::new();
    let mut alike: HashMap<Key, Vec<usize>> = HashMap::new();
    for run in runs {
        let before = alike.entry(key(&run)).or_default();
        let same = |at: &&usize| kept.get(**at).and_then(|one| sameness(one, &run));
        let found = before
            .iter()
            .find_map(|at| same(&at).filter(|by| *by != Sameness::FewFigures).map(|by| (*at, by)));
        let found = found.or_else(|| before.iter().find_map(|at| same(&at).map(|by| (*at, by))));
        let left_out = found.is_some_and(|(_, by)| by != Sameness::FewFigures);
        let place = found.and_then(|(at, by)| Some((kept.get_mut(at)?, by)));
        if let Some((other, by)) = place {
            let mut run = run;
            let recorded = |run: &Measurement| run.source.form.facts().recorded;
            if left_out && recorded(&run) && !recorded(other) {
                std::mem::swap(other, &mut run);
            }
            let (name, of) = (run.source.name.clone(), other.source.name.clone());
            repeated.push(Repeated { name, of, by, left_out });
            if left_out {
                continue;
            }
            before.push(kept.len());
            kept.push(run);
        } else {
            before.push(kept.len());
            kept.push(run);
        }
    }
    (kept, repeated)
}

/// The facts that all readings of a launch share.
type Key = (String, Option<usize>, usize, u64, u64);

fn key(run: &Measurement) -> Key {
    let sizes = || run.first_rows().map(|row| row.size);
    let (first, last) = (sizes().next().unwrap_or(0), sizes().last().unwrap_or(0));
    (run.test_name().to_owned(), run.rank_count(), sizes().count(), first, last)
}

fn sameness(a: &Measurement, b: &Measurement) -> Option<Sameness> {
    if let (Some(a), Some(b)) = (&a.id, &b.id) {
        return (a == b).then_some(Sameness::Id);
    }
    let start = match (&a.started, &b.started) {
        (Some(a), Some(b)) if a != b => return None,
        (Some(_), Some(_)) => true,
        _ => false,
    };
    let mut telling = 0;
    for (ours, theirs) in a.first_rows().zip(b.first_rows()) {
        telling += usize::from(agree(ours, theirs)?);
    }
    match telling {
        0 => None,
        _ if start => Some(Sameness::Start),
        MIN_MATCHING_ROWS.. => Some(Sameness::Figures),
        _ => Some(Sameness::FewFigures),
    }
}

/// Whether equal rows identify a launch; none where the rows differ.
fn agree(a: &Row, b: &Row) -> Option<bool> {
    let what = |row: &Row| (row.size, row.datatype, row.op.clone(), row.root);
    if what(a) != what(b) {
        return None;
    }
    let halves = [(&a.out_of_place, &b.out_of_place), (&a.in_place, &b.in_place)];
    let mut telling = false;
    for (a, b) in halves {
        match (a, b) {
            (Some(a), Some(b)) => telling |= same_time(a, b)?,
            (None, None) => {}
            _ => return None,
        }
    }
    Some(telling)
}

/// Whether two equal times have enough digits to identify a launch.
fn same_time(a: &Figures, b: &Figures) -> Option<bool> {
    let (Some(ours), Some(theirs)) = (a.time_us, b.time_us) else {
        return (a.time_us == b.time_us && a.algbw == b.algbw).then_some(false);
    };
    let slack = a.rounding_us.max(b.rounding_us) * 1.01 + ours.abs() * 1e-9;
    let slack = if a.rounding_us > 0.0 && a.rounding_us == b.rounding_us {
        // Both were printed alike.
        ours.abs() * 1e-9
    } else {
        slack
    };
    let digits = ours / (2.0 * a.rounding_us.max(b.rounding_us)).max(f64::MIN_POSITIVE);
    ((ours - theirs).abs() <= slack).then_some(digits >= MIN_DIGITS_FACTOR)
}
