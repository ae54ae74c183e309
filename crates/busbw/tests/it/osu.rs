//! OSU's names on the host backend, and collectives in latency's form: real runs, their output and records.
//! Not the layout, which osu_tables.rs of busbw-cli compares with the original's output, and not messages between pairs.

use std::{
    os::unix::fs::symlink,
    process::{Command, Output},
};

use busbw_core::record::{LatencyFigures, Line, Row};
use busbw_store::line;

const BUSBW: &str = env!("CARGO_BIN_EXE_busbw");

/// Runs a command line, no longer than a minute a wait.
fn run(program: &str, line: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", program]).args(line.split_whitespace()).args(["--timeout", "60"]);
    command.env("BUSBW_NO_RECORD", "1").env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs one of OSU's names on `host`; stdout.
fn osu(line: &str) -> String {
    let ran = run(BUSBW, &format!("{line} --backend host"));
    assert_eq!(ran.status.code(), Some(0), "{line}: {}", text(&ran.stderr));
    text(&ran.stdout)
}

fn rows(line: &str) -> Vec<Row> {
    let printed = osu(&format!("{line} --json"));
    let row = |line: &str| match line::from_text(line.as_bytes()).unwrap() {
        Line::Row(row) => Some(*row),
        _ => None,
    };
    printed.lines().filter_map(row).collect()
}

fn latency(row: &Row) -> &LatencyFigures {
    row.out_of_place.as_ref().unwrap().latency.as_ref().unwrap()
}

/// Every collective at sizes of single bytes, of which no chunk is a multiple of 16, over three ranks: every
/// byte is right, of characters, too, whose sums OSU's own check does not survive.
#[test]
fn every_collective_is_right() {
    for name in [
        "allreduce",
        "allgather",
        "alltoall",
        "alltoallv",
        "bcast",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_block",
        "gather",
        "scatter",
    ] {
        for in_place in ["", "-l"] {
            // MPI_Bcast has one buffer and no such option; alltoall's result in place means nothing here.
            if in_place == "-l" && matches!(name, "bcast" | "alltoall" | "alltoallv") {
                continue;
            }
            let printed = osu(&format!("osu_{name} -g 3 -m 1:8K -i 5 -x 2 -c -T all {in_place}"));
            assert_eq!(printed.matches("# Datatype: ").count(), 3, "{printed}");
            let lines = printed.lines().filter(|line| line.starts_with(|c: char| c.is_numeric()));
            let lines: Vec<&str> = lines.collect();
            assert!(lines.len() > 30, "{name}: {printed}");
            assert!(lines.iter().all(|line| line.ends_with(" Pass")), "{name}: {printed}");
        }
    }
}

/// OSU keeps the iterations of large messages for the next type (osu_allreduce.c:137).
#[test]
fn each_type_begins_with_small_messages() {
    let printed = osu("osu_bcast -g 2 -m 8K:16K -T all -f");
    let rows = printed.lines().filter(|line| line.starts_with(|c: char| c.is_numeric()));
    let last = |line: &str| line.split_whitespace().last().unwrap().to_owned();
    let iterations: Vec<String> = rows.map(last).collect();
    assert_eq!(iterations, ["1000", "100", "1000", "100", "1000", "100"], "{printed}");
}

/// One rank is slow. OSU averages each iteration over ranks before it sorts them (osu_util_mpi.c:737), so
/// that no percentile is far from the mean; and its `Max` is that rank's mean.
#[test]
fn percentiles_are_of_every_rank() {
    let is_seen = || {
        let rows =
            rows("osu_allreduce -g 2 -m 4K:4K -i 300 -x 10 -z10,90 --fault rank=1,do=slow:20");
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        let figures = latency(row);
        let [(10, fast), (90, slow)] = figures.percentiles[..] else { panic!("{figures:?}") };
        assert_eq!(figures.spread.samples, 600);
        assert!(figures.spread.max >= figures.slowest_rank_us, "{figures:?}");
        slow > 4.0 * fast && figures.slowest_rank_us > 3.0 * figures.fastest_rank_us
    };
    // A machine that does other things, too, may hold the quick rank up for longer than the fault does the slow one.
    assert!((0..5).any(|_| is_seen()));
}

/// The lowest bit of one float: OSU's comparison of whole numbers does not see it (osu_util_validation.c).
#[test]
fn one_wrong_bit_fails_and_ends_the_sizes() {
    let line =
        "osu_allreduce -g 2 -m 4:64 -i 3 -x 1 -c -T mpi_float --fault rank=1,row=1,do=corrupt:0";
    let ran = run(BUSBW, &format!("{line} --backend host"));
    let printed = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(7), "{printed}");
    let rows = printed.lines().filter(|line| line.starts_with(|c: char| c.is_numeric()));
    let verdicts: Vec<bool> = rows.map(|line| line.ends_with(" Pass")).collect();
    assert_eq!(verdicts, [true, false], "{printed}");
    let last = "DATA VALIDATION ERROR: osu_allreduce exited with status 7 on message size 8.\n";
    assert!(printed.ends_with(last), "{printed}");
}

