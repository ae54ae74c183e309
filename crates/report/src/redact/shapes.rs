//! What is known for an address, a GUID or a serial number by its shape, or by the word before it.
//! Not names, which have neither (`learn`).

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
    sync::LazyLock,
};

use regex::Regex;

/// Something to replace.
pub(super) struct Found {
    pub range: Range<usize>,
    /// What its replacement is called.
    pub kind: &'static str,
}

const ADDRESS: &str = "address";
const ID: &str = "id";

/// Shapes in which any match counts: the whole match, or its first group.
static FIXED: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let shapes = [
        // UUIDs, those of GPUs and of their parts among them; the driver also takes their beginning.
        (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", ID),
        (r"(?i)\b(?:GPU|MIG)-([0-9a-f]{6,}(?:-[0-9a-f]{1,12})*)", ID),
        // Addresses of Ethernet (6 bytes), InfiniBand ports (8) and IPoIB (20).
        (r"(?i)\b[0-9a-f]{2}(?::[0-9a-f]{2}){5,19}\b", ADDRESS),
        (r"(?i)\b[0-9a-f]{2}(?:-[0-9a-f]{2}){5,19}\b", ADDRESS),
        (r"(?i)\b[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}\b", ADDRESS),
        // GUIDs as RDMA tools print them.
        (r"(?i)\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b", ID),
        (r"(?i)\b0x[0-9a-f]{12,32}\b", ID),
        (r#"(?i)guid["']?\s*[:=]?\s*["']?(?:0x)?([0-9a-f]{8,32})\b"#, ID),
        // An interface that is named after its address.
        (r"(?i)\benx([0-9a-f]{12})\b", ADDRESS),
    ];
    shapes.into_iter().filter_map(|(shape, kind)| Some((Regex::new(shape).ok()?, kind))).collect()
});

/// Serial numbers, after what says that they are some.
static SERIAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)(?:serial(?:[ _-]?(?:numbers?|num|nos?|ids?)|s)?\.?|(?:^|[^a-z])(?:s/ns?|s\.n\.|sns?))["']?(\s*(?:is|are|[:=#>])\s*|\s+)["'(<]?((?:[a-z0-9][a-z0-9_-]{3,}(?:["')]?(?:\s*[,;/&]\s*|\s+and\s+)["'(]?)?)+)"#,
    )
    .ok()
});

/// The serial numbers that a text names: with a digit, and long unless a sign says that they are some.
pub(super) fn serials(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for one in SERIAL.iter().flat_map(|shape| shape.captures_iter(text)) {
        let (Some(sign), Some(list)) = (one.get(1), one.get(2)) else { continue };
        let least = if sign.as_str().trim().is_empty() { 6 } else { 4 };
        let words = list.as_str().split(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)));
        found.extend(
            words.filter(|word| {
                word.len() >= least && word.bytes().any(|byte| byte.is_ascii_digit())
            }),
        );
    }
    found
}

/// Everything to replace, in order, without overlaps.
pub(super) fn find(text: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut add = |range: Range<usize>, kind: &'static str| {
        let free = found
            .iter()
            .all(|other| other.range.end <= range.start || range.end <= other.range.start);
        if free && !range.is_empty() {
            found.push(Found { range, kind });
        }
    };
    // A text without a digit holds none of these.
    if !text.bytes().any(|byte| byte.is_ascii_digit()) && !text.contains(':') {
        return found;
    }
    for (shape, kind) in FIXED.iter() {
        for one in shape.captures_iter(text) {
            if let Some(part) = one.get(1).or_else(|| one.get(0)) {
                add(part.range(), kind);
            }
        }
    }
    for (range, kind) in runs(text) {
        add(range, kind);
    }
    found.sort_by_key(|found| found.range.start);
    found
}

/// IP addresses, and long hexadecimal numbers: runs of such characters that no letter or digit touches.
fn runs(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let wordy = |byte: &u8| byte.is_ascii_alphanumeric();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let touched = at > 0 && bytes.get(at - 1).is_some_and(wordy);
        if touched || !(byte.is_ascii_hexdigit() || *byte == b':') {
            at += 1;
            continue;
        }
        let run = |of: fn(&u8) -> bool| {
            bytes.get(at..).unwrap_or_default().iter().take_while(|byte| of(byte)).count()
        };
        let address = longest(text, at, run(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')));
        let hex = run(u8::is_ascii_hexdigit);
        if let Some(end) = address {
            found.push((at..end, ADDRESS));
            at = end;
        } else if is_identifier(bytes.get(at..at + hex).unwrap_or_default())
            && !bytes.get(at + hex).is_some_and(wordy)
        {
            found.push((at..at + hex, ID));
            at += hex;
        } else {
            at += 1;
        }
    }
    found
}

/// The end of the longest address that begins at `at` and is no longer than `length`.
fn longest(text: &str, at: usize, length: usize) -> Option<usize> {
    // No address is longer than this.
    let most = length.min(45);
    (2..=most).rev().map(|length| at + length).find(|end| {
        let next = text.as_bytes().get(*end);
        let touched = next.is_some_and(u8::is_ascii_alphanumeric);
        !touched && text.get(at..*end).is_some_and(is_address)
    })
}

/// An address that is some machine's: not that of every machine.
fn is_address(word: &str) -> bool {
    if let Ok(address) = word.parse::<Ipv6Addr>() {
        return !address.is_loopback() && !address.is_unspecified();
    }
    let parts: Vec<&str> = word.split('.').collect();
    let octets: Vec<u8> = parts
        .iter()
        .filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|part| part.parse().ok())
        .collect();
    let [a, b, c, d] = octets[..] else { return false };
    let address = Ipv4Addr::new(a, b, c, d);
    parts.len() == 4 && !address.is_loopback() && !address.is_unspecified()
}

/// A hexadecimal number that is too long for a figure: with a letter and a digit, 12 or more.
fn is_identifier(word: &[u8]) -> bool {
    word.len() >= 12
        && word.iter().any(u8::is_ascii_digit)
        && word.iter().any(u8::is_ascii_alphabetic)
}
