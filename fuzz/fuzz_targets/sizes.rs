//! Sizes as typed: `busbw_core::size::parse` must read what glibc's `sscanf("%lf %1s")` reads.
//! Not the options that carry sizes; `options` has them.
#![no_main]

use std::ffi::{CString, c_char, c_int};

use busbw_fuzz::{
    draw::{Draw, put},
    share,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

unsafe extern "C" {
    fn sscanf(text: *const c_char, format: *const c_char, ...) -> c_int;
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        share::count(false);
        return;
    };
    let ours = busbw_core::size::parse(text);
    share::count(ours.is_ok());
    if let Err(error) = &ours {
        assert!(error.to_string().contains(text), "the message does not name the text: {error}");
    }
    // An argument holds no NUL, so C has no reading of such a text.
    if let Ok(c_text) = CString::new(text) {
        assert_eq!(ours.ok(), theirs(text, &c_text), "{text:?}");
    }
});

/// nccl-tests' `parsesize` on glibc (src/common.cu:227-261), with what busbw refuses on purpose.
fn theirs(text: &str, c_text: &CString) -> Option<u64> {
    if refused_on_purpose(text) {
        return None;
    }
    let (mut value, mut unit) = (0f64, [0u8; 2]);
    // SAFETY: %lf writes one double, and %1s one character and a NUL.
    let read = unsafe { sscanf(c_text.as_ptr(), c"%lf %1s".as_ptr(), &mut value, &mut unit) };
    let factor = match (read, unit[0]) {
        (1, _) => 1u64,
        (2, b'k' | b'K') => 1 << 10,
        (2, b'm' | b'M') => 1 << 20,
        (2, b'g' | b'G') => 1 << 30,
        _ => return None,
    };
    let bytes = value * factor as f64;
    // Beyond 2^62 nothing can be allocated, and C's cast of it to an integer means nothing.
    (bytes >= 0.0 && bytes <= 2f64.powi(62)).then_some(bytes as u64)
}

/// glibc's %lf also takes `inf`, `nan`, hexadecimal, and an exponent without digits (`1eK` is 1 K
/// there, against the C standard). None of them is a size anybody means.
fn refused_on_purpose(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let text = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    if text.starts_with(['i', 'n']) || text.starts_with("0x") {
        return true;
    }
    let after_digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let after_point = after_digits.strip_prefix('.').unwrap_or(after_digits);
    let rest = after_point.trim_start_matches(|c: char| c.is_ascii_digit());
    let exponent = rest.strip_prefix('e').map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    exponent.is_some_and(|digits| !digits.starts_with(|c: char| c.is_ascii_digit()))
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    match draw.below(8) {
        0..=3 => put(typed(&mut draw).as_bytes(), data, max_size),
        4 | 5 => {
            let mut text = String::from_utf8_lossy(&data[..size]).into_owned();
            splice(&mut draw, &mut text);
            put(text.as_bytes(), data, max_size)
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
});

/// A size as people type it, and with all that the grammar allows beside that.
fn typed(draw: &mut Draw) -> String {
    let blank = |draw: &mut Draw| draw.pick(&["", "", "", "", " ", "\t", " \n", "\x0b\x0c\r"]);
    let mut text = String::from(blank(draw));
    text.push_str(draw.pick(&["", "", "", "", "", "+", "-"]));
    let digits = draw.pick(&[2, 7, 12, 32, 62]);
    let whole = draw.number(digits);
    match draw.below(6) {
        0..=2 => text.push_str(&whole.to_string()),
        3 => text.push_str(&format!("{whole}.{}", draw.number(40))),
        4 => text.push_str(&format!(".{}", draw.number(20))),
        _ => text.push_str(&format!("{whole}.")),
    }
    if draw.one_in(6) {
        text.push_str(draw.pick(&["e", "E"]));
        text.push_str(draw.pick(&["", "+", "-"]));
        text.push_str(&draw.number(6).to_string());
    }
    text.push_str(blank(draw));
    text.push_str(draw.pick(&["", "", "", "k", "K", "m", "M", "g", "G", "Gib", "MB", "K K"]));
    text
}

/// Puts a piece of the grammar, or of a neighbouring one, somewhere into the text.
fn splice(draw: &mut Draw, text: &mut String) {
    const PIECES: [&str; 32] = [
        "0",
        "9",
        "8",
        "00",
        ".",
        "e",
        "E",
        "e+",
        "E-5",
        "e308",
        "e-400",
        "+",
        "-",
        " ",
        "\u{a0}",
        "\u{2003}",
        "\0",
        "K",
        "m",
        "G",
        "T",
        "i",
        "B",
        "inf",
        "nan",
        "0x",
        "p3",
        "_",
        ",",
        "é",
        "4611686018427387904",
        "9007199254740993",
    ];
    let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let at = draw.pick(&cuts);
    if draw.one_in(3) && at < text.len() {
        text.remove(at);
    }
    if !draw.one_in(4) {
        text.insert_str(at, draw.pick(&PIECES));
    }
}
