//! The part of a plan that comes from NCCL_TESTS_* variables.
//! Not which variables there are (`environment`).

use busbw_core::{Collective, alltoallv::Traffic, split::Split};

use crate::options::BadOption;
use crate::options::{Environment, integer};

/// The traffic of alltoallv.
pub(super) fn traffic(
    collective: Collective,
    environment: &Environment,
    ranks: usize,
    min: u64,
    max: u64,
) -> Result<Traffic, BadOption> {
    if collective != Collective::AllToAllV {
        return Ok(Traffic::default());
    }
    let fraction =
        |name: &str, text: &Option<String>, most: f64| match text.as_deref().map(str::trim) {
            None => Ok(1.0),
            Some(text) => match text.parse::<f64>() {
                Ok(value) if (0.0..=most).contains(&value) => Ok(value),
                _ => Err(BadOption::new(format!(
                    "{name}='{text}' is not a number between 0 and {most}"
                ))),
            },
        };
    let spread = fraction("NCCL_TESTS_ALLTOALLV_SPREAD", &environment.spread, 1.0)?;
    let scale = fraction("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", &environment.matrix_scale, 1e12)?;
    let Some(path) = &environment.matrix_file else { return Ok(Traffic::Generated { spread }) };
    let refuse =
        |why: String| BadOption::new(format!("NCCL_TESTS_ALLTOALLV_MATRIX_FILE={path}: {why}"));
    let text = std::fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
    let traffic = Traffic::from_matrix(&text, scale).map_err(|e| refuse(e.to_string()))?;
    traffic.check(ranks, min, max).map_err(|e| refuse(e.to_string()))?;
    Ok(traffic)
}

/// NCCL_TESTS_DEVICE.
pub(super) fn first_device(environment: &Environment) -> Result<usize, BadOption> {
    let Some(text) = &environment.device else { return Ok(0) };
    integer::parse(text)
        .ok()
        .and_then(|device| usize::try_from(device).ok())
        .ok_or_else(|| BadOption::new(format!("NCCL_TESTS_DEVICE='{text}' is no device number")))
}

/// NCCL_TESTS_SPLIT_MASK, else NCCL_TESTS_SPLIT: every rank's colour; empty without them.
pub(super) fn colours(environment: &Environment, ranks: usize) -> Result<Vec<u64>, BadOption> {
    let split = match (&environment.split_mask, &environment.split) {
        (Some(mask), _) => Split::parse_mask(mask),
        (None, Some(split)) => Split::parse(split),
        (None, None) => return Ok(Vec::new()),
    }
    .map_err(|e| BadOption::new(e.to_string()))?;
    Ok((0..ranks).map(|rank| split.colour(rank)).collect())
}

/// Ranks of the smallest communicator: a root must exist in every one.
pub(super) fn smallest_group(colours: &[u64], ranks: usize) -> usize {
    let size = |colour: &u64| colours.iter().filter(|c| *c == colour).count();
    colours.iter().map(size).min().unwrap_or(ranks)
}

/// Whether alltoallv's traffic is summed up.
pub(super) fn traffic_summary(environment: &Environment) -> bool {
    environment.traffic_summary.as_deref().is_some_and(|v| !matches!(v.trim(), "" | "0"))
}

/// NCCL_TESTS_MIN_BW.
pub(super) fn min_bandwidth(environment: &Environment) -> Result<Option<f64>, BadOption> {
    let Some(text) = &environment.min_bandwidth else { return Ok(None) };
    match text.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(Some(value)),
        // -1 is nccl-tests' own word for "not set".
        Ok(-1.0) => Ok(None),
        _ => Err(BadOption::new(format!("NCCL_TESTS_MIN_BW='{text}' is no bandwidth in GB/s"))),
    }
}
