//! Traces as jobs leave them: excerpts of real files of each form, and made-up ones of what these lack.
//! Not the single steps, which are tested beside their code.

use std::io::Cursor;

use busbw_core::{Collective, DataType, ReduceOp};

use super::*;

fn trace(files: &[(&str, &[u8])]) -> Result<Trace, TraceError> {
    let mut reader = Reader::default();
    for (name, bytes) in files {
        reader.read(&mut Cursor::new(bytes), name)?;
    }
    reader.finish()
}

/// Operation, type, bytes, operator, ranks, communicators, calls of each class.
fn told(trace: &Trace) -> Vec<String> {
    let class = |class: &Class| {
        let datatype = class.datatype.map_or("-", DataType::name);
        let op = class.op.map_or("-", ReduceOp::name);
        format!(
            "{} {datatype} {} {op} ranks {} in {}: {}",
            class.operation, class.bytes, class.ranks, class.communicators, class.calls
        )
    };
    trace.classes().iter().map(class).collect()
}

mod flight_recorder;
mod inspector;
mod nccl_log;
mod properties;

#[test]
fn what_is_no_trace_says_so() {
    for (bytes, why) in [
        (&b""[..], "it is empty"),
        (b"hello\n", "it is text without a line of NCCL"),
        (b"h:1:1 [0] NCCL INFO Connected all rings\n", "set NCCL_DEBUG_SUBSYS=INIT,COLL"),
        (b"{\"a\":1}", "it is JSON of another form"),
        (b"\x1f\x8b\x08", "gzip -dc"),
        (b"\x00\x01\x02\x03", "it is binary"),
        (b"\x80\x02cos\nsystem\n", "asks Python to import or call something (opcode GLOBAL"),
    ] {
        let error = trace(&[("x", bytes)]).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains('x'), "{error}");
    }
    assert_eq!(
        Reader::default().finish().unwrap_err().to_string(),
        "no call can be used: no file was a trace"
    );
}

#[test]
fn two_sources_are_refused() {
    let log = nccl_log::call("h:1:1 [0]", "AllReduce", 4, 7, 0, 2);
    let error = trace(&[("a.log", log.as_bytes()), ("b", flight_recorder::RANK_0)])
        .unwrap_err()
        .to_string();
    let expected = "b is a dump of PyTorch's flight recorder, and a.log is NCCL's log: name files of one source";
    assert_eq!(error, expected);
    // Prose is no trace, whatever the files before it are.
    for first in [log.as_bytes(), flight_recorder::RANK_0] {
        let error = trace(&[("a", first), ("notes", b"hello\n")]).unwrap_err().to_string();
        assert!(error.contains("notes has no calls of a job: it is text without"), "{error}");
    }
}

#[test]
fn a_mix_for_a_search() {
    let log = [
        nccl_log::call("h:1:1 [0]", "AllReduce", 1024, 7, 0, 8),
        nccl_log::call("h:1:1 [0]", "AllReduce", 1024, 9, 0, 8),
        nccl_log::call("h:1:1 [0]", "AllReduce", 1024, 7, 0, 8),
        nccl_log::call("h:1:1 [0]", "AllGather", 1024, 7, 0, 8),
    ]
    .concat();
    let trace = trace(&[("a.log", log.as_bytes())]).unwrap();
    let mix = [
        Mix { collective: Collective::AllGather, sizes: vec![(32_768, 1.0)] },
        Mix { collective: Collective::AllReduce, sizes: vec![(2048, 1.0), (4096, 2.0)] },
    ];
    assert_eq!(trace.mix(), mix);
    let shares: f64 = trace.classes().iter().map(|class| class.share).sum();
    assert!((shares - 1.0).abs() < 1e-12);
    // Shares that no row has: 1 KiB and 4 bytes of each rank.
    let log = nccl_log::call("h:1:1 [0]", "AllGather", 257, 7, 0, 8)
        + &nccl_log::call("h:1:1 [0]", "AllGather", 1, 7, 0, 8);
    let trace = super::tests::trace(&[("a.log", log.as_bytes())]).unwrap();
    let mix = [Mix { collective: Collective::AllGather, sizes: vec![(8192, 1.0)] }];
    assert_eq!(trace.mix(), mix);
    let rows: Vec<_> =
        trace.classes().iter().map(|class| (class.bytes, class.row_bytes())).collect();
    assert_eq!(rows, [(8224, Some(8192)), (32, None)]);
}

#[test]
fn fewer_sizes_keep_the_calls() {
    let sizes = vec![(1000, 1.0), (1024, 5.0), (1030, 2.0), (1 << 20, 1.0), (3 << 20, 4.0)];
    let mix = Mix { collective: Collective::AllReduce, sizes };
    let at_most = |many| mix.at_most(many).sizes;
    assert_eq!(at_most(5), mix.sizes);
    assert_eq!(at_most(4), [(1000, 1.0), (1024, 7.0), (1 << 20, 1.0), (3 << 20, 4.0)]);
    assert_eq!(at_most(2), [(1024, 8.0), (3 << 20, 5.0)]);
    assert_eq!(at_most(1), [(1024, 13.0)]);
    assert_eq!(at_most(0), at_most(1));
}
