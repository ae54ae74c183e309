//! Traces of jobs: NCCL's log of its calls, NCCL Inspector's lines, dumps of PyTorch's flight recorder as pickle and JSON.
//! Not whether a call is right; the tests beside the code say that.
#![no_main]

use std::io::Cursor;

use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_logs::trace::{Reader, Trace, TraceError, TraceSource};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let trace = match read(data, &["rank_0"]) {
        Ok(trace) => trace,
        Err(error) => {
            share::count(matches!(error, TraceError::Nothing { .. }));
            let said = error.to_string();
            assert!(!said.is_empty() && said.len() < 8192, "{said}");
            return;
        }
    };
    share::count(true);
    let classes = trace.classes();
    let shares: f64 = classes.iter().map(|class| class.share).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");
    assert!(classes.is_sorted_by(|a, b| a.share >= b.share));
    for class in &classes {
        assert!(class.calls > 0 && class.bytes > 0 && class.communicators > 0, "{class:?}");
        assert!(class.gap_us.is_none_or(|gap| gap >= 0.0));
    }
    for call in &trace.calls {
        assert!(call.communicator < trace.communicators.len());
        assert!(call.reporter < trace.ranks.len());
    }
    let made: f64 = trace.mix().iter().flat_map(|mix| &mix.sizes).map(|(_, calls)| calls).sum();
    assert!(made <= trace.calls.len() as f64, "a rank makes a call once");
    if trace.source == TraceSource::FlightRecorder {
        // Another rank that says the same adds no call.
        let twice = read(data, &["rank_0", "rank_1"]).expect("it was read before");
        assert_eq!(twice.calls.len(), trace.calls.len());
        assert_eq!(twice.classes(), classes);
        assert!(twice.disagreements.is_empty(), "{:?}", twice.disagreements);
    }
});

