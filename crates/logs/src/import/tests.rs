//! Whole texts, read as they come.

use std::fmt::Write as _;

use crate::measurement::{Folded, Form};
use busbw_core::{Collective, record::Figures};
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use super::*;

const HEADER: &str = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong";
const ROW: &str = "  1073741824     268435456     float     sum      -1   5200.4  206.47  387.14      0   5199.4  206.51  387.21      0";

fn parse(text: &str) -> Imported {
    read(text.as_bytes(), "log").unwrap_or_else(|e| panic!("{e}"))
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes, "log").map_or_else(|e| e.to_string(), |read| panic!("{read:?}"))
}

#[test]
fn what_is_no_log_has_one_reason() {
    assert_eq!(refusal(b""), "log is empty");
    assert_eq!(refusal(b" \n\n"), "log is empty");
    assert_eq!(refusal(b"\x7fELF\0\0"), "log is binary: it has a zero byte at offset 4");
    assert!(refusal(b"{\"a\": 1}").starts_with("log: JSON that is neither"));
    assert!(refusal(b"{\"kind\":\"run\",\"schema\":99}\n").contains("schema 99"));
    assert!(refusal(b"one\ntwo\n").contains("none of its 2 lines is a row"));
    // Their columns are not those of OSU, although one of them is `Latency(us)`.
    let gin = b"# GIN PUT LATENCY: rsm=gpu\n     Size(B)     Iters     Latency(us)\n           4       500           2.345\n";
    assert!(refusal(gin).contains("a GIN program of nccl-tests 2.20"));
    let lookalike = b"NCCL Test Succeeded: Avg bus bandwidth is 230.167\nbye\n";
    assert!(refusal(lookalike).contains("it mentions a bus bandwidth"));
}

#[test]
fn a_row_that_nccl_tore_apart_is_joined() {
    let text = format!(
        "{HEADER}\n     8388608       2097152     float     sum      -1mew0:1:1 [1] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..1}}\n\
         mew0:1:2 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..1}}\n   \
         314.7   26.66   26.66      0mew0:1:1 [1] NCCL INFO Connected all rings\n    310.8   26.99   26.99      0\n"
    );
    let read = parse(&text);
    let [run] = &read.measurements[..] else { panic!("{read:?}") };
    let [row] = &run.rows[..] else { panic!("{run:?}") };
    let busbw = |half: &Option<Figures>| half.as_ref().and_then(|half| half.busbw);
    assert_eq!((busbw(&row.out_of_place), busbw(&row.in_place)), (Some(26.66), Some(26.99)));
    assert_eq!((read.lines.nccl, read.lines.cut), (3, 0));
    assert_eq!(run.library[0].choices[0].calls, 2);
}

#[test]
fn runs_follow_each_other() {
    let run = |name: &str| {
        format!(
            "# Collective test starting: {name}_perf\n# nThread 1 nGpus 2 minBytes 8\n{HEADER}\n{ROW}\n{ROW}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 387.175\n#\n# Collective test concluded: {name}_perf\n"
        )
    };
    let read = parse(&format!("{}noise\n{}", run("all_reduce"), run("sendrecv")));
    let found: Vec<_> =
        read.measurements.iter().map(|m| (m.collective(), m.rows.len(), m.source.line)).collect();
    assert_eq!(found, [(Some(Collective::AllReduce), 2, 1), (Some(Collective::SendRecv), 2, 11)]);
    assert_eq!((read.lines.rows, read.lines.unrecognised), (4, 1));
    // Only a table, pasted twice.
    let read = parse(&format!("{HEADER}\n{ROW}\n{HEADER}\n{ROW}\n"));
    assert_eq!(read.measurements.len(), 2);
    assert_eq!(read.measurements[1].rank_count(), Some(16));
}

#[test]
fn processes_that_ran_each_for_itself_are_told() {
    let preamble = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step\n#  Rank  0 Group  0 Pid 1 on a device  0 [0x08] V100\n";
    let read = parse(&format!("{preamble}{preamble}{HEADER}\n{HEADER}\n{ROW}\n{ROW}\n"));
    let [run] = &read.measurements[..] else { panic!("{read:?}") };
    assert_eq!((run.copies, run.rank_count(), run.rows.len()), (2, Some(1), 2));
}

#[test]
fn a_print_without_a_title_is_osus() {
    let read = parse("Size (bytes) Latency (us)\n0 0 29.97\n1 1 32.68\n");
    let [run] = &read.measurements[..] else { panic!("{read:?}") };
    assert_eq!((run.source.form, run.rows.len(), run.rows[1].size), (Form::Osu, 2, 1));
}

