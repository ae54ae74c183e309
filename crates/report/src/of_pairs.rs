//! Converts a matrix of pairs and its assessment into the data of the page.
//! Not the judgement (`busbw_core::pairs`).

use busbw_core::{
    pairs::{
        Pair, Pairs,
        assessment::{PairsAssessment, SlowSubject},
        figures::{BETWEEN_HOSTS, WITHIN_HOSTS},
    },
    quantity::{bytes, rate},
};

use crate::{
    data::{Answer, Level, Matrix, Remedy},
    summary,
};

/// The data of a matrix.
pub(super) fn matrix(pairs: Pairs) -> Matrix {
    let assessed = pairs.verdict.as_ref();
    let findings = assessed.map_or_else(Vec::new, |one| one.findings(&pairs.labels));
    let said = assessed.map_or_else(Vec::new, |one| one.sentences(&pairs.labels));
    let said = said.get(findings.len()..).unwrap_or_default();
    let slow_cells: Vec<[usize; 2]> = assessed.map_or_else(Vec::new, |one| {
        let all = pairs.worst_first().into_iter();
        all.filter(|pair| one.slow.iter().any(|slow| is_slow(one, slow, &pairs, pair)))
            .map(|pair| [pair.from, pair.to])
            .collect()
    });
    Matrix {
        answer: answer(&pairs),
        findings: findings
            .into_iter()
            .map(|found| busbw_core::finding::Finding {
                cause: summary::sentence(&found.cause),
                ..found
            })
            .collect(),
        said: said.iter().map(|text| summary::sentence(text)).collect(),
        slow_cells,
        pairs,
    }
}

/// Who is slow, as the assessment says.
fn answer(pairs: &Pairs) -> Answer {
    let assessed = pairs.verdict.as_ref();
    let slow = assessed.map_or(&[][..], |one| &one.slow);
    let findings = assessed.map_or_else(Vec::new, |one| one.findings(&pairs.labels));
    let judged = assessed.is_some_and(|one| one.unjudged.len() < one.levels.len());
    let (level, word) = match (slow.len(), judged) {
        (0, true) => (Level::Good, "Nobody is slow".to_owned()),
        (0, false) => (Level::Unknown, "Not judged".to_owned()),
        (1, _) => (Level::Slow, "1 is slow".to_owned()),
        (count, _) => (Level::Slow, format!("{count} are slow")),
    };
    let command = || pairs.command.clone().unwrap_or_else(|| "busbw pairs".to_owned());
    let (text, command) = match findings.first().and_then(|found| found.remedy.as_ref()) {
        Some(remedy) => (summary::sentence(remedy), Some(command())),
        None if judged => ("Nothing: no rank, link or host stands out.".to_owned(), None),
        None => ("Measure with busbw pairs, which names who is slow.".to_owned(), Some(command())),
    };
    // Of a slow subject its own pairs count: links of another class may be slower, and healthy.
    let named = assessed.and_then(|one| Some((one, one.slow.first()?)));
    let worst = pairs
        .worst_first()
        .into_iter()
        .find(|pair| named.is_none_or(|(assessed, slow)| is_slow(assessed, slow, pairs, pair)));
    let normal = worst.and_then(|pair| normal_level(assessed?, &pair));
    let more_is_better = pairs.unit.more_is_better();
    let written = |value: f64| match more_is_better {
        true => (rate(value), "GB/s"),
        false => (format!("{value:.2}"), "µs"),
    };
    let (figure, unit) = worst.map(|pair| written(pair.value)).unzip();
    Answer {
        level,
        word,
        about: format!("pairs, {}", bytes(pairs.size)),
        figure,
        unit: unit.map(str::to_owned),
        at: worst.map(|pair| {
            format!("slowest pair, {} to {}", pairs.label(pair.from), pairs.label(pair.to))
        }),
        percent: normal.zip(worst).map(|(normal, pair)| match more_is_better {
            true => pair.value / normal * 100.0,
            false => normal / pair.value * 100.0,
        }),
        whole: normal.map(|normal| {
            let (figure, unit) = written(normal);
            format!("of what is normal here, {figure} {unit}")
        }),
        sentence: match findings.first() {
            Some(found) => summary::sentence(&found.cause),
            None => summary::of_pairs(pairs),
        },
        last: None,
        remedy: Some(Remedy { text, command }),
    }
}

/// Whether a pair is one of the slow ones of a subject: by at least half of what the subject is slow.
fn is_slow(assessed: &PairsAssessment, slow: &SlowSubject, pairs: &Pairs, pair: &Pair) -> bool {
    let class = slow.class.as_deref();
    let of_class = class.is_none_or(|class| class_of(assessed, pair) == Some(class));
    let half = slow.slower_percent / 200.0;
    let is_half =
        normal_level(assessed, pair).is_none_or(|normal| match pairs.unit.more_is_better() {
            true => pair.value < normal * (1.0 - half),
            false => pair.value > normal * (1.0 + half),
        });
    of_class && is_half && slow.subject.slows(pair.from, pair.to, &assessed.hosts)
}

fn class_of(assessed: &PairsAssessment, pair: &Pair) -> Option<&'static str> {
    let same = assessed.hosts.get(pair.from)? == assessed.hosts.get(pair.to)?;
    Some(if same { WITHIN_HOSTS } else { BETWEEN_HOSTS })
}

/// The normal level of a pair's class.
fn normal_level(assessed: &PairsAssessment, pair: &Pair) -> Option<f64> {
    let class = class_of(assessed, pair)?;
    assessed.levels.iter().find(|level| level.class == class).map(|level| level.value)
}
