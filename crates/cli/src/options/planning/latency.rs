//! Collectives in latency's form: who gets it, how often, and which options then mean nothing.
//! Not the loops of messages (`messages`) and of OSU's names (`osu`).

use busbw_core::{
    Collective,
    plan::{LargeMessages, Messaging},
    record::Waiver,
};

use super::{
    Asked, BenchArguments, collectives,
    part::{Loops, Part},
    ranks::Ranks,
    values::count,
    waivers::of_options,
};
use crate::options::BadOption;

/// Beyond so many bytes there are fewer iterations, as in OSU's loops (c/util/osu_util.h:
/// LARGE_MESSAGE_SIZE).
const LARGE_MESSAGE_BYTES: u64 = 8192;
/// Timed and untimed iterations of a batch, of small sizes, then of large ones. Less than OSU's, since
/// there are several batches.
const LATENCY_LOOPS: [u32; 4] = [200, 20, 20, 2];

/// Whether every iteration of a collective is timed alone: where that was asked for, and in a barrier, which has
/// no other figure.
pub(super) fn is_asked(collective: Collective, a: &BenchArguments) -> bool {
    a.latency || collective == Collective::Barrier
}

/// The part of a collective whose iterations are timed alone.
///
/// # Errors
/// An option that it cannot use.
pub(super) fn part(
    asked: &Asked<'_>,
    ranks: &Ranks<'_>,
    collective: Collective,
) -> Result<Part, BadOption> {
    let a = asked.arguments;
    let mut part = collectives::with_loops(asked, ranks, collective, loops(a)?)?;
    part.waived.extend(waived(collective, a));
    Ok(Part { latency: true, ..part })
}

/// How many iterations a batch has.
fn loops(a: &BenchArguments) -> Result<Loops, BadOption> {
    let [small, small_warmup, large, large_warmup] = LATENCY_LOOPS;
    let iterations = count("-n", a.iterations, i64::from(small), 1, 1 << 30)? as u32;
    let warmup = count("-w", a.warmup, i64::from(small_warmup), 0, 1 << 30)? as u32;
    // What was asked for holds for all sizes.
    let large = LargeMessages {
        above: LARGE_MESSAGE_BYTES,
        iterations: if a.iterations.is_some() { iterations } else { large },
        warmup: if a.warmup.is_some() { warmup } else { large_warmup },
    };
    Ok((iterations, warmup, Messaging { large: Some(large), ..Messaging::default() }))
}

/// Options that mean nothing in this form.
fn waived(collective: Collective, a: &BenchArguments) -> Vec<Waiver> {
    let each = "every iteration is timed alone: their spread stands in the table";
    let mut waived = of_options([
        ("-z", a.blocking.filter(|blocking| *blocking != 3), each),
        ("-G", a.graph, each),
        ("-C", a.cpu_time, each),
        ("-I", a.per_iteration, each),
        ("-a", a.average, "the mean, the fastest and the slowest rank stand in the table"),
    ]);
    if collective == Collective::Barrier {
        let nothing = "a barrier moves no data";
        waived.extend(of_options([
            ("-c", a.check, nothing),
            ("-u", a.unalign, nothing),
            ("-f", a.step_factor, nothing),
        ]));
        let sizes = [("-b", &a.min_bytes), ("-e", &a.max_bytes), ("-i", &a.step_bytes)];
        waived.extend(sizes.into_iter().filter_map(|(option, size)| {
            let option = format!("{option} {}", size.as_ref()?);
            Some(Waiver { option, reason: nothing.to_owned() })
        }));
    }
    waived
}
