//! Logs of nccl-tests and OSU: whole, cut, torn, mixed, prefixed by launchers; statistics of busbw's net plugin;
//! then the explanations of them.
//! Not whether a figure is right; the tests beside the code say that.
#![no_main]

use busbw_analysis::explain::{Hardware, explain, print};
use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_hardware::machine::ready::ready;
use busbw_logs::import::{self, Imported};
use busbw_logs::measurement::{Folded, Measurement};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let read = import::read(data, "fuzz").ok();
    let rows = |read: &Imported| read.measurements.iter().map(|run| run.rows.len()).sum::<usize>();
    let counted = |read: &Imported| read.measurements.iter().any(|run| !run.paths.is_empty());
    share::count(read.as_ref().is_some_and(|read| rows(read) > 0 || counted(read)));
    let Some(read) = read else { return };
    for run in &read.measurements {
        let json = serde_json::to_string(&Folded::from(run.clone())).expect("a run is JSON");
        let back: Folded = serde_json::from_str(&json).expect("and back");
        // What is said of the text around a run, and not of what ran, is not in its JSON.
        let run = Measurement { announced: None, page: None, ..run.clone() };
        assert_eq!(Measurement::from(back), run);
    }
    if !data.trim_ascii_start().starts_with(b"{") {
        assert_eq!(read.lines.rows as usize, rows(&read), "rows are counted once");
    }
    let hardware = Hardware { machine: ready("dgx-h100"), nodes: None, ..Hardware::default() };
    for told in explain(read.measurements, &hardware) {
        assert!(!told.sentence.is_empty());
        assert!(told.findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
        assert!(told.percent.is_none() || told.limit.is_some());
        serde_json::to_string(&told).expect("an explanation is JSON");
        print(&mut std::io::sink(), &told, true).expect("a sink takes everything");
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let text = match draw.below(16) {
        0 => stats(&mut draw),
        1..=4 => {
            let mut lines = vec![head(&mut draw)];
            lines.extend((0..=draw.below(8)).map(|_| line(&mut draw)));
            lines.join("\n")
        }
        5..=11 => {
            let text = String::from_utf8_lossy(&data[..size]);
            let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            for _ in 0..=draw.below(3) {
                edit(&mut draw, &mut lines, |draw, old| match old {
                    Some(old) if draw.one_in(2) => damaged(draw, old),
                    _ => line(draw),
                });
            }
            lines.join("\n")
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(text.as_bytes(), data, max_size)
});

/// What a net plugin counted, mostly of the right form.
fn stats(draw: &mut Draw) -> String {
    let path = |draw: &mut Draw| {
        let address = |draw: &mut Draw| {
            format!("10.0.{}.{}:{}", draw.below(2), draw.below(3), draw.below(65536))
        };
        let (local, remote) = (address(draw), address(draw));
        let state = draw.pick(&["up", "up", "doubted", "absent", "gone"]);
        let mut number = || match draw.below(8) {
            0 => 0,
            1 => u64::MAX,
            _ => draw.number(40),
        };
        format!(
            r#"{{"local":"{local}","remote":"{remote}","state":"{state}","bytes":{},"timed_bytes":{},"timed_us":{},"rtt_us":{},"segments":{},"retransmitted":{},"doubled":{},"again":{},"lost":{}}}"#,
            number(),
            number(),
            number(),
            number() % (1 << 32),
            number(),
            number(),
            number(),
            number(),
            number()
        )
    };
    let connection = |draw: &mut Draw| {
        let paths: Vec<String> = (0..draw.below(6)).map(|_| path(draw)).collect();
        let (last, opened, closed) = (draw.below(3), draw.number(12), draw.one_in(2));
        format!(
            r#"{{"peer":"10.0.0.{last}","opened":{opened},"closed":{closed},"paths":[{}]}}"#,
            paths.join(",")
        )
    };
    let connections: Vec<String> = (0..draw.below(4)).map(|_| connection(draw)).collect();
    let interfaces = draw.pick(&[
        "",
        r#"{"name":"a","address":"10.0.0.1","speed_mbps":0}"#,
        r#"{"name":"a","address":"10.0.0.1","speed_mbps":9},{"name":"b","address":"10.0.0.2"}"#,
    ]);
    format!(
        r#"{{"busbw_net_stats":{},"host":"h","pid":1,"written":{},"interfaces":[{interfaces}],"connections":[{}]}}"#,
        draw.pick(&[1, 1, 1, 2]),
        draw.number(12),
        connections.join(",")
    )
}

/// A line that is cut, or into which another begins.
fn damaged(draw: &mut Draw, old: &str) -> String {
    let (before, after) = old.split_at(old.floor_char_boundary(draw.below(old.len() + 1)));
    match draw.below(3) {
        0 => before.to_owned(),
        1 => format!("{before}{}", line(draw)),
        _ => format!("{before}vm:1:1 [0] NCCL INFO Connected all rings\n{after}"),
    }
}

/// The header of a table.
fn head(draw: &mut Draw) -> String {
    draw.pick(&[
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error",
        "#  bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res",
        "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 i_cv%",
        "# OSU MPI-CUDA Latency Test v7.4\n# Size       Avg Latency(us)",
        "# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)",
        "Size (bytes) Latency (us)",
    ])
    .to_owned()
}

fn line(draw: &mut Draw) -> String {
    let prefix = draw.pick(&["", "", "  ", "0: ", "[1,0]<stdout>:", "# ", "| "]);
    let text = match draw.below(12) {
        0..=4 => row(draw),
        5 => format!("{} {}.{:02}", draw.number(34), draw.number(16), draw.below(100)),
        6 => format!("{} {} {}.5", draw.below(40), draw.number(30), draw.number(12)),
        7 => head(draw),
        8 => format!(
            "#  Rank {:2} Group  0 Pid 1 on h{} device {} [0000:0{}:00] NVIDIA {}",
            draw.below(9), draw.below(3), draw.below(8), draw.below(10), draw.pick(&["H100 80GB HBM3", "GB200", "X"])
        ),
        9 => draw.pick(&[
            "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20",
            "# Collective test starting: all_reduce_perf",
            "# Collective test starting: alltoall_perf",
            "# Out of bounds values : 4 FAILED",
            "# Avg bus bandwidth    : 388.893",
            "NCCL version 2.28.9+cuda13.0",
            "host: Test CUDA failure common.cu:1 'x'",
            "+ NCCL_P2P_DISABLE=1",
            "mpirun -np 2 ./all_reduce_perf -b 8",
        ]).to_owned(),
        10 => "vm:1:1 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}".to_owned(),
        _ => format!("noise {}", draw.bits()),
    };
    format!("{prefix}{text}")
}

fn row(draw: &mut Draw) -> String {
    let size = 1u64 << draw.below(35);
    let count = size / draw.pick(&[4, 8, 32, 64]);
    let lead =
        draw.pick(&["float sum -1", "float none -1", "half sum 0", "double", "bfloat16 none 3"]);
    let half = |draw: &mut Draw| {
        let wrong = draw.pick(&["0", "0", "N/A", "2e-07", "1e+06", "3"]);
        format!(
            "{}.{} {}.{:02} {}.{:02} {wrong}",
            draw.number(20),
            draw.below(10),
            draw.number(10),
            draw.below(100),
            draw.number(10),
            draw.below(100)
        )
    };
    let (out, inside) = (half(draw), half(draw));
    if draw.one_in(4) {
        format!("{size} {count} {lead} {out}")
    } else {
        format!("{size} {count} {lead} {out} {inside}")
    }
}
