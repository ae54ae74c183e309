//! What tells of a job that hangs: reports of NCCL's RAS, dumps of PyTorch's flight recorder, files of busbw's profiler.
//! Not whether a verdict is right; the tests beside the code say that.
#![no_main]

use busbw_analysis::hang::{judge, print, print_markdown};
use busbw_fuzz::{
    draw::{Draw, put},
    share,
};
use busbw_logs::hang::Reader;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::default();
    // Two files: the second is a newer report, or another rank's.
    let half = data.iter().position(|byte| *byte == 0xff).unwrap_or(data.len());
    let (first, rest) = data.split_at(half);
    let mut read = false;
    for (name, bytes) in [("rank_0", first), ("rank_1", rest.get(1..).unwrap_or_default())] {
        match reader.read(bytes, name, Some(1_795_477_300_000_000_000)) {
            Ok(()) => read = true,
            Err(error) => {
                let said = error.to_string();
                assert!(!said.is_empty() && said.len() < 8192, "{said}");
            }
        }
    }
    share::count(read);
    let evidence = reader.finish();
    for group in &evidence.groups {
        assert!(group.members.values().all(|member| member.process < evidence.processes.len()));
    }
    let report = judge(&evidence);
    assert!(!report.sentence.is_empty());
    assert!(report.ranks.len() <= 64 && report.communicators.len() <= 64);
    // Who is named is named in a verdict that names somebody, and a certainty goes with a claim.
    let claims = report.confidence.is_some();
    assert!(claims || report.ranks.is_empty(), "{report:?}");
    let again = judge(&evidence);
    assert_eq!(again, report);
    let mut text = Vec::new();
    print(&mut text, &report, true, false).expect("memory can be written");
    print_markdown(&mut text, &report).expect("memory can be written");
    serde_json::to_string(&report).expect("a report is plain data");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let bytes = match draw.below(8) {
        0 | 1 => ras(&mut draw).into_bytes(),
        2 => [ras(&mut draw).as_bytes(), &[0xff], ras(&mut draw).as_bytes()].concat(),
        3 => watch(&mut draw).into_bytes(),
        4 => [watch(&mut draw).as_bytes(), &[0xff], watch(&mut draw).as_bytes()].concat(),
        5 => [dump(&mut draw).as_bytes(), &[0xff], dump(&mut draw).as_bytes()].concat(),
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(&bytes, data, max_size)
});

fn several(draw: &mut Draw, most: usize, each: impl Fn(&mut Draw) -> String) -> String {
    let all: Vec<String> = (0..draw.below(most)).map(|_| each(draw)).collect();
    all.join(",")
}