#[test]
fn long_texts_take_time_in_proportion_and_bounded_memory() {
    // Seconds of this thread's processor time: what else the machine does is not in it.
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let [short, long] = [18_750, 150_000].map(|rows| {
        let text = format!("{HEADER}\n{}", format!("{ROW}\n").repeat(rows));
        let begun = now();
        let read = parse(&text);
        let taken = now() - begun;
        assert_eq!(read.lines.rows, rows as u64);
        let [run] = &read.measurements[..] else { panic!("one run") };
        assert_eq!(run.rows.len() as u64 + run.rows_left_out, rows as u64);
        assert!(run.rows_left_out > 0 || rows < 150_000);
        taken
    });
    // Eight times as long; 64 times as much work if it grew with the square.
    assert!(long < 32.0 * short, "{long} s against {short} s");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = read(&bytes[..], "log");
    }

    #[test]
    fn any_cut_of_a_table_keeps_the_rows_before_it(at in 0usize..700) {
        let text = format!("{HEADER}\n{ROW}\n{ROW}\n{ROW}\n{ROW}\n");
        let cut = &text[..at.min(text.len())];
        let whole = cut.matches('\n').count().saturating_sub(1);
        if let Ok(read) = read(cut.as_bytes(), "log") {
            let rows: usize = read.measurements.iter().map(|m| m.rows.len()).sum();
            prop_assert!(rows == whole || rows == whole + 1, "{rows} {whole}");
        } else {
            prop_assert_eq!(whole, 0);
        }
    }
}

#[test]
fn a_table_without_a_head_inherits_the_one_before() {
    let devices: String = (0..2)
        .map(|rank| format!("#  Rank  {rank} Group  0 Pid 1 on h{rank} device  0 [0x08] V100\n"))
        .collect();
    let read = parse(&format!(
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n{devices}{HEADER}\n{ROW}\n{HEADER}\n{ROW}\n"
    ));
    let known: Vec<_> = read.measurements.iter().map(|run| (run.rank_count(), run.hosts)).collect();
    assert_eq!(known, [(Some(2), Some(2)); 2]);
}

#[test]
fn marks_of_traces_within_a_row_are_passed_over() {
    let mark = "BenchTime(), common.cu:561, ";
    let row = format!(
        "TimeTest(), common.cu:610,           64             4     float    none      -1{mark}     477.8    1.00    2.00      0{mark}     466.0    3.00    4.00      0TimeTest(), common.cu:613, "
    );
    let read = parse(&format!("{HEADER}\n{row}\n"));
    let [row] = &read.measurements[0].rows[..] else { panic!("{read:?}") };
    let busbw = |half: &Option<Figures>| half.as_ref().and_then(|half| half.busbw);
    assert_eq!(
        (row.size, busbw(&row.out_of_place), busbw(&row.in_place)),
        (64, Some(2.0), Some(4.0))
    );
    assert_eq!(read.lines.cut, 0);
}

#[test]
fn imported_runs_come_back_from_their_json() {
    let text =
        format!("# Collective test starting: sendrecv_perf\n{HEADER}\n{ROW}\n{HEADER}\n{ROW}\n");
    let runs = parse(&text).measurements;
    let json: Vec<String> = runs
        .iter()
        .map(|run| serde_json::to_string(&Folded::from(run.clone())).expect("a run is JSON"))
        .collect();
    for text in [
        json.join("\n"),
        format!("{}\n\n", json.join("\n")),
        json[0].replace(",\"rows\"", ",\n\"rows\""),
    ] {
        let back = parse(&text).measurements;
        assert_eq!(back, runs[..back.len()], "{text}");
        assert_eq!(back.len(), text.matches("\"imported\"").count());
    }
    let newer = json[0].replacen("\"schema\":1", "\"schema\":99", 1);
    assert!(refusal(newer.as_bytes()).contains("schema 99"), "{newer}");
    assert!(refusal(format!("{}\n{{\"run\":", json[0]).as_bytes()).contains("damaged JSON"));
    assert!(refusal(b"{\"a\":\"\xff\"}").contains("UTF-8"));
}

#[test]
fn a_logs_lines_may_be_wrapped_as_json() {
    let wrap = |line: &str| {
        let text = serde_json::to_string(&format!("{line}\n")).expect("text is JSON");
        format!("{{\"log\":{text},\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05Z\"}}\n")
    };
    let read = parse(&[HEADER, ROW, ROW].map(wrap).concat());
    assert_eq!((read.measurements.len(), read.lines.rows), (1, 2));
}

#[test]
fn tables_of_pages_and_mails() {
    let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join("|");
    for text in [
        format!("|{}|\n|---|---|\n|{}|\n", cells(HEADER.trim_start_matches('#')), cells(ROW)),
        format!("{HEADER}\n{}\n", ROW.replace("  ", "\u{a0} ")),
    ] {
        let read = parse(&text);
        assert_eq!(read.measurements[0].rows.len(), 1, "{text}");
        assert_eq!(
            read.measurements[0].rows[0].in_place.as_ref().and_then(|half| half.busbw),
            Some(387.21)
        );
        assert_eq!(read.lines.cut, 0, "{text}");
    }
}

