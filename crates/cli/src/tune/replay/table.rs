//! A replay as a table: a row a class, one total.
//! Not measuring (`replay`).

use std::fmt::Write;

use busbw_analysis::sweep::Cell;
use busbw_core::{
    columns::aligned,
    printable::printable,
    quantity::{bytes, time},
};
use busbw_stats::{Comparison, Interval};

use super::{Replayed, Row, total::Total};
use crate::sweep;

/// The whole table.
pub(super) fn table(replayed: &Replayed) -> String {
    let [default, recommended] = &replayed.environments;
    let mut text = format!(
        "# busbw tune --replay: the calls of {}, measured without the job\n# medians of {} launches in turns, ± half their 95 % interval; gaps between calls, and calls that overlap, are not replayed\n",
        replayed.source.name(),
        replayed.launches,
    );
    for one in [default, recommended] {
        let _ = writeln!(text, "# {}: {}", printable(&one.name), printable(&one.settings()));
    }
    text.push_str("# ×: times as fast as the first; + faster, - slower, = the same, ? not decided by these launches\n#\n");
    let head = ["operation", "size", "type", "redop", "ranks", "calls", "bytes"];
    let mut head: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
    head.extend([&default.name, "±%", &recommended.name, "±%", "×"].map(str::to_owned));
    let mut lines = vec![head];
    let (measured, waived): (Vec<&Row>, Vec<&Row>) =
        replayed.rows.iter().partition(|row| row.waived.is_none());
    lines.extend(measured.iter().map(|row| of_class(row)));
    if let [Some(first), Some(second)] = &replayed.totals {
        let mut line = vec!["all calls".to_owned()];
        line.extend(["", "", "", "", ""].map(str::to_owned));
        line.push(format!("{:.1} %", 100.0 * replayed.share));
        line.extend(of_total(first));
        line.extend(of_total(second));
        line.push(factor(replayed.against.as_ref()));
        lines.push(line);
    }
    text.push_str(&aligned(&lines));
    for row in waived {
        let class = &row.class;
        let _ = writeln!(
            text,
            "# WAIVED: {} of {}, {} calls, {:.1} % of the bytes: {}",
            class.operation,
            bytes(class.bytes),
            class.calls,
            100.0 * class.share,
            printable(row.waived.as_deref().unwrap_or_default()),
        );
    }
    if replayed.interrupted {
        text.push_str("# interrupted\n");
    }
    text
}

fn of_class(row: &Row) -> Vec<String> {
    let class = &row.class;
    let absent = || "-".to_owned();
    let mut line = vec![
        class.operation.name().to_owned(),
        bytes(row.row_bytes.unwrap_or(class.bytes)),
        class.datatype.map_or_else(absent, |one| one.name().to_owned()),
        class.op.map_or_else(absent, |one| one.name().to_owned()),
        class.ranks.to_string(),
        class.calls.to_string(),
        format!("{:.1} %", 100.0 * class.share),
    ];
    for number in 0..2 {
        line.extend(match row.cells.get(number).and_then(Option::as_ref) {
            Some(cell) => figures(cell),
            None => [absent(), String::new()],
        });
    }
    let against = row.cells.get(1).and_then(Option::as_ref).and_then(|cell| cell.against.as_ref());
    line.push(factor(against));
    line
}

fn figures(cell: &Cell) -> [String; 2] {
    [time(cell.time_us), half_width(cell.interval_us, cell.time_us)]
}

fn of_total(total: &Total) -> [String; 2] {
    [time(total.seconds * 1e6), half_width(total.interval, total.seconds)]
}

/// Half an interval in percent of the median.
fn half_width(interval: Option<Interval>, of: f64) -> String {
    interval.map_or(String::new(), |one| format!("{:.1}", 50.0 * (one.high - one.low) / of))
}

/// How many times as fast, with the verdict's sign.
fn factor(against: Option<&Comparison>) -> String {
    against.map_or("-".to_owned(), sweep::multiple)
}

#[cfg(test)]
mod tests {
    use busbw_analysis::sweep::{Tried, compare_with, example};
    use busbw_core::{Collective, DataType, ReduceOp};
    use busbw_logs::trace::{Class, Operation, TraceSource};

