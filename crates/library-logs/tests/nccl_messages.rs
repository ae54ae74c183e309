//! The messages of NCCL's releases (crates/nccl-releases/data) before the reader: which kinds it does not know.
//! Not what it makes of those that it knows (`nccl_log`).

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::PathBuf};

use busbw_library_logs::nccl::Parser;

/// The kinds of the newest release that the reader does not know, one a line. After a new release: look at what is new in
/// it, teach the reader what carries facts, and write the file anew (BLESS=1).
const UNKNOWN: &str = "tests/data/nccl_messages_unknown.txt";

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The releases that have data, oldest first.
fn releases() -> Vec<String> {
    let folder = fs::read_dir(here("../nccl-releases/data")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".tsv")).collect();
    names.sort_by_key(|name| {
        name.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>()
    });
    names
}

/// The formats of INFO messages of a release.
fn formats(release: &str) -> BTreeSet<String> {
    let table =
        fs::read_to_string(here(&format!("../nccl-releases/data/{release}/messages.tsv"))).unwrap();
    let info = table.lines().filter_map(|line| line.strip_prefix("INFO\t"));
    info.map(|text| text.replace("\\t", "\t").replace("\\\\", "\\")).collect()
}

/// A message with something in place of each conversion of printf, `word` for each text.
fn filled(format: &str, word: &str) -> String {
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text += &rest[..at];
        let conversion = &rest[at + 1..];
        let end = conversion.find(|c: char| "diuxXpsfgec%".contains(c)).unwrap_or(conversion.len());
        text += match conversion.as_bytes().get(end) {
            Some(b's') => word,
            Some(b'p') => "0x7f0000001000",
            Some(b'f' | b'g' | b'e') => "12.0",
            Some(b'c') => "c",
            Some(b'%') => "%",
            _ => "3",
        };
        rest = conversion.get(end + 1..).unwrap_or("");
    }
    text + rest
}

/// Whether the reader knows it, with one of a few words in place of texts.
fn is_known(format: &str) -> bool {
    ["Enabled", "Destroy", "mlx5_0"].iter().any(|word| {
        let mut parser = Parser::new();
        for line in filled(format, word).split("\\n") {
            parser.line(&format!("host:1:1 [0] NCCL INFO {line}"));
        }
        parser.messages().unknown == 0
    })
}

#[test]
fn what_the_newest_release_prints() {
    let newest = releases().pop().unwrap();
    let unknown: Vec<String> =
        formats(&newest).into_iter().filter(|format| !is_known(format)).collect();
    let text = unknown.join("\n") + "\n";
    if std::env::var_os("BLESS").is_some() {
        fs::write(here(UNKNOWN), &text).unwrap();
    }
    let before = fs::read_to_string(here(UNKNOWN)).unwrap_or_default();
    let before: BTreeSet<&str> = before.lines().collect();
    let now: BTreeSet<&str> = text.lines().collect();
    let (more, fewer): (Vec<_>, Vec<_>) =
        (now.difference(&before).collect(), before.difference(&now).collect());
    assert!(
        more.is_empty() && fewer.is_empty(),
        "NCCL {newest}: not known any more, or new: {more:#?}; known now, or gone: {fewer:#?}"
    );
}

/// Forms whose text has a form of its own, which a word in its place has not: they are read (`nccl_log`).
const FORMED_TEXTS: [&str; 2] =
    ["NET/Plugin : Plugin load returned %d : %s.", "GPU Direct RDMA Disabled for %s"];

/// A message that the reader knew in the form of one release, and does not know in the form that replaced it: beginnings
/// of three words are the same.
#[test]
fn no_form_that_replaced_a_known_one_is_unknown() {
    let beginning = |format: &str| format.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let releases = releases();
    let mut missed = Vec::new();
    for pair in releases.windows(2) {
        let (old, new) = (formats(&pair[0]), formats(&pair[1]));
        for gone in old.difference(&new).filter(|format| is_known(format)) {
            let replaced =
                new.difference(&old).filter(|format| beginning(format) == beginning(gone));
            let replaced = replaced.filter(|format| !FORMED_TEXTS.contains(&format.as_str()));
            for format in replaced.filter(|format| !is_known(format)) {
                missed.push(format!("{} -> {}: {gone} -> {format}", pair[0], pair[1]));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