#[test]
fn other_forms_of_text_are_named() {
    for (start, words) in [
        (&b"\x1f\x8b\x08\0"[..], "compressed with gzip: unpack it first"),
        (b"\x28\xb5\x2f\xfd\0", "compressed with zstd"),
        (b"\xff\xfe#\0", "UTF-16: make it UTF-8 first"),
    ] {
        assert!(refusal(start).contains(words), "{}", refusal(start));
    }
}

#[test]
fn copies_whose_heads_alternate_are_one_run() {
    let head = "# nccl-tests version 2.17.1 nccl-headers=22705 nccl-library=22705\n";
    let start = "[1,0]<stdout>:# Collective test starting: all_reduce_perf\n";
    let parameters = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n[1,0]<stdout>:#\n";
    let text = format!(
        "{head}{head}{start}{start}{parameters}{parameters}{HEADER}\n{HEADER}\n{ROW}\n{ROW}\n"
    );
    let read = parse(&text);
    let [run] = &read.measurements[..] else { panic!("{read:?}") };
    assert_eq!((run.copies, run.rows.len(), read.lines.unrecognised), (2, 2, 0));
}

/// Eight ranks in two groups, as busbw prints them; nccl-tests prints rank 0's group only.
fn split(others: bool) -> String {
    let mut text = "# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n# Using devices\n".to_owned();
    for rank in 0..8 {
        let group = rank % 2;
        let _ = writeln!(
            text,
            "#  Rank {rank:2} Group {group:2} Pid 1 on node1 device {rank:2} [0000:0{rank}:00] NVIDIA H200"
        );
    }
    let _ = write!(text, "{HEADER}\n{}\n", row(4, 400.0));
    if others {
        let _ = writeln!(text, "# Group  1 {}", row(4, 500.0));
    }
    text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 251.658\n"
}

/// 64 MiB of all_reduce on so many ranks in that time.
fn row(ranks: u64, time: f64) -> String {
    let algbw = (64u64 << 20) as f64 / 1e3 / time;
    let busbw = algbw * 2.0 * (ranks - 1) as f64 / ranks as f64;
    let half = format!("{time:.2} {algbw:.2} {busbw:.2} 0");
    format!("67108864 16777216 float sum -1 {half} {half}")
}

#[test]
fn the_groups_of_a_split_run_are_told_apart() {
    for others in [false, true] {
        let read = parse(&split(others));
        let [run] = &read.measurements[..] else { panic!("{read:?}") };
        assert_eq!((run.rank_count(), run.devices.len()), (Some(4), 8));
        let groups: Vec<Option<u64>> = run.rows.iter().map(|row| row.group).collect();
        assert_eq!(groups, [Some(0), Some(1)][..1 + usize::from(others)]);
        assert_eq!(crate::measurement::disagreements(run), []);
        assert_eq!(crate::measurement::stated_average_differs(run), None);
        let json = serde_json::to_string(&Folded::from(run.clone())).expect("a run is JSON");
        assert!(json.contains("\"rows\":[{\"size\":67108864,\"group\":0,"), "{json}");
        assert_eq!(parse(&json).measurements, std::slice::from_ref(run));
        let subject = subject(run);
        assert!(subject.contains("4 ranks on 1 host, group 0"), "{subject}");
        assert_eq!(subject.contains("and rows of group 1"), others, "{subject}");
    }
}

#[test]
fn the_report_of_a_split_run_has_the_ranks_of_its_group() {
    let device = |rank: usize| {
        format!(
            "{{\"rank\":{rank},\"group\":{},\"pid\":1,\"hostname\":\"h{rank}\",\"device\":0,\"device_hex\":\"0000:19:00\",\"device_info\":\"NVIDIA H200\"}}",
            rank / 2
        )
    };
    let devices: Vec<String> = (0..4).map(device).collect();
    let half = "{\"time\":400.0,\"alg_bw\":167.772160,\"bus_bw\":167.772160,\"nwrong\":0.0}";
    let text = format!(
        "{{\"version\":1,\"args\":[\"all_reduce_perf\"],\"config\":{{\"nthreads\":1,\"ngpus\":1,\"devices\":[{}]}},\"results\":[{{\"size\":67108864,\"count\":16777216,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    -1\",\"out_of_place\":{half},\"in_place\":{half}}}]}}",
        devices.join(",")
    );
    let read = parse(&text);
    let [run] = &read.measurements[..] else { panic!("{read:?}") };
    assert_eq!((run.rank_count(), run.hosts, run.group()), (Some(2), Some(2), Some(0)));
    assert_eq!(crate::measurement::disagreements(run), []);
}