    use super::super::{SCHEMA, total};
    use super::*;

    fn class(collective: Collective, bytes: u64, calls: u64, share: f64) -> Class {
        Class {
            operation: Operation::Collective(collective),
            datatype: Some(DataType::Bfloat16),
            bytes,
            op: collective.reduces().then_some(ReduceOp::Sum),
            ranks: 8,
            communicators: 1,
            calls,
            share,
            gap_us: None,
            took_us: None,
        }
    }

    fn row(class: Class, centres: [f64; 2]) -> Row {
        let outcome = example::outcome(&[(class.bytes, centres.map(example::near).to_vec())]);
        let mut cells = outcome.rows[0].cells.clone();
        compare_with(Some(0), &mut cells);
        Row { row_bytes: Some(class.bytes), class, cells, waived: None }
    }

    fn replayed() -> Replayed {
        let tried = |name: &str, sets: Option<&str>| Tried {
            name: name.to_owned(),
            variables: sets
                .map(|value| ("NCCL_MIN_NCHANNELS".to_owned(), Some(value.to_owned())))
                .into_iter()
                .collect(),
            ..example::outcome(&[(8, vec![vec![1.0; 6]])]).environments[0].clone()
        };
        let waived = Row {
            class: class(Collective::AllToAllV, 1 << 16, 5, 0.01),
            row_bytes: None,
            cells: Vec::new(),
            waived: Some("the trace has no sizes of pairs, which alltoallv needs".to_owned()),
        };
        let mut replayed = Replayed {
            replay_schema: SCHEMA,
            source: TraceSource::FlightRecorder,
            environments: [tried("default", None), tried("recommended", Some("16"))],
            launches: 6,
            rows: vec![
                row(class(Collective::AllReduce, 64 << 20, 100, 0.9), [1000.0, 800.0]),
                row(class(Collective::AllGather, 1 << 20, 1000, 0.09), [50.0, 50.0]),
                waived,
            ],
            totals: [None, None],
            against: None,
            share: 0.0,
            took_s: 60.0,
            interrupted: false,
        };
        total::add(&mut replayed);
        replayed
    }

    #[test]
    fn classes_and_their_total() {
        let replayed = replayed();
        let [Some(first), Some(second)] = &replayed.totals else { panic!("{replayed:?}") };
        // 100 × 1 ms + 1000 × 50 us; 100 × 0.8 ms + the same.
        assert!((first.seconds - 0.150).abs() < 1e-4 && (second.seconds - 0.130).abs() < 1e-4);
        assert_eq!(first.launches.len(), 6);
        insta::assert_snapshot!(table(&replayed), @r"
        # busbw tune --replay: the calls of a dump of PyTorch's flight recorder, measured without the job
        # medians of 6 launches in turns, ± half their 95 % interval; gaps between calls, and calls that overlap, are not replayed
        # default: nothing set
        # recommended: NCCL_MIN_NCHANNELS=16
        # ×: times as fast as the first; + faster, - slower, = the same, ? not decided by these launches
        #
        #  operation    size      type  redop  ranks  calls   bytes   default   ±%  recommended   ±%      ×
          all_reduce  64 MiB  bfloat16    sum      8    100  90.0 %   1000 us  0.2       800 us  0.2  1.25+
          all_gather   1 MiB  bfloat16      -      8   1000   9.0 %  50.00 us  0.2     50.00 us  0.2  1.00=
           all calls                                         99.0 %  150.0 ms  0.2     130.0 ms  0.2  1.15+
        # WAIVED: alltoallv of 64 KiB, 5 calls, 1.0 % of the bytes: the trace has no sizes of pairs, which alltoallv needs
        ");
    }

    #[test]
    fn without_figures_there_is_no_total() {
        let mut replayed = replayed();
        replayed.rows.iter_mut().for_each(|row| row.waived = Some("it failed".to_owned()));
        total::add(&mut replayed);
        assert_eq!((replayed.totals.clone(), replayed.against), ([None, None], None));
        assert!(!table(&replayed).contains("all calls"));
    }
}
