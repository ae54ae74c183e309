//! Matrices of pairs: `busbw_core::pairs` takes any JSON, and what passes its check can be ranked and written.
//! Not the page that draws them.
#![no_main]

use busbw_core::pairs::{MAX_RANKS, Pairs, SCHEMA};
use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let read = serde_json::from_slice::<Pairs>(data).ok().map(Pairs::checked);
    let pairs = match read {
        Some(Ok(pairs)) => Some(pairs),
        Some(Err(error)) => {
            let said = error.to_string();
            assert!(!said.is_empty() && !said.contains('\n'), "{said}");
            None
        }
        None => None,
    };
    share::count(pairs.is_some());
    let Some(pairs) = pairs else { return };
    let ranks = pairs.labels.len();
    assert!((1..=MAX_RANKS).contains(&ranks) && pairs.pairs_schema <= SCHEMA);
    let all = pairs.worst_first();
    assert_eq!(all.len(), pairs.values.iter().flatten().flatten().count());
    let best_last = |a: f64, b: f64| if pairs.unit.more_is_better() { a <= b } else { a >= b };
    assert!(all.is_sorted_by(|a, b| best_last(a.value, b.value)));
    for pair in &all {
        assert_eq!(pairs.values[pair.from][pair.to], Some(pair.value));
        assert_eq!(pairs.label(pair.to), pairs.labels[pair.to]);
    }
    assert_eq!(pairs.label(ranks), "");
    let json = serde_json::to_vec(&pairs).expect("a matrix is JSON");
    assert_eq!(serde_json::from_slice::<Pairs>(&json).expect("and back"), pairs);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let text = match draw.below(8) {
        0..=4 => matrix(&mut draw),
        5..=6 => {
            let old = String::from_utf8_lossy(&data[..size]).into_owned();
            let mut pieces: Vec<String> = old.split(',').map(str::to_owned).collect();
            edit(&mut draw, &mut pieces, |draw, _| piece(draw));
            pieces.join(",")
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(text.as_bytes(), data, max_size)
});

/// A matrix whose parts fit together.
fn matrix(draw: &mut Draw) -> String {
    let ranks = 1 + draw.below(5);
    let labels: Vec<String> = (0..ranks).map(|rank| format!("\"n{rank} gpu {rank}\"")).collect();
    let row = |draw: &mut Draw| (0..ranks).map(|_| value(draw)).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (0..ranks).map(|_| format!("[{}]", row(draw))).collect();
    format!(
        "{{\"pairs_schema\":{},\"labels\":[{}],\"size\":{},\"unit\":\"{}\",\"values\":[{}]}}",
        draw.below(2),
        labels.join(","),
        draw.number(63),
        draw.pick(&["GB/s", "us"]),
        rows.join(",")
    )
}

fn value(draw: &mut Draw) -> String {
    match draw.below(6) {
        0 => "null".to_owned(),
        1 => draw.pick(&["0", "-0.0", "1e308", "5e-324", "1.7976931348623157e308"]).to_owned(),
        _ => format!("{}.{}", draw.number(12), draw.below(1000)),
    }
}

/// A part that stands between commas.
fn piece(draw: &mut Draw) -> String {
    match draw.below(8) {
        0 => "-1".to_owned(),
        1 => "[]".to_owned(),
        2 => "\"unit\":\"MB/s\"".to_owned(),
        3 => format!("\"pairs_schema\":{}", draw.number(33)),
        4 => "\"what\":null".to_owned(),
        5 => "\"labels\":[]".to_owned(),
        6 => "1e999".to_owned(),
        _ => value(draw),
    }
}
