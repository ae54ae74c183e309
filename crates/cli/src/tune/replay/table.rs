//! A replay as a table: a row a class, one total.
//! Not measuring (`replay`).

use std::fmt::Write;

use busbw_analysis::sweep::Cell;
use busbw_core::{
    columns::aligned,
    printable::printable,
    quantity::{bytes, count, time},
};
use busbw_stats::{Comparison, Interval};

use super::{Replayed, Row, total::Total};
use crate::sweep;

/// The whole table.
pub(super) fn table(replayed: &Replayed) -> String {
    let [default, recommended] = &replayed.environments;
    let gaps = match replayed.recorded_us {
        us if us > 0.0 => format!("{} in the job", time(us)),
        _ => "without gaps".to_owned(),
    };
    let mut text = format!(
        "# busbw tune --replay: {} of {} in their order, of {}, {gaps}\n# medians of {} launches in turns, ± half their 95 % interval\n",
        count(replayed.calls, "call"),
        printable(&replayed.of),
        replayed.source,
        replayed.launches,
    );
    for one in [default, recommended] {
        let _ = writeln!(text, "# {}: {}", printable(&one.name), printable(&one.settings()));
    }
    for left in &replayed.left_out {
        let calls = count(left.calls, "call");
        let _ = writeln!(text, "# left out: {}: {calls}", printable(&left.reason));
    }
    text.push_str("# ×: times as fast as the first; + faster, - slower, = the same, ? not decided by these launches\n");
    text.push_str("# the sequence: from its first call to the end of its last one; below the classes the time of their calls alone\n#\n");
    let head = ["operation", "ranks", "size", "type", "redop", "calls", "in the job"];
    let mut head: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
    head.extend([&default.name, "±%", &recommended.name, "±%", "×"].map(str::to_owned));
    let mut lines = vec![head];
    let all = std::iter::once(&replayed.sequence).chain(&replayed.rows);
    let (measured, waived): (Vec<&Row>, Vec<&Row>) = all.partition(|row| row.waived.is_none());
    lines.extend(measured.iter().map(|row| line(row)));
    if let [Some(first), Some(second)] = &replayed.totals {
        let mut line = vec!["all calls".to_owned()];
        line.extend([""; 6].map(str::to_owned));
        line.extend(of_total(first));
        line.extend(of_total(second));
        line.push(factor(replayed.against.as_ref()));
        lines.push(line);
    }
    if replayed.rows.iter().all(|row| row.partition.is_none()) {
        lines.iter_mut().for_each(|line| drop(line.remove(1)));
    }
    text.push_str(&aligned(&lines));
    for row in waived {
        let _ = writeln!(
            text,
            "# WAIVED: {} of {}{}, {}: {}",
            row.operation,
            bytes(row.bytes),
            row.partition.map_or_else(String::new, |of| format!(" on {of} ranks")),
            count(row.calls, "call"),
            printable(row.waived.as_deref().unwrap_or_default()),
        );
    }
    if replayed.interrupted {
        text.push_str("# interrupted\n");
    }
    text
}

fn line(row: &Row) -> Vec<String> {
    let absent = || "-".to_owned();
    let mut line = vec![
        row.operation.to_owned(),
        row.partition.map_or_else(|| "all".to_owned(), |partition| partition.to_string()),
        bytes(row.bytes),
        row.datatype.map_or_else(absent, |one| one.name().to_owned()),
        row.redop.map_or_else(absent, |one| one.name().to_owned()),
        row.calls.to_string(),
        row.in_job_us.map_or_else(absent, time),
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
    use busbw_core::{
        Collective, DataType, ReduceOp,
        plan::{CallClass, Calls, LeftOut},
    };

    use super::super::{of_all, of_class, replayed as made, total};
    use super::*;

    fn class(collective: Collective, bytes: u64) -> CallClass {
        let (datatype, op) = (DataType::Bfloat16, ReduceOp::Sum);
        CallClass { collective, datatype, op, bytes, partition: None, in_job_us: Some(900.0) }
    }

    fn row(empty: Row, centres: [f64; 2]) -> Row {
        let outcome = example::outcome(&[(empty.bytes, centres.map(example::near).to_vec())]);
        let mut cells = outcome.rows[0].cells.clone();
        compare_with(Some(0), &mut cells);
        Row { cells, waived: None, ..empty }
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
        let calls = Calls {
            source: "a dump of PyTorch's flight recorder".to_owned(),
            of: "fr_trace_rank_0".to_owned(),
            classes: vec![
                class(Collective::AllReduce, 64 << 20),
                class(Collective::AllGather, 1 << 20),
                class(Collective::Broadcast, 1 << 10),
            ],
            sequence: (0..=1100)
                .map(|n| (usize::from(n > 99) + usize::from(n > 1099), 500.0))
                .collect(),
            left_out: vec![LeftOut { reason: "messages between two ranks".to_owned(), calls: 5 }],
        };
        let mut replayed =
            made(&calls, [tried("default", None), tried("recommended", Some("16"))], &[]);
        replayed.launches = 6;
        replayed.sequence = row(of_all(&calls), [700_000.0, 650_000.0]);
        replayed.rows[0] = row(of_class(&calls.classes[0], calls.of_class(0)), [1000.0, 800.0]);
        replayed.rows[1] = row(of_class(&calls.classes[1], calls.of_class(1)), [50.0, 50.0]);
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
        # busbw tune --replay: 1101 calls of fr_trace_rank_0 in their order, of a dump of PyTorch's flight recorder, 550.5 ms in the job
        # medians of 6 launches in turns, ± half their 95 % interval
        # default: nothing set
        # recommended: NCCL_MIN_NCHANNELS=16
        # left out: messages between two ranks: 5 calls
        # ×: times as fast as the first; + faster, - slower, = the same, ? not decided by these launches
        # the sequence: from its first call to the end of its last one; below the classes the time of their calls alone
        #
        #    operation     size      type  redop  calls  in the job   default   ±%  recommended   ±%      ×
          the sequence  7.2 GiB         -      -   1101           -  700.0 ms  0.2     650.0 ms  0.2  1.08+
            all_reduce   64 MiB  bfloat16    sum    100      900 us   1000 us  0.2       800 us  0.2  1.25+
            all_gather    1 MiB  bfloat16      -   1000      900 us  50.00 us  0.2     50.00 us  0.2  1.00=
             all calls                                               150.0 ms  0.2     130.0 ms  0.2  1.15+
        # WAIVED: broadcast of 1 KiB, 1 call: it was not measured to its end
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
