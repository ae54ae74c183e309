//! What the launches of a trial say to the search: times by call, or how the environment failed.
//! Not starting them (`job`).

use std::collections::BTreeSet;

use busbw_core::{
    exit::Exit,
    plan::{AlgorithmEvidence, Variant},
    record::{Folded, Row},
};
use busbw_tune::{Call, CallTimes, Failure, Outcome};

use super::job::Launched;
use crate::sweep::Launch;

/// What is reported of a trial, by the rows of `variant` where calls were of several.
pub(super) fn outcome(launched: &Launched, variant: Option<&Variant>, calls: &[Call]) -> Outcome {
    let broken = launched.launches.iter().find_map(|launch| launch.failure.as_ref());
    match broken {
        Some((code, text)) => {
            let failure = match Exit::Interrupted.code() == *code && launched.hung {
                true => Failure::Hung,
                false => failure(*code),
            };
            Outcome::Failed { failure, text: text.clone() }
        }
        None => {
            let records = launched.launches.iter().filter_map(|launch| launch.record.as_ref());
            let mut rows: Vec<&Row> = records.flat_map(|record| rows(record, variant)).collect();
            rows.retain(|row| calls.contains(&call(row)));
            let refused = |text: String| Outcome::Failed { failure: Failure::Refused, text };
            if let Some(text) = rows.iter().find_map(|row| not_as_asked(row)) {
                return refused(text);
            }
            let is_default = variant.is_none_or(|variant| *variant == Variant::default());
            let measured: Vec<CallTimes> = rows.iter().filter_map(|row| times(row)).collect();
            // Of several collectives NCCL declines most algorithms for some: those calls stay as they are.
            match rows.iter().find_map(|row| row.waived.clone()) {
                Some(why) if is_default || measured.is_empty() => refused(why),
                Some(_) => {
                    let declined = rows.iter().filter(|row| row.waived.is_some());
                    let declined = declined.map(|row| call(row)).collect();
                    Outcome::InPart { times: measured, declined }
                }
                None => Outcome::Measured(measured),
            }
        }
    }
}

/// How an environment failed, by its launch's exit code.
fn failure(code: u8) -> Failure {
    let is = |exit: Exit| exit.code() == code;
    if is(Exit::WrongData) {
        Failure::WrongResult
    } else if is(Exit::Timeout) {
        Failure::Hung
    } else if is(Exit::Library) || is(Exit::Usage) || is(Exit::Impossible) {
        Failure::Refused
    } else {
        Failure::Crashed
    }
}

/// The rows of the first communicator, and of `variant` where calls were of several.
fn rows<'a>(record: &'a Folded, variant: Option<&Variant>) -> Vec<&'a Row> {
    let colour = record.run.plan.colour(0);
    let is_meant = |row: &&Row| {
        let given = row.variant.as_ref().map(|variant| &variant.given);
        row.group == colour && (variant.is_none() || given.is_none() || given == variant)
    };
    record.rows.iter().filter(is_meant).collect()
}

/// Why a row is not of what its calls asked for, if it is not.
fn not_as_asked(row: &Row) -> Option<String> {
    let is_other = row
        .variant
        .as_ref()
        .is_some_and(|variant| variant.evidence == Some(AlgorithmEvidence::Conflicting));
    is_other.then(|| "NCCL's log names another algorithm than the one asked for".to_owned())
}

/// The call that a row measured: its size is that of the row, which ranks and types may have rounded.
fn call(row: &Row) -> Call {
    Call { operation: row.benchmark.name().to_owned(), size: row.size }
}

/// The calls of which these records have times.
pub(super) fn calls(records: &[Folded]) -> Vec<Call> {
    let rows = records.iter().flat_map(|record| rows(record, None));
    let measured = rows.filter(|row| samples(row).is_some()).map(call);
    measured.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A row's times: seconds of one operation, out of place where there is such a half, a figure a batch.
fn times(row: &Row) -> Option<CallTimes> {
    Some(CallTimes { call: call(row), seconds: samples(row)? })
}

fn samples(row: &Row) -> Option<Vec<f64>> {
    let half = row.out_of_place.as_ref().or(row.in_place.as_ref())?;
    let figures = &half.figures;
    let samples: Vec<f64> = match figures.samples_us.is_empty() {
        true => figures.time_us.into_iter().collect(),
        false => figures.samples_us.clone(),
    };
    (!samples.is_empty()).then(|| samples.into_iter().map(|us| us * 1e-6).collect())
}

/// The records of launches that all ended well.
pub(super) fn records(launches: Vec<Launch>) -> Vec<Folded> {
    launches.into_iter().filter_map(|launch| launch.record).collect()
}
