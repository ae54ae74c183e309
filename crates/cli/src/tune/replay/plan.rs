//! Which classes of a trace can be measured here, and why others cannot.
//! Not measuring them (`replay`).

use anyhow::Result;
use busbw_core::{Collective, quantity::count};
use busbw_logs::trace::{Class, Trace};

use crate::{options::TurnArguments, sweep::Prepared};

/// The most classes that are measured: those with the largest share of bytes, and those with the most calls.
const MAX_CLASSES: usize = 16;

/// Why there is no row of a class.
const TOO_SMALL: &str = "a rank's share is below 16 bytes, for which there is no row";

/// A class, with its options or the reason why it is not measured.
pub(super) struct Planned {
    pub(super) class: Class,
    pub(super) ready: Result<(TurnArguments, Prepared), String>,
}

/// All classes of a trace, those that are measured first. `turns` makes the options of one.
///
/// # Errors
/// An option cannot be used.
pub(super) fn classes(
    trace: &Trace,
    turns: impl Fn(&Class) -> Option<TurnArguments>,
) -> Result<Vec<Planned>> {
    let all = trace.classes();
    let possible = |class: &&Class| why_not(class, None).is_none();
    let here = match all.iter().filter(possible).find_map(&turns) {
        Some(turns) => Some(Prepared::new(&turns)?.plan().ranks()),
        None => None,
    };
    let chosen = chosen(&all, here);
    let mut planned = Vec::new();
    for (number, class) in all.into_iter().enumerate() {
        let more = || format!("{MAX_CLASSES} classes with more bytes or calls are measured");
        let reason = why_not(&class, here).or_else(|| (!chosen.contains(&number)).then(more));
        let ready = match (reason, turns(&class)) {
            (Some(reason), _) => Err(reason),
            (None, None) => Err(TOO_SMALL.to_owned()),
            (None, Some(turns)) => Prepared::new(&turns).map(|prepared| Ok((turns, prepared)))?,
        };
        planned.push(Planned { class, ready });
    }
    planned.sort_by_key(|one| one.ready.is_err());
    Ok(planned)
}

/// The numbers of the classes that are measured.
fn chosen(classes: &[Class], here: Option<usize>) -> Vec<usize> {
    let possible =
        |number: &usize| classes.get(*number).is_some_and(|class| why_not(class, here).is_none());
    // They are sorted by their share of bytes.
    let by_bytes: Vec<usize> = (0..classes.len()).filter(possible).collect();
    if by_bytes.len() <= MAX_CLASSES {
        return by_bytes;
    }
    let mut by_calls = by_bytes.clone();
    by_calls.sort_by_key(|number| classes.get(*number).map(|class| std::cmp::Reverse(class.calls)));
    let mut chosen = Vec::new();
    for number in by_bytes.into_iter().zip(by_calls).flat_map(|(bytes, calls)| [bytes, calls]) {
        if chosen.len() < MAX_CLASSES && !chosen.contains(&number) {
            chosen.push(number);
        }
    }
    chosen
}

/// Why a class is not measured where the launches have `here` ranks.
fn why_not(class: &Class, here: Option<usize>) -> Option<String> {
    match (class.operation.collective(), here) {
        (None, _) => Some("messages between two ranks are not replayed".to_owned()),
        (Some(Collective::AllToAllV), _) => {
            Some("the trace has no sizes of pairs, which alltoallv needs".to_owned())
        }
        (Some(_), _) if class.row_bytes().is_none() => Some(TOO_SMALL.to_owned()),
        (Some(_), Some(here)) if class.ranks as usize != here => {
            let ranks = count(class.ranks, "rank");
            Some(format!("it has {ranks}, and the launches have {here}"))
        }
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use busbw_logs::trace::Reader;

    use super::*;

    fn trace(calls: &[(&str, u64, u32)]) -> Trace {
        let line = |(operation, count, ranks): &(&str, u64, u32)| {
            format!(
                "h:1:1 [0] NCCL INFO {operation}: opCount 0 sendbuff 0x1 recvbuff 0x2 count {count} datatype 7 op 0 root 1 comm 0x{ranks} [nranks={ranks}] stream 0x1\n"
            )
        };
        let text: String = calls.iter().map(line).collect();
        let mut reader = Reader::default();
        reader.read(&mut Cursor::new(text), "log").expect("a log");
        reader.finish().expect("calls")
    }

    fn planned(trace: &Trace) -> Vec<String> {
        let turns = TurnArguments {
            launches: 1,
            time: None,
            show: None,
            baseline: None,
            csv: false,
            json: false,
            record: None,
            no_record: true,
            benchmark: String::new(),
            bench: ["--backend", "host", "-g", "2"].map(Into::into).to_vec(),
        };
        let all = classes(trace, |class| super::super::turns_of(class, &turns)).expect("a plan");
        let told = |one: Planned| {
            let ready = one.ready.map(|(turns, _)| {
                let words: Vec<_> = turns.bench.iter().map(|word| word.to_string_lossy()).collect();
                format!("{} {}", turns.benchmark, words.join(" "))
            });
            ready.unwrap_or_else(|reason| format!("{}: {reason}", one.class.operation))
        };
        all.into_iter().map(told).collect()
    }

    #[test]
    fn each_class_has_its_own_options_or_a_reason() {
        let trace = trace(&[
            ("AllReduce", 1024, 2),
            ("AllGather", 1024, 2),
            ("AllGather", 1, 2),
            ("AllReduce", 64, 8),
            ("Send", 16, 2),
        ]);
        assert_eq!(
            planned(&trace),
            [
                "all_gather --backend host -g 2 -b 8192 -e 8192 -d float",
                "all_reduce --backend host -g 2 -b 4096 -e 4096 -d float -o sum",
                "all_reduce: it has 8 ranks, and the launches have 2",
                "message: messages between two ranks are not replayed",
                "all_gather: a rank's share is below 16 bytes, for which there is no row",
            ]
        );
    }

    #[test]
    fn the_largest_and_the_most_frequent_classes_are_measured() {
        let mut calls: Vec<(&str, u64, u32)> = (0..30).map(|n| ("AllReduce", 1 << n, 2)).collect();
        calls.extend([("AllReduce", 4, 2); 100]);
        let planned = planned(&trace(&calls));
        let measured: Vec<&String> = planned.iter().filter(|one| one.contains("-b")).collect();
        assert_eq!(measured.len(), MAX_CLASSES);
        assert!(measured.iter().any(|one| one.contains("-b 16 ")), "{measured:?}");
        assert!(measured.iter().any(|one| one.contains(&format!("-b {} ", 4_u64 << 29))));
        let waived =
            planned.iter().filter(|one| one.contains("16 classes with more bytes or calls"));
        assert_eq!(waived.count(), 30 - MAX_CLASSES);
    }
}
