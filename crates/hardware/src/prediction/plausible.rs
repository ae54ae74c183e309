//! Whether a figure that somebody names is plausible: which algorithms it excludes, and where it is in the expected range.
//! Not proof of what ran: only a log proves an algorithm.

use serde::Serialize;

use super::curve::{Expected, NoPrediction, Question, Span};
use crate::limits::{Algorithm, Possible, candidates};

/// Where a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// Above the limit of every algorithm that may have run.
    Impossible,
    /// Above the expected range, below the limit.
    Above,
    /// In the range of an algorithm that it leaves.
    Within,
    /// Below the range of every algorithm that it leaves.
    Below,
}

/// A usual mistake, with which the figure would be in range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mistake {
    /// In words.
    pub what: String,
    /// The figure without it, GB/s busbw.
    pub busbw: f64,
}

/// An algorithm with a figure: its limit, or the most that is expected of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Most {
    /// Which.
    pub algorithm: Algorithm,
    /// GB/s.
    pub busbw: f64,
}

/// An algorithm that a figure leaves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Left {
    /// Which.
    pub algorithm: Algorithm,
    /// What is expected of it, GB/s.
    pub busbw: Span,
}

/// Algorithms that would allow a figure under a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conditional {
    /// Which.
    pub algorithms: Vec<Algorithm>,
    /// If what holds.
    pub condition: String,
}

/// What a figure tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plausibility {
    /// The figure, GB/s busbw.
    pub busbw: f64,
    /// The size, bytes.
    pub bytes: u64,
    /// Where it is.
    pub position: Position,
    /// Algorithms whose limit is below it, with their limit in GB/s.
    pub excluded: Vec<Most>,
    /// Algorithms whose limit allows it, but of which less is expected, with the most expected in GB/s.
    pub unlikely: Vec<Most>,
    /// Algorithms that remain, with the range at this size in GB/s.
    pub left: Vec<Left>,
    /// Algorithms that would allow it under a condition that nothing states.
    pub conditional: Vec<Conditional>,
    /// Percent of the middle of what is expected of NCCL's choice.
    pub percent: f64,
    /// Mistakes with which it would be in the range of NCCL's choice.
    pub mistakes: Vec<Mistake>,
}

/// Judges a busbw in GB/s at a size. `chosen` is what is expected there.
///
/// # Errors
/// As [`Question::expect`].
pub fn plausibility(
    question: &Question<'_>,
    chosen: &Expected,
    busbw: f64,
) -> Result<Plausibility, NoPrediction> {
    let (mut excluded, mut unlikely) = (Vec::new(), Vec::new());
    let (mut left, mut conditional) = (Vec::new(), Vec::new());
    for one in candidates(question.machine, question.collective, &question.placement) {
        let algorithm = one.limit.algorithm;
        let Some(bound) = question.limit_of(algorithm).payload else { continue };
        let above = bound.exceeded_by(busbw);
        match &one.possible {
            Possible::No(_) => continue,
            Possible::If(why) if !above => add(&mut conditional, algorithm, why),
            Possible::If(_) => {}
            Possible::Yes if above => excluded.push(Most { algorithm, busbw: bound.busbw }),
            Possible::Yes => {
                let fixed = Question { algorithm: Some(algorithm), ..question.clone() };
                let span = match fixed.expect(chosen.bytes) {
                    Ok(expected) => expected.busbw,
                    Err(NoPrediction::NotOffered { .. }) => continue,
                    Err(error) => return Err(error),
                };
                if busbw > span.high {
                    unlikely.push(Most { algorithm, busbw: span.high });
                } else {
                    left.push(Left { algorithm, busbw: span });
                }
            }
        }
    }
    let position = if left.iter().any(|one| one.busbw.holds(busbw)) {
        Position::Within
    } else if !left.is_empty() {
        Position::Below
    } else if unlikely.is_empty() && conditional.is_empty() {
        Position::Impossible
    } else {
        Position::Above
    };
    let mistakes = match position {
        Position::Within => Vec::new(),
        _ => mistakes(question, chosen, busbw),
    };
    let percent = busbw / chosen.busbw.middle * 100.0;
    let bytes = chosen.bytes;
    Ok(Plausibility {
        busbw,
        bytes,
        position,
        excluded,
        unlikely,
        left,
        conditional,
        percent,
        mistakes,
    })
}

fn add(all: &mut Vec<Conditional>, algorithm: Algorithm, condition: &str) {
    match all.iter_mut().find(|one| one.condition == condition) {
        Some(known) => known.algorithms.push(algorithm),
        None => {
            let condition = condition.to_owned();
            all.push(Conditional { algorithms: vec![algorithm], condition });
        }
    }
}

/// The usual mistakes of units, factors and ranks that would put the figure into the range.
fn mistakes(question: &Question<'_>, chosen: &Expected, busbw: f64) -> Vec<Mistake> {
    let ranks = question.placement.ranks();
    let factor = question.collective.spec().bus_factor.of(ranks);
    let per_node = question.placement.per_node as f64;
    let mut all = vec![
        ("it is in Gb/s, not GB/s".to_owned(), busbw / 8.0),
        ("it is in GiB/s, not GB/s".to_owned(), busbw * 1.073_741_824),
        ("both directions are added".to_owned(), busbw / 2.0),
    ];
    if (factor - 1.0).abs() > 1e-9 {
        all.push(("it is algbw, not busbw".to_owned(), busbw * factor));
        all.push((format!("the factor {factor:.4} is in it twice"), busbw / factor));
    }
    if per_node > 1.0 {
        let all_of = format!("the GPUs of a host are added ({per_node})");
        all.push((all_of, busbw / per_node));
        all.push(("it is of one NIC or GPU of a host, not of all".to_owned(), busbw * per_node));
    }
    let inside = all.into_iter().filter(|(_, figure)| chosen.busbw.holds(*figure));
    inside.map(|(what, busbw)| Mistake { what, busbw }).collect()
}
