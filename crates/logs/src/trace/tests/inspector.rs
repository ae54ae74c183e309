//! NCCL Inspector's files of each format as a trace.
//! Not real ones: lines after NCCL's own examples (plugins/profiler/inspector/README.md) and inspector_json.cc.

use super::{told, trace};

const V4_0: &str = r#"{"header":{"id":"0xad56c683b0c4ef","rank":1,"n_ranks":3,"nnodes":3},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1772585717263338,"hostname":"n1","pid":48},"coll_perf":{"coll":"AllReduce","coll_sn":8995,"coll_msg_size_bytes":2360832,"coll_exec_time_us":5663,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":0.416887,"coll_busbw_gbs":0.555850}}"#;

#[test]
fn a_line_for_each_call() {
    let other =
        V4_0.replace("\"rank\":1", "\"rank\":2").replace("n1", "n2").replace("5663", "5000");
    let next = V4_0.replace("8995", "8996");
    let gathered = V4_0.replace("AllReduce", "AllGather");
    let trace = trace(&[
        ("1.log", format!("{V4_0}\n{next}\n{gathered}\n").as_bytes()),
        ("2.log", other.as_bytes()),
    ])
    .unwrap();
    assert_eq!(
        told(&trace),
        ["all_gather - 7082496 - ranks 3 in 1: 1", "all_reduce - 2360832 - ranks 3 in 1: 2"]
    );
    // Two ranks reported it: the faster one's time.
    assert_eq!(trace.calls[0].took_us, Some(5000.0));
    assert_eq!((trace.calls.len(), trace.ranks.len()), (3, 2));
}

#[test]
fn the_header_of_v4_3_holds_for_the_lines_behind_it() {
    let text = r#"{"header":{"id":"0xa","comm_name":"DP","rank":0,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.3","hostname":"h","pid":1},"dump_stats":{"coll_records":2,"coll_dropped_total":5,"coll_dropped_since_last_dump":5,"p2p_dropped_since_last_dump":1}}
{"coll_perf":{"coll":"ReduceScatter","coll_algo":"RING","coll_proto":"LL128","coll_sn":1,"coll_msg_size_bytes":1024,"coll_exec_time_us":10,"event_trace_ts":{"coll_start_ts":1000,"coll_stop_ts":1010,"kernel_events":[]}}}
{"coll_perf":{"coll":"ReduceScatter","coll_sn":2,"coll_msg_size_bytes":1024,"coll_exec_time_us":20,"event_trace_ts":{"coll_start_ts":1500,"coll_stop_ts":1510}}}
{"p2p_perf":{"p2p":"Send","p2p_peer":3,"p2p_sn":1,"p2p_msg_size_bytes":4096,"p2p_exec_time_us":7}}
{"proxy_op":{}}
{"coll_perf":{"coll":"ReduceSc"#;
    let trace = trace(&[("x", text.as_bytes())]).unwrap();
    assert_eq!(
        told(&trace),
        ["reduce_scatter - 8192 - ranks 8 in 1: 2", "message - 4096 - ranks 2 in 1: 1"]
    );
    let [scatter, message] = &trace.classes()[..] else { panic!("{trace:?}") };
    assert_eq!((scatter.took_us, scatter.gap_us), (Some(15.0), Some(500.0)));
    assert_eq!((message.took_us, message.gap_us), (Some(7.0), None));
    let reasons: Vec<_> =
        trace.left_out.iter().map(|one| format!("{} {}", one.count, one.reason)).collect();
    assert_eq!(
        reasons,
        [
            "6 calls that NCCL Inspector dropped before it wrote them",
            "1 lines of NCCL Inspector that are damaged or cut"
        ]
    );
}

#[test]
fn a_number_that_ranks_use_for_different_calls_is_said() {
    let other =
        V4_0.replace("\"rank\":1", "\"rank\":2").replace("n1", "n2").replace("2360832", "8");
    let trace = trace(&[("1", V4_0.as_bytes()), ("2", other.as_bytes())]).unwrap();
    assert_eq!(
        trace.disagreements,
        [
            "communicator 0xad56c683b0c4ef, call 8995: n1:48 says all_reduce of 2.3 MiB, n2:48 says all_reduce of 8 B"
        ]
    );
    assert_eq!(trace.calls.len(), 1);
}

#[test]
fn a_call_without_a_header_before_it_is_left_out() {
    let text = r#"{"coll_perf":{"coll":"AllReduce","coll_sn":1,"coll_msg_size_bytes":8,"coll_exec_time_us":1}}"#;
    let error = trace(&[("x", text.as_bytes())]).unwrap_err().to_string();
    assert_eq!(
        error,
        "no call can be used: calls whose communicator no line before them names (1)"
    );
}
