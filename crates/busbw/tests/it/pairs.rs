//! `busbw pairs` as people run it: the matrix, who is named, the record, and what else reads it.
//! Not the verdict's rates (tests of `busbw-core`) and not other backends.

use std::process::{Command, Output};

use busbw_core::{
    messages::Messages,
    pairs::Pairs,
    record::{Line, Row, Run},
};
use busbw_store::line;

fn busbw(words: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_busbw")]).args(words.split_whitespace());
    command.args(["-T", "60"]).env("BUSBW_NO_RECORD", "1").output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn record(output: &Output) -> (Run, Vec<Row>) {
    let (mut run, mut rows) = (None, Vec::new());
    for line in text(output).lines() {
        match line::from_text(line.as_bytes()).unwrap() {
            Line::Run(first) => run = Some(*first),
            Line::Row(row) => rows.push(*row),
            _ => {}
        }
    }
    (run.unwrap(), rows)
}

#[test]
fn every_pair_has_a_figure_both_ways() {
    for ranks in [2, 3, 5] {
        let output = busbw(&format!("pairs --backend host -g {ranks} -e 100003 --json"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (run, rows) = record(&output);
        let tests: Vec<Messages> = rows.iter().map(|r| r.pairs.as_ref().unwrap().test).collect();
        assert_eq!(tests, [Messages::Latency, Messages::Bandwidth]);
        assert_eq!(rows.iter().map(|row| row.size).collect::<Vec<_>>(), [8, 100_003]);
        for row in &rows {
            let half = row.out_of_place.as_ref().unwrap();
            assert_eq!((half.figures.wrong, half.batches_us.len()), (Some(0), 7));
            let matrix = Pairs::of_row(&run, &[], row).unwrap();
            for (from, values) in matrix.values.iter().enumerate() {
                for (to, value) in values.iter().enumerate() {
                    assert_eq!(value.is_some(), from != to, "{from} to {to} of {ranks}");
                    assert!(value.is_none_or(|value| value > 0.0));
                }
            }
        }
    }
}

#[test]
fn a_drawn_sample_leaves_cells_empty() {
    let output = busbw("pairs --backend host -g 6 --sample 2 --only latency --json");
    let (run, rows) = record(&output);
    let matrix = Pairs::of_row(&run, &[], &rows[0]).unwrap();
    let peers = |rank: usize| matrix.values[rank].iter().flatten().count();
    assert_eq!((0..6).map(peers).collect::<Vec<_>>(), [2; 6]);
    assert_eq!(rows.len(), 1);
}

#[test]
fn one_host_has_no_rails() {
    let output = busbw("pairs --backend host -g 2 --rails --only latency");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("rails") && said.contains("hosts"), "{said}");
}

#[test]
fn wrong_bytes_are_told_with_their_rank() {
    for row in [0, 1] {
        let fault = format!("rank=1,phase=verify,row={row},do=corrupt:5");
        let output = busbw(&format!("pairs --backend host -g 3 -e 4096 --fault {fault}"));
        assert_eq!(output.status.code(), Some(7), "{}", text(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("rank 1 found"), "{said}");
    }
}

#[test]
fn a_killed_rank_ends_the_run_and_is_named() {
    let output =
        busbw("pairs --backend host -g 3 -e 4096 --fault rank=2,phase=timed,row=1,do=kill");
    assert_eq!(output.status.code(), Some(6), "{}", text(&output));
    assert!(text(&output).contains("latency, half a round trip"), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("rank 2"), "{said}");
}

#[test]
fn csv_has_a_line_for_each_ordered_pair() {
    let output = busbw("pairs --backend host -g 3 -e 4096 --csv");
    let lines: Vec<String> = text(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1 + 2 * 6);
    assert!(lines.iter().all(|line| line.matches(',').count() == 10), "{lines:?}");
}

#[test]
fn what_pairs_have_no_use_for_is_refused_or_waived() {
    for words in ["--repeat 2", "-N 2", "-I 1", "-g 1", "--sample 0", "--rails --sample 2"] {
        let output = busbw(&format!("pairs --backend host -g 2 {words}"));
        assert_eq!(output.status.code(), Some(2), "{words}");
    }
    let output = busbw("pairs --backend host -g 2 -e 64 --only bw -f 2 --precision 2%");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("-f 2 is waived") && said.contains("--precision is waived"), "{said}");
    assert!(busbw("latency -g 2 -e 8 --sample 2").status.code() == Some(2));
}