fn read(data: &[u8], names: &[&str]) -> Result<Trace, TraceError> {
    let mut reader = Reader::default();
    for name in names {
        reader.read(&mut Cursor::new(data), name)?;
    }
    reader.finish()
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let bytes = match draw.below(16) {
        0 | 1 => lines(&mut draw, call),
        2 | 3 => lines(&mut draw, inspector),
        4 | 5 => json(&mut draw).into_bytes(),
        6..=8 => pickle(&mut draw),
        9..=12 if data[..size].is_ascii() => {
            let text = String::from_utf8_lossy(&data[..size]).into_owned();
            let make = if text.starts_with('{') { inspector } else { call };
            let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            edit(&mut draw, &mut lines, |draw, _| make(draw));
            lines.join("\n").into_bytes()
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(&bytes, data, max_size)
});

fn lines(draw: &mut Draw, line: impl Fn(&mut Draw) -> String) -> Vec<u8> {
    let lines: Vec<String> = (0..=draw.below(10)).map(|_| line(draw)).collect();
    lines.join("\n").into_bytes()
}

/// A line of NCCL's log.
fn call(draw: &mut Draw) -> String {
    let (process, ranks) = (draw.below(3), draw.pick(&[1, 2, 2, 3, 8]));
    let address = draw.pick(&["0x55", "0x66"]);
    let text = match draw.below(6) {
        0 => format!(
            "comm {address} rank {process} nranks {ranks} cudaDev {process} busId a commId 0x{} - Init START",
            draw.below(2)
        ),
        _ => format!(
            "{}: opCount {:x} sendbuff 0x7f recvbuff (nil) count {} datatype {} op {} root {} comm {address} [nranks={ranks}] stream 0x1",
            draw.pick(&[
                "AllReduce",
                "AllGather",
                "ReduceScatter",
                "Broadcast",
                "Send",
                "Recv",
                "Send",
                "Recv",
                "AlltoAll",
                "Scatter",
                "PutSignal"
            ]),
            draw.below(2),
            draw.number(40),
            draw.below(13),
            draw.below(7),
            draw.below(4),
        ),
    };
    let cut = if draw.one_in(8) { draw.below(text.len() + 1) } else { text.len() };
    let text = text.get(..cut).unwrap_or(&text);
    format!("h:{process}:{process} [{process}] NCCL INFO {text}")
}

/// A line of NCCL Inspector.
fn inspector(draw: &mut Draw) -> String {
    let ranks = draw.pick(&[1, 2, 3, 8]);
    let header = format!(
        r#""header":{{"id":"0x{}","rank":{},"n_ranks":{ranks},"nnodes":1}},"metadata":{{"inspector_output_format_version":"v4.{}","hostname":"{}","pid":{}}}"#,
        draw.below(2),
        draw.below(3),
        draw.below(4),
        draw.pick(&["h", "", "g"]),
        draw.below(2)
    );
    let times = match draw.one_in(3) {
        true => format!(r#","event_trace_ts":{{"coll_start_ts":{}}}"#, draw.number(40)),
        false => String::new(),
    };
    let what = match draw.below(5) {
        0 => format!(r#""dump_stats":{{"coll_dropped_since_last_dump":{}}}"#, draw.number(9)),
        1 => format!(
            r#""p2p_perf":{{"p2p":"{}","p2p_peer":{},"p2p_sn":1,"p2p_msg_size_bytes":{},"p2p_exec_time_us":{}{times}}}"#,
            draw.pick(&["Send", "Recv"]),
            draw.below(4),
            draw.number(40),
            draw.number(20)
        ),
        _ => format!(
            r#""coll_perf":{{"coll":"{}","coll_sn":{},"coll_msg_size_bytes":{},"coll_exec_time_us":{}{times}}}"#,
            draw.pick(&["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AllGatherV"]),
            draw.below(9),
            draw.number(60),
            draw.number(20)
        ),
    };
    match draw.one_in(4) {
        true => format!("{{{what}}}"),
        false => format!("{{{header},{what}}}"),
    }
}

/// What an entry of a recorder says.
struct Entry {
    name: &'static str,
    dtype: &'static str,
    elements: [u64; 2],
    number: u64,
    at_ns: u64,
}

fn entry(draw: &mut Draw) -> Entry {
    let elements = draw.number(30);
    let output = draw.pick(&[elements, elements, elements * 2, elements / 2, 0]);
    Entry {
        name: draw.pick(&[
            "nccl:all_reduce",
            "nccl:_all_gather_base",
            "nccl:_reduce_scatter_base",
            "nccl:all_to_all",
            "nccl:broadcast",
            "nccl:scatter",
            "nccl:send 0->1",
            "nccl:recv 0<-1",
            "nccl:send 0->2",
            "nccl:coalesced",
            "nccl:all_gather_into_tensor_coalesced",
            "gloo:barrier",
            "x",
        ]),
        dtype: draw.pick(&["Float", "BFloat16", "Byte", "Short", "ComplexFloat"]),
        elements: [elements, output],
        number: draw.below(5) as u64,
        at_ns: draw.number(62),
    }
}

fn ranks(draw: &mut Draw) -> &'static str {
    draw.pick(&["[0, 1]", "[0, 1]", "[0, 1, 2]", "[]", "[3", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"])
}

/// A dump as JSON.
fn json(draw: &mut Draw) -> String {
    let entries: Vec<String> = (0..draw.below(8))
        .map(|_| {
            let Entry { name, dtype, elements: [input, output], number, at_ns } = entry(draw);
            format!(
                r#"{{"process_group":["{}","d"],"collective_seq_id":{number},"p2p_seq_id":{number},"profiling_name":"{name}","time_created_ns":{at_ns},"duration_ms":{}.5,"input_sizes":[[{input}]],"input_dtypes":["{dtype}"],"output_sizes":[[{output}]],"output_dtypes":["{dtype}"]}}"#,
                draw.below(2),
                draw.below(9)
            )
        })
        .collect();
    format!(
        r#"{{"version":"{}","pg_config":{{"0":{{"ranks":"{}"}}}},"entries":[{}]}}"#,
        draw.pick(&["2.10", "2.4", "3.0"]),
        ranks(draw),
        entries.join(",")
    )
}

/// A dump as pickle, of protocol 2 as PyTorch writes it.
fn pickle(draw: &mut Draw) -> Vec<u8> {
    let mut out = b"\x80\x02}(".to_vec();
    text(&mut out, "version");
    text(&mut out, "2.10");
    text(&mut out, "pg_config");
    out.extend(b"}(");
    text(&mut out, "0");
    out.extend(b"}(");
    text(&mut out, "ranks");
    text(&mut out, ranks(draw));
    out.extend(b"uu");
    text(&mut out, "entries");
    out.extend(b"](");
    for _ in 0..draw.below(6) {
        let Entry { name, dtype, elements, number, at_ns } = entry(draw);
        out.extend(b"}(");
        text(&mut out, "process_group");
        text(&mut out, "0");
        text(&mut out, "d");
        out.push(0x86);
        text(&mut out, "profiling_name");
        text(&mut out, name);
        for (key, value) in
            [("collective_seq_id", number), ("p2p_seq_id", number), ("time_created_ns", at_ns)]
        {
            text(&mut out, key);
            integer(&mut out, value);
        }
        for (sizes, dtypes, elements) in [
            ("input_sizes", "input_dtypes", elements[0]),
            ("output_sizes", "output_dtypes", elements[1]),
        ] {
            text(&mut out, sizes);
            out.extend(b"](](");
            integer(&mut out, elements);
            out.extend(b"ee");
            text(&mut out, dtypes);
            out.extend(b"](");
            text(&mut out, dtype);
            out.push(b'e');
        }
        out.push(b'u');
    }
    out.extend(b"eu.");
    for _ in 0..draw.below(3) {
        // One byte of another opcode, length or text.
        let at = draw.below(out.len());
        if draw.one_in(2) {
            out[at] = draw.pick(b"q\x00h\x01cR0N}](uet\x86\x8a.");
        }
    }
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'X');
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn integer(out: &mut Vec<u8>, value: u64) {
    out.extend([0x8a, 8]);
    out.extend((value & (i64::MAX as u64)).to_le_bytes());
}
