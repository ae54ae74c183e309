//! Logs of NCCL: whole, torn, glued, prefixed by launchers; what MPI says in between, and what failed.
//! Not whether a fact is right; the tests beside the code say that.
#![no_main]

use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_library_logs::{
    failure::{self, FailureFacts},
    mpi as mpi_log,
    mpi::{CaptureDisabled, MpiFacts, transports_named},
    nccl::{NcclFacts, Parser, parse, transports_set_up},
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let facts = parse(&text);
    share::count(facts.messages.read > 0);
    let mut parser = Parser::new();
    text.lines().for_each(|line| parser.line(line));
    assert_eq!(parser.finish(), facts, "line by line is not as the whole");
    let json = serde_json::to_string(&facts).expect("facts are JSON");
    assert_eq!(serde_json::from_str::<NcclFacts>(&json).expect("and back"), facts);
    adds_up(&facts);
    // What is not NCCL's changes nothing, wherever it stands.
    let noisy: String =
        text.split('\n').map(|line| format!("{line}\n  8 2 float sum -1\n")).collect();
    assert_eq!(parse(&noisy), facts);
    // Nor does what a launcher puts before a line.
    let tagged: String = text.split('\n').map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
    assert_eq!(parse(&tagged).messages, facts.messages);
    by_mpi(&text);
    by_failures(&text, &facts);
});

fn by_failures(text: &str, nccl: &NcclFacts) {
    let facts = failure::parse(text, nccl);
    let json = serde_json::to_string(&facts).expect("facts are JSON");
    assert_eq!(serde_json::from_str::<FailureFacts>(&json).expect("and back"), facts);
    for incident in &facts.incidents {
        assert!(failure::sentence(incident, &facts).ends_with('.'));
    }
}

fn by_mpi(text: &str) {
    let mut parser = mpi_log::Parser::default();
    for line in text.lines() {
        parser.line(line);
        let _ = mpi_log::is_chatter(line);
    }
    let facts = parser.finish(0, text, text.len().is_multiple_of(2), &CaptureDisabled::default());
    let json = serde_json::to_string(&facts).expect("facts are JSON");
    assert_eq!(serde_json::from_str::<MpiFacts>(&json).expect("and back"), facts);
    assert!(transports_named(&[facts]).starts_with("transports set up: "));
}