/// A report of RAS.
fn ras(draw: &mut Draw) -> String {
    let communicators = several(draw, 3, |draw| {
        let ranks = several(draw, 4, |draw| {
            format!(
                r#"{{"rank":{},"host":"a","pid":{},"status":{{"async_error":{}}},"collective_counts":{{"AllReduce":{},"Broadcast":{}}}}}"#,
                draw.below(4),
                draw.below(6),
                draw.pick(&[0, 0, 7, 3]),
                draw.below(4),
                draw.below(2)
            )
        });
        let missing = several(draw, 3, |draw| {
            format!(
                r#"{{"rank":{},"host":"{}","pid":{},"nvml_dev":1{}"status":{{"unresponsive":{},"considered_dead":{}}}}}"#,
                draw.below(4),
                draw.pick(&["b", "unknown"]),
                draw.pick(&[0, 1, 2, 3, 4, 5, -1i64]),
                // NCCL 2.28 leaves it out.
                draw.pick(&[",", "\n"]),
                draw.one_in(2),
                draw.one_in(2)
            )
        });
        format!(
            r#"{{"hash":"0x{}","size":{},"ranks":[{ranks}],"missing_ranks":[{missing}]}}"#,
            draw.below(3),
            draw.pick(&[2, 4, 0, 4_294_967_295u64])
        )
    });
    format!(r#"{{"nccl_version":"2.32.3","communicators_count":1,"communicators":[{communicators}],"ras":{{"timeouts_count":{}}}}}"#, draw.below(2))
}

/// A file of the profiler.
fn watch(draw: &mut Draw) -> String {
    let mut out = format!(
        "{{\"kind\":\"process\",\"version\":1,\"busbw\":\"x\",\"host\":\"a\",\"pid\":{},\"rank\":{},\"began\":{},\"interface\":6,\"mask\":1}}\n",
        draw.below(3),
        draw.below(3),
        draw.pick(&[5u64, 1_795_477_277_000_000_000, u64::MAX])
    );
    for _ in 0..draw.below(8) {
        let class = format!(
            "\"communicator\":{},\"operation\":\"{}\",\"count\":{},\"datatype\":\"ncclFloat32\",\"size\":4{}",
            draw.below(2),
            draw.pick(&["AllReduce", "AllGather", "Send", "Recv"]),
            draw.below(3),
            draw.pick(&["", "", ",\"peer\":1", ",\"peer\":0"])
        );
        let number = draw.pick(&[0u64, 1, 2, u64::MAX]);
        let at = draw.pick(&[0u64, 9_000_000_000, u64::MAX]);
        out += &match draw.below(5) {
            0 => format!("{{\"kind\":\"communicator\",\"number\":{},\"id\":\"{}\",\"nodes\":1,\"ranks\":{},\"rank\":{},\"at\":1}}", draw.below(2), draw.pick(&["0xa", ""]), draw.below(4), draw.below(3)),
            1 => format!("{{\"kind\":\"calls\",{class},\"calls\":[[{number},{at},null,null]]}}"),
            2 => format!("{{\"kind\":\"open\",{class},\"sequence\":{number},\"enqueued\":7,\"at\":{at},\"channels_started\":{},\"channels_ended\":0}}", draw.below(2)),
            3 => format!("{{\"kind\":\"totals\",{class},\"at\":{at},\"calls\":{number},\"timed\":0,\"duration\":0}}"),
            _ => format!("{{\"kind\":\"heartbeat\",\"at\":{at},\"clock\":0,\"late\":0,\"dropped_calls\":0,\"dropped_steps\":0}}"),
        };
        out.push('\n');
    }
    out
}

/// A dump of the flight recorder as JSON.
fn dump(draw: &mut Draw) -> String {
    let entries = several(draw, 6, |draw| {
        let name = draw.pick(&["nccl:all_reduce", "gloo:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0", "nccl:coalesced", "nccl:_all_gather_base", "x"]);
        format!(
            r#"{{"record_id":{},"pg_id":0,"process_group":["{}","d"],"collective_seq_id":{},"p2p_seq_id":{},"profiling_name":"{name}","time_created_ns":{},"input_sizes":[[{}]],"input_dtypes":["Float"],"state":"{}","retired":{},"time_discovered_started_ns":{},"is_p2p":{},"frames":[{{"name":"f","filename":"/a.py","line":1}}]}}"#,
            draw.below(2),
            draw.pick(&["0", "1"]),
            draw.pick(&["1", "2", "3", "-1", "9223372036854775807"]),
            draw.below(3),
            draw.pick(&["1795477277000000000", "0", "-5", "9223372036854775807"]),
            draw.pick(&["4", "8", "-1"]),
            draw.pick(&["scheduled", "started", "completed"]),
            draw.one_in(2),
            draw.below(2),
            draw.one_in(3)
        )
    });
    format!(
        r#"{{"version":"2.10","pg_config":{{"{}":{{"ranks":"{}"}}}},"pg_status":{{"0":{{"last_completed_collective":{}}}}},"entries":[{entries}]}}"#,
        draw.pick(&["0", ""]),
        draw.pick(&["[0, 1]", "[0, 1, 2]", "[]", "[1, 0]"]),
        draw.pick(&["\"1\"", "-1", "2"])
    )
}
