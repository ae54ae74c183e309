//! Machine files: `busbw_hardware::machine::parse` reads any text, and what it reads has limits.
//! Not whether the limits are right; the tests of `busbw-hardware` say that.
#![no_main]

use busbw_core::Collective;
use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_hardware::{
    limits::{RankPlacement, candidates},
    machine::{Machine, parse, ready, write},
    tuning::{Version, infer},
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let machine = parse(&text);
    share::count(machine.is_ok());
    match machine {
        Ok(machine) => {
            assert_eq!(parse(&write(&machine)).as_ref(), Ok(&machine));
            limits(&machine);
        }
        Err(error) => {
            assert!(error.line <= text.split('\n').count().max(1), "{error}");
            assert!(!error.message.is_empty());
        }
    }
});

/// Every bound is a rate, or something is missing; a graph is guessed, or something is missing.
fn limits(machine: &Machine) {
    let placement = RankPlacement::new(machine.nodes, machine.node.gpus);
    for collective in Collective::ALL {
        for candidate in candidates(machine, collective, &placement) {
            match &candidate.limit.payload {
                Some(bound) => {
                    assert!(bound.busbw.is_finite() && bound.busbw > 0.0, "{candidate:?}");
                    assert!(candidate.limit.bottleneck.is_some(), "{candidate:?}");
                }
                None => assert!(!candidate.limit.missing.is_empty(), "{candidate:?}"),
            }
        }
    }
    for minor in Version::KNOWN {
        match infer(machine, &placement, Version::last_of(minor)) {
            Ok(inferred) => {
                let choice = inferred.communicator.choose(Collective::AllReduce, 1 << 20);
                assert!(choice.is_none_or(|choice| choice.best.us > 0.0));
            }
            Err(missing) => assert!(!missing.is_empty()),
        }
    }
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let old = String::from_utf8_lossy(&data[..size]).into_owned();
    let text = match draw.below(8) {
        0..=4 => {
            let names = ready::names();
            let text = ready::text(draw.pick(&names)).unwrap_or_default();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if draw.one_in(2) {
                edit(&mut draw, &mut lines, |draw, _| line(draw));
            }
            lines.join("\n")
        }
        5..=6 => {
            let mut lines: Vec<String> = old.lines().map(str::to_owned).collect();
            edit(&mut draw, &mut lines, |draw, _| line(draw));
            lines.join("\n")
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(text.as_bytes(), data, max_size)
});

/// A line as machine files have it.
fn line(draw: &mut Draw) -> String {
    let number = draw.number(12);
    let link = draw.pick(&["3.0 x8", "4.0 x16", "gen5 x16", "6.0 x16", "5.0 x3"]);
    match draw.below(16) {
        0 => format!("nodes = {number}"),
        1 => format!("gpus = {number}"),
        2 => format!("model = \"{}\"", draw.pick(&["H100 SXM", "NVIDIA B200", "RTX 4090", "x"])),
        3 => format!("sm = {number}"),
        4 => format!("pcie = \"{link}\""),
        5 => format!("cpu = \"{}\"", draw.pick(&["intel", "amd", "arm", "sparc"])),
        6 => format!("between_sockets = {number}.5"),
        7 => "[nvlink]".to_owned(),
        8 => format!("links = {number}"),
        9 => format!("{} = {}", draw.pick(&["switched", "multicast"]), draw.one_in(2)),
        10 => format!("domain = {number}"),
        11 => "[[nics]]".to_owned(),
        12 => format!("fabric = \"{}\"", draw.pick(&["infiniband", "roce", "ethernet"])),
        13 => format!("rate = {number}"),
        14 => format!("slot = \"{link}\""),
        _ => format!("machine = \"{}\"", draw.pick(&ready::names())),
    }
}