fn adds_up(facts: &NcclFacts) {
    let of_pairs = facts.pairs.iter().flat_map(|pair| &pair.transports);
    let totals: u64 = facts.transports.iter().map(|ends| ends.connections).sum();
    assert_eq!(of_pairs.map(|ends| ends.connections).sum::<u64>(), totals);
    for ends in &facts.transports {
        assert!(ends.send + ends.receive > 0);
        assert!(ends.connections <= ends.send + ends.receive);
    }
    for communicator in &facts.communicators {
        assert!(!communicator.ranks.is_empty());
        assert!(communicator.ranks.is_sorted_by(|a, b| a.rank < b.rank));
    }
    assert_eq!(facts.left_out, 0, "an input is too short for that");
    let sentence = transports_set_up(std::slice::from_ref(facts));
    assert!(sentence.starts_with("transports "));
    assert_eq!(
        facts.transports.is_empty() && facts.nvls.is_none_or(|n| n.buffers == 0),
        sentence.ends_with("names none")
    );
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let text = match draw.below(16) {
        0..=4 => (0..=draw.below(8)).map(|_| line(&mut draw) + "\n").collect(),
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

/// A line that is cut, or into which another begins.
fn damaged(draw: &mut Draw, old: &str) -> String {
    let at = old.floor_char_boundary(draw.below(old.len() + 1));
    let (before, after) = old.split_at(at);
    match draw.below(4) {
        0 => before.to_owned(),
        1 => format!("{before}{}", line(draw)),
        2 => format!(
            "{before}{}{after}",
            draw.pick(&["\x1b[0m", "\r", "\0", "é", "9", " ", "/", "[", "]", ":"])
        ),
        _ => format!("{before}{}", &after[after.ceil_char_boundary(after.len().min(3))..]),
    }
}

fn line(draw: &mut Draw) -> String {
    const BEFORE: [&str; 8] = [
        "",
        "",
        "",
        "",
        "[1,0]<stdout>:",
        "0: ",
        "[2026-05-05 06:16:47] ",
        "\x1b[36m(pid=1)\x1b[0m ",
    ];
    let (before, host) = (draw.pick(&BEFORE), draw.pick(&["vm", "node-1", "n.x"]));
    let (process, rank) = (draw.number(3), draw.number(3));
    let level =
        draw.pick(&["INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "WARN", "CALL"]);
    let place = draw.pick(&["", "", "", "", "init.cc:5 ", "net.cc:334 (f) ", "showVersion, 544 "]);
    if draw.one_in(8) {
        return of_mpi(draw);
    }
    let said = if draw.one_in(3) { connection(draw) } else { said(draw) };
    format!("{before}{host}:{process}:1 [{rank}] {place}NCCL {level} {said}")
}

fn of_mpi(draw: &mut Draw) -> String {
    let (rank, name) = (draw.number(3), draw.pick(&["ob1", "ucx", "vader", "tcp", "self", ""]));
    match draw.below(4) {
        0 => format!("[vm:1] select: component {name} selected"),
        1 => format!("[vm:1] mca: bml: Using {name} btl for send to [[5,1],{rank}] on node vm"),
        2 => format!(
            "[1.5] [vm:1:0] w.c:1 UCX  INFO    ep_cfg[{rank}]: tag({name}/memory) am({name}/x cma/y)"
        ),
        _ => {
            format!("[1.5] [vm:1:0] w.c:1 UCX  INFO    0x1 intra-node cfg#{rank} tag({name}/eth0)")
        }
    }
}

fn connection(draw: &mut Draw) -> String {
    let (channel, from, to) = (draw.number(5), draw.number(3), draw.number(3));
    let (device, proxy) = (draw.number(3), draw.number(3));
    let head = match draw.below(8) {
        0 => format!("Ring {channel:02} : {from} -> {to}"),
        1 => format!("Channel {channel:02} : {from}[e000] -> {to}[13000]"),
        2 => format!("CollNet {channel:02}/0 : {from}"),
        _ => format!("Channel {channel:02}/0 : {from}[{from}] -> {to}[{to}]"),
    };
    let direction = draw.pick(&["", "", " [send]", " [receive]"]);
    let via = match draw.below(6) {
        0 | 1 => draw
            .pick(&["P2P/CUMEM", "P2P/direct pointer", "P2P/IPC", "P2P/MNNVL", "P2P/indirect/1[2]"])
            .to_owned(),
        2 => draw
            .pick(&["SHM/direct/direct", "SHM/direct", "SHM/CE/CE", "direct shared memory"])
            .to_owned(),
        3 => format!("NET/{}/{device}({proxy})", draw.pick(&["IB", "Socket", "AWS Libfabric"])),
        4 => format!("COLLNET/SHARP/{device}"),
        _ => format!("NET/{}/{device}", draw.pick(&["IB", "Socket", "AWS Libfabric"])),
    };
    let tail = draw.pick(&[
        "",
        "",
        "",
        "/read",
        "/CE",
        "/GDRDMA",
        "/GDRDMA(PCI)/Shared",
        " comm 0x5 nRanks 08",
    ]);
    format!("{head}{direction} via {via}{tail}")
}

fn said(draw: &mut Draw) -> String {
    let (a, b, c) = (draw.number(3), draw.number(6), draw.number(40));
    match draw.below(26) {
        0 => format!(
            "comm 0x{a:x} rank {a} nranks 8 cudaDev {b} nvmlDev {b} busId {c:x} commId 0x{b:x} - Init START"
        ),
        1 => format!(
            "ncclCommInitRank comm 0x{a:x} rank {a} nranks 8 cudaDev {b} busId {c:x} commId 0x{b:x} - Init COMPLETE"
        ),
        2 => format!(
            "[Rank {a}] ncclCommSplit comm 0x{a:x} rank {a} nranks 2 parent 0x{b:x} splitCount 1 color {b} key 0 commId 0x{c:x} - Init START"
        ),
        3 => format!(
            "comm 0x{a:x} rank {a} nRanks 8 nNodes {b} localRanks 4 localRank {a} MNNVL {}",
            draw.below(3)
        ),
        4 => format!(
            "comm 0x{a:x} rank {a} nranks 8 cudaDev {b} busId {c:x} - {} COMPLETE",
            draw.pick(&["Destroy", "Abort", "Init"])
        ),
        5 => format!(
            "{b} coll channels, {b} collnet channels, {a} nvls channels, {c} p2p channels, {a} p2p channels per peer"
        ),
        6 => format!(
            "{b} coll channels, {a} nvls channels, {b} p2p channels, {a} p2p channels per peer"
        ),
        7 => format!(
            "Connected {}",
            draw.pick(&[
                "all rings",
                "all rings, use ring PXN 0 GDR 1",
                "all trees",
                "binomial trees",
                "NVLS tree",
                "to proxy localRank 1"
            ])
        ),
        8 => format!("NCCL version 2.{b}.{a}+cuda13.{a}"),
        9 => format!("cudaDriverVersion {c}"),
        10 => format!("Using network {}", draw.pick(&["IB", "Socket", "AWS Libfabric"])),
        11 => format!(
            "NET/IB : Using [0]mlx5_{a}:1/RoCE [1]mlx5_{b}:1/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>"
        ),
        12 => format!("NET/Socket : Using [0]eth{a}:10.0.0.1<0> [1]lo:127.0.0.1<0>"),
        13 => format!(
            "NET/IB : GPU Direct RDMA {} for HCA {a} 'mlx5_{a}'",
            draw.pick(&["Enabled", "Disabled"])
        ),
        14 => format!("NET/Socket: Using {a} threads and {b} sockets per thread"),
        15 => format!(
            "{}/Plugin{}: {}",
            draw.pick(&["NET", "TUNER", "PROFILER", "ENV", "GIN"]),
            draw.pick(&["", " "]),
            draw.pick(&[
                "Loaded net plugin x (v8)",
                "Loaded x (v5)",
                "Using x (v5)",
                "Could not find: a.so. Using internal net plugin.",
                "Failed to find s.",
                "Plugin load (a.so) returned 2",
                "dlerror=x (a.so), y",
                "Assigned plugin G type 3 to comm"
            ])
        ),
        16 => format!(
            "{} NET plugin IB{}",
            draw.pick(&[
                "Initialized",
                "Assigned",
                "Failed to initialize",
                "External",
                "Successfully loaded external"
            ]),
            draw.pick(&["", " to comm", " is unsupported"])
        ),
        17 => format!("NCCL_X{a} set by environment to {b}."),
        18 => format!("Comm config X{a} set to {b}"),
        19 => format!("AllReduce: {c} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..{b}}}"),
        20 => format!("{c} Bytes -> Algo {a} proto {} time {b}.5", draw.below(4)),
        21 => format!(
            "AllGather [{}]: {c} Bytes -> Kernel k nchannels {b} nthreads 512{}",
            draw.pick(&["Symmetric", "Copy Engine", "Hierarchical CE"]),
            draw.pick(&["", " nWorks 3"])
        ),
        22 => format!(
            "Pattern {a}, crossNic 0, nChannels {b}, bw {b}.5/{a}.0, type NVL/PIX, sameChannels {}",
            draw.below(2)
        ),
        23 => format!(
            "Init timings - ncclCommInitRank: rank {a} nranks 8 total {b}.5 (kernels {a}.1, rest 0.0)"
        ),
        24 => format!(
            "NVLS {}",
            draw.pick(&[
                "multicast support is available on dev 0",
                "multicast support is not available on dev 0",
                "comm 0x5 headRank 0 nHeads 8",
                "Created Multicast group 0x5",
                "Head 0: 0 8"
            ])
        ),
        _ => format!(
            "MNNVL busId 0x{a:x} fabric UUID {b:x}.{c:x} cliqueId 0x{a:x} state 3 healthMask 0x0"
        ),
    }
}
