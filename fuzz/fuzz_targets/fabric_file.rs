//! Fabric files: `busbw_hardware::fabric::parse` reads any text, and what it reads is built and crossed.
//! Not whether forecasts are right; the tests of `busbw-hardware` say that.
#![no_main]

use busbw_core::Collective;
use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_hardware::fabric::{Fabric, Shape, file::ready_machine, parse, picture, ready};
use busbw_hardware::forecast::Question;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// Larger fabrics take seconds, which the examples' own tests have.
const MAX_GPUS: usize = 4096;
/// The same of an alltoall, whose connections ECMP hashes one by one: of 4,096 GPUs it takes seconds, and more where fuzzed.
const MAX_ALLTOALL_GPUS: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let fabric = parse(&text, &ready_machine);
    share::count(fabric.is_ok());
    match fabric {
        Ok(fabric) => expect(fabric),
        Err(error) => {
            assert!(error.line <= text.split('\n').count().max(1), "{error}");
            assert!(!error.message.is_empty());
        }
    }
});

/// What is read is built, drawn, and has times that are times.
fn expect(fabric: Fabric) {
    let shape = Shape::of(&fabric).expect("read, so it is built");
    assert!(!picture::picture(&fabric, &shape).is_empty());
    if fabric.gpus() > MAX_GPUS || shape.leaf_up * shape.planes > 512 {
        return;
    }
    for collective in [Collective::AllReduce, Collective::AllToAll] {
        if collective == Collective::AllToAll && fabric.gpus() > MAX_ALLTOALL_GPUS {
            continue;
        }
        let question = Question::new(fabric.clone(), collective, vec![8, 1 << 30]);
        let Ok(answer) = question.answer() else { continue };
        for size in answer.dimensions.iter().flat_map(|dimension| &dimension.sizes) {
            let [low, high] = size.time_range_us;
            assert!(size.time_us.is_finite() && size.time_us > 0.0, "{size:?}");
            assert!(low <= size.time_us && size.time_us <= high, "{size:?}");
        }
    }
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let old = String::from_utf8_lossy(&data[..size]).into_owned();
    let text = match draw.below(8) {
        0..=4 => {
            let text = ready::example(draw.pick(&ready::names())).unwrap_or_default();
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

/// A line as fabric files have it.
fn line(draw: &mut Draw) -> String {
    let number = draw.number(12);
    match draw.below(14) {
        0 => format!("hosts = {number}"),
        1 => format!("rails = {}", draw.pick(&[1, 2, 3, 4, 8])),
        2 => format!("planes = {}", draw.pick(&[1, 2, 4, 8])),
        3 => format!("machine = \"{}\"", draw.pick(&["dgx-h100", "dgx-b300", "mi300x", "x"])),
        4 => format!("routing = \"{}\"", draw.pick(&["spray", "ecmp", "x"])),
        5 => "[[tiers]]".to_owned(),
        6 => format!("ports = {number}"),
        7 => format!("rate = {}", draw.pick(&[0, 50, 100, 200, 400, 800])),
        8 => format!("down = {number}"),
        9 => format!("oversubscription = {number}.5"),
        10 => format!("spread = {number}"),
        11 => format!("buffer = {number}"),
        12 => format!("cable_m = {number}"),
        _ => format!("name = \"{}\"", draw.pick(&["leaf", "spine", "a b"])),
    }
}
