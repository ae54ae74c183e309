//! Which environment is best, at each size and over all: named only where intervals allow it.
//! Not comparisons with a baseline: those are in the cells.

use busbw_stats::{Comparison, Rule, Verdict, compare};

use super::outcome::{Cell, Outcome, SizeRow};

/// The best environment at one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Best {
    /// This environment: all others are slower.
    One(usize),
    /// One of these: the fastest, and those that are not significantly slower.
    Several(Vec<usize>),
    /// There is nothing to compare.
    Unknown,
}

/// How the launches of two environments compare.
fn compared(row: &SizeRow, a: usize, b: usize) -> Option<Comparison> {
    let times = |number: usize| row.cell(number)?.comparable();
    Some(compare(times(a)?, times(b)?, &Rule::default()))
}

/// The best environment at one size.
pub fn at(row: &SizeRow) -> Best {
    let measured = || {
        let cells = row.cells.iter().enumerate();
        cells.filter_map(|(number, cell)| {
            let cell = cell.as_ref()?;
            cell.comparable().map(|_| (number, cell.time_us))
        })
    };
    let fastest = measured().min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((fastest, _)) = fastest.filter(|_| measured().count() > 1) else {
        return Best::Unknown;
    };
    let slower =
        |other: usize| compared(row, fastest, other).is_some_and(|c| c.verdict == Verdict::Slower);
    let others: Vec<usize> =
        measured().map(|(number, _)| number).filter(|n| *n != fastest && !slower(*n)).collect();
    if others.is_empty() {
        return Best::One(fastest);
    }
    let mut all = [vec![fastest], others].concat();
    all.sort_unstable();
    Best::Several(all)
}

/// The environment that is nowhere slower than another, and faster than each of them at some size.
pub fn overall(outcome: &Outcome) -> Option<usize> {
    let numbers = 0..outcome.environments.len();
    let has_run = |number: &usize| {
        !outcome.rows.is_empty()
            && outcome.rows.iter().all(|row| row.cell(*number).and_then(Cell::comparable).is_some())
    };
    let others: Vec<usize> = numbers.filter(has_run).collect();
    let beats = |a: usize, b: usize| {
        let verdicts: Vec<Option<Verdict>> =
            outcome.rows.iter().map(|row| compared(row, a, b).map(|c| c.verdict)).collect();
        let holds = |v: &Option<Verdict>| matches!(v, Some(Verdict::Slower | Verdict::Same));
        verdicts.iter().all(holds) && verdicts.contains(&Some(Verdict::Slower))
    };
    let best = |a: &usize| others.len() > 1 && others.iter().all(|b| a == b || beats(*a, *b));
    others.iter().copied().find(best)
}

/// The closing sentence; `None` where there is nothing to compare.
pub fn sentence(outcome: &Outcome) -> Option<String> {
    let name = |number: &usize| -> &str {
        outcome.environments.get(*number).map_or("?", |environment| &environment.name)
    };
    let mut told: Vec<(Best, Vec<u64>)> = Vec::new();
    for row in &outcome.rows {
        let best = at(row);
        match told.last_mut() {
            Some((last, sizes)) if *last == best => sizes.push(row.size),
            _ => told.push((best, vec![row.size])),
        }
    }
    told.retain(|(best, _)| *best != Best::Unknown);
    if told.is_empty() {
        return None;
    }
    let parts: Vec<String> = told
        .iter()
        .map(|(best, sizes)| {
            let at = match sizes.as_slice() {
                [first, .., last] => format!("{} to {}", size(*first), size(*last)),
                [only] => size(*only),
                [] => String::new(),
            };
            match best {
                Best::One(number) => format!("{} at {at}", name(number)),
                Best::Several(numbers) => {
                    let names: Vec<&str> = numbers.iter().map(name).collect();
                    format!("not decided at {at} ({})", names.join(", "))
                }
                Best::Unknown => String::new(),
            }
        })
        .collect();
    let overall = match overall(outcome) {
        Some(number) => format!("overall {}", name(&number)),
        None => "overall none".to_owned(),
    };
    Some(format!("fastest: {}; {overall}", parts.join(", ")))
}

/// A size in the unit that makes it a whole number: `64K`, `1G`.
pub fn size(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    match units.iter().find(|(power, _)| bytes > 0 && bytes.is_multiple_of(1 << power)) {
        Some((power, unit)) => format!("{}{unit}", bytes >> power),
        None => format!("{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::sweep::example::{near, outcome};

    use super::*;

    #[test]
    fn only_what_intervals_allow() {
        let said = |sizes: &[(u64, Vec<Vec<f64>>)]| sentence(&outcome(sizes));
        let sure = said(&[
            (1 << 20, vec![near(10.0), near(20.0)]),
            (4 << 20, vec![near(40.0), near(50.0)]),
        ]);
        assert_eq!(sure.unwrap(), "fastest: A at 1M to 4M; overall A");
        let crossed =
            said(&[(64, vec![near(10.0), near(9.0)]), (1 << 20, vec![near(40.0), near(50.0)])]);
        assert_eq!(crossed.unwrap(), "fastest: B at 64, A at 1M; overall none");
        let even = said(&[(64, vec![near(10.0), near(10.001)])]);
        assert_eq!(even.unwrap(), "fastest: not decided at 64 (A, B); overall none");
        let few = said(&[(64, vec![vec![1.0; 3], vec![2.0; 3]])]);
        assert_eq!(few.unwrap(), "fastest: not decided at 64 (A, B); overall none");
        assert_eq!(said(&[(64, vec![near(1.0), Vec::new()])]), None);
    }

    #[test]
    fn sizes_in_words() {
        for (bytes, text) in [(0, "0"), (8, "8"), (1536, "1536"), (1 << 16, "64K"), (1 << 33, "8G")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
