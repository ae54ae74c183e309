//! The form of a table: the unit of its bandwidths, and the release of nccl-tests that it looks like.
//! Not its figures, nor what else stdout can carry (`arguments`).

use busbw_core::{
    Benchmark,
    plan::{NcclTestsRelease, Style},
};
use busbw_render::Units;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// `--units`' words.
pub(super) fn units_words() -> impl TypedValueParser<Value = Units> {
    PossibleValuesParser::new(Units::ALL.map(Units::name))
        .map(|word| Units::from_name(&word).unwrap_or_default())
}

/// The unit of a table's bandwidths.
///
/// # Errors
/// A unit was asked for, and the table has no column of bandwidths, or another program's header.
pub fn units_of(
    benchmark: Benchmark,
    style: Style,
    latency: bool,
    asked: Option<Units>,
) -> Result<Units, String> {
    let Some(units) = asked else { return Ok(Units::default()) };
    let only_gigabytes = match benchmark {
        _ if style == Style::Osu => Some("OSU's tables have units of their own"),
        Benchmark::Pairs => Some("the matrix and its sentences are in GB/s"),
        Benchmark::Messages(test) if test.is_latency() => Some("this table has no bandwidth"),
        Benchmark::Collective(_) if latency => Some("this table has no bandwidth"),
        _ => None,
    };
    match only_gigabytes {
        Some(why) => Err(format!("--units {}: {why}: leave it out", units.name())),
        None => Ok(units),
    }
}

/// `--nccl-tests-version`'s words.
pub(super) fn releases() -> impl TypedValueParser<Value = NcclTestsRelease> {
    PossibleValuesParser::new(NcclTestsRelease::ALL.map(NcclTestsRelease::name))
        .map(|word| NcclTestsRelease::from_name(&word).unwrap_or_default())
}

/// The release whose form the table has.
///
/// # Errors
/// One was asked for, and the table is not nccl-tests'.
pub(super) fn release_of(
    benchmark: Benchmark,
    style: Style,
    latency: bool,
    asked: Option<NcclTestsRelease>,
) -> Result<NcclTestsRelease, String> {
    let Some(release) = asked else { return Ok(NcclTestsRelease::default()) };
    let is_theirs =
        style != Style::Osu && matches!(benchmark, Benchmark::Collective(_)) && !latency;
    match is_theirs {
        true => Ok(release),
        false => Err(format!(
            "--nccl-tests-version {}: this table is not one of nccl-tests: leave it out",
            release.name()
        )),
    }
}