/// Rows of a printed table, as cells.
fn table(printed: &str) -> Vec<Vec<&str>> {
    let rows = printed.lines().filter(|line| line.starts_with(|c: char| c.is_numeric()));
    rows.map(|row| row.split_whitespace().collect()).collect()
}

/// OSU's has the headers alone (osu_multi_lat.c).
#[test]
fn multi_lat_has_percentiles_below_their_headers() {
    let printed = osu("osu_multi_lat -g 4 -m 4:8 -i 50 -x 5 -z50,99");
    let header = printed.lines().find(|line| line.starts_with("# Size")).unwrap();
    assert!(header.ends_with("  P50 Tail Lat(us)  P99 Tail Lat(us)"), "{printed}");
    let rows = table(&printed);
    assert_eq!(rows.len(), 2, "{printed}");
    for row in rows {
        let cells: Vec<f64> = row.iter().map(|cell| cell.parse().unwrap()).collect();
        let [_, mean, median, tail] = cells[..] else { panic!("{printed}") };
        assert!(mean > 0.0 && median > 0.0 && tail >= median, "{printed}");
    }
}

/// OSU prints the size that was asked for.
#[test]
fn sizes_are_those_that_moved() {
    for line in
        ["osu_allreduce -g 2 -T mpi_float", "osu_bcast -g 3 -T mpi_int", "osu_bw -T mpi_int"]
    {
        let printed = osu(&format!("{line} -m 5:40 -i 5 -x 1 -c"));
        let sizes: Vec<&str> = table(&printed).iter().map(|row| row[0]).collect();
        assert_eq!(sizes, ["4", "8", "20", "40"], "{line}: {printed}");
    }
}

#[test]
fn show_prints_what_the_run_printed() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    for line in [
        "osu_allgather -g 3 -m 3:48 -i 5 -x 1 -f -c -z",
        "osu_barrier -g 2 -i 20 -x 5 -f -z50",
        "osu_reduce_scatter -g 2 -m 16 -i 5 -x 1 -T all",
        "all_reduce --latency -g 2 -b 8 -e 1K -f 4 -n 5",
        "barrier -g 2 -n 5",
    ] {
        for format in ["", "--csv", "--json"] {
            let _ = std::fs::remove_file(&record);
            let printed = osu(&format!("{line} {format} --record {}", record.display()));
            let show = format!("show {format} {}", record.display());
            let mut shown = Command::new(BUSBW);
            let shown = shown.args(show.split_whitespace()).output().unwrap();
            assert_eq!(text(&shown.stdout), printed, "{line} {format}");
        }
    }
}

#[test]
fn barriers_have_one_row() {
    let printed = osu("osu_barrier -g 2 -i 20 -x 5 -f");
    let lines: Vec<&str> = printed.lines().collect();
    let [blank, title, header, row] = lines.as_slice() else { panic!("{printed}") };
    assert_eq!((*blank, *title), ("", "# OSU HOST Barrier Latency Test v7.4"));
    assert!(header.starts_with("# Avg Latency(us)   Min Latency(us)"), "{header}");
    assert_eq!(row.split_whitespace().last(), Some("20"), "{row}");
    assert_eq!(row.len(), 17 + 18 + 18 + 12, "{row}");
    let ours = osu("barrier -g 3 -n 10");
    let row = ours.lines().find(|line| !line.starts_with('#')).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[0], cells.last()), ("0", Some(&"N/A")), "{ours}");
}

/// Mean, ranks and samples of our own collectives, in nccl-tests' grammar.
#[test]
fn latency_form_of_a_collective() {
    let rows = rows("all_gather --latency -g 2 -b 1K -e 64K -f 8 -n 50 -w 5 --batches 6");
    assert_eq!(rows.iter().map(|row| row.size).collect::<Vec<_>>(), [1024, 8192, 65536]);
    for row in &rows {
        let figures = latency(row);
        let half = row.out_of_place.as_ref().unwrap();
        assert!(row.in_place.is_none());
        assert_eq!((figures.spread.samples, half.figures.wrong), (2 * 6 * 50, Some(0)), "{row:?}");
        assert!(figures.fastest_rank_us <= figures.slowest_rank_us, "{figures:?}");
        assert!(figures.spread.min <= figures.fastest_rank_us, "{figures:?}");
        assert!(figures.spread.max >= figures.slowest_rank_us * 0.999, "{figures:?}");
        assert!(half.summary.as_ref().unwrap().interval.is_some());
    }
}

/// A link of one of OSU's names is that program.
#[test]
fn by_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("osu_bcast");
    symlink(BUSBW, &link).unwrap();
    let ran = run(&link.display().to_string(), "-g 2 -m 4:4 -i 5 -x 1 --backend host");
    let printed = text(&ran.stdout);
    assert!(printed.starts_with("\n# OSU HOST Broadcast Latency Test v7.4\n"), "{printed}");
    let refused = run(&link.display().to_string(), "-A");
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
}
