//! Collectives in nccl-tests' form: sizes, loops and traffic.
//! Not those whose iterations are timed alone (`latency`), and not OSU's names (`osu`).

use busbw_core::{
    Collective,
    plan::{Messaging, Step, Style},
};

use super::{
    Asked, BadOption,
    part::{Loops, Part},
    ranks::Ranks,
    values::{count, sizes},
    variables,
};

/// nccl-tests' size where none is given, bytes.
const THEIR_SIZE: u64 = 32 << 20;
/// busbw's own sizes where none are given, bytes: on `host`, and the last one on GPUs.
const OUR_SIZES: (u64, u64) = (8, 128 << 20);
const OUR_MAX_ON_GPUS: u64 = 8 << 30;

/// The part of a collective.
///
/// # Errors
/// An option that it cannot use.
pub(super) fn part(
    asked: &Asked<'_>,
    ranks: &Ranks<'_>,
    collective: Collective,
) -> Result<Part, BadOption> {
    let a = asked.arguments;
    let loops = (
        count("-n", a.iterations, 20, 1, 1 << 30)? as u32,
        count("-w", a.warmup, 1, 0, 1 << 30)? as u32,
        Messaging::default(),
    );
    with_loops(asked, ranks, collective, loops)
}

/// The part of a collective with these loops.
///
/// # Errors
/// An option that it cannot use.
pub(super) fn with_loops(
    asked: &Asked<'_>,
    ranks: &Ranks<'_>,
    collective: Collective,
    loops: Loops,
) -> Result<Part, BadOption> {
    let theirs = asked.style == Style::NcclTests;
    let range = match ranks.gpus {
        _ if theirs => (THEIR_SIZE, THEIR_SIZE),
        Some(_) => (OUR_SIZES.0, OUR_MAX_ON_GPUS),
        None => OUR_SIZES,
    };
    let sizes = match collective.moves_data() {
        true => sizes(asked.arguments, !theirs, range)?,
        false => (0, 0, Step::Factor(2)),
    };
    let (min, max, _) = sizes;
    let traffic = variables::traffic(collective, asked.environment, ranks.count(), min, max)?;
    let part = Part::of_options(asked, ranks, sizes, loops, traffic)?;
    Ok(Part { check: if collective.moves_data() { part.check } else { 0 }, ..part })
}
