//! `busbw plan` from outside: its tables, what it says of figures, what it refuses, its exit codes. The figures themselves are
//! tested where they are computed (`busbw-hardware`).

mod failures;
mod pictures;

use std::process::{Command, Output};

use serde_json::Value;

fn plan(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_busbw"))
        .arg("plan")
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

fn said(line: &str) -> String {
    let output = plan(line);
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(line: &str) -> Value {
    let text = said(&format!("{line} --json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
}

/// 469.67 on two hosts of eight H100 is above any ring: NVLSTree.
#[test]
fn a_figure_excludes_rings() {
    let text = said("--machine dgx-h100 --nodes 2 all_reduce --measured 469.67");
    assert!(text.contains("plausible"), "{text}");
    assert!(text.contains("above the limit of Ring (397.5): excluded"), "{text}");
    assert!(text.contains("NVLSTree: "), "{text}");
    let verdict = &json("--machine dgx-h100 --nodes 2 all_reduce --measured 469.67")["measured"];
    assert_eq!(verdict["position"], "within");
    assert_eq!(verdict["excluded"][0]["algorithm"], "ring");
}

#[test]
fn impossible_figures_name_the_mistake() {
    let output = plan("--machine dgx-h100 --nodes 2 all_reduce --measured 3757");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("impossible") && text.contains("it is in Gb/s, not GB/s"), "{text}");
    let text = said("--machine dgx-h100 all_reduce --measured 275");
    assert!(text.contains("below") && text.contains("it is algbw, not busbw"), "{text}");
}

#[test]
fn every_collective_has_rows_of_rising_size() {
    for name in [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "broadcast",
        "reduce",
        "alltoall",
        "alltoallv",
        "gather",
        "scatter",
        "sendrecv",
        "hypercube",
    ] {
        for machine in ["dgx-h100 --nodes 2", "dgx-a100", "mi300x", "gb200-nvl72 --gpus 8"] {
            let report = json(&format!("--machine {machine} {name} -b 8 -e 8G"));
            let rows = report["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 31, "{name} {machine}");
            for row in rows {
                let at = |key: &str, part: &str| row[key][part].as_f64().unwrap();
                assert!(at("busbw", "low") <= at("busbw", "middle"), "{name} {machine}: {row}");
                assert!(at("busbw", "middle") <= at("busbw", "high"), "{name} {machine}: {row}");
                let most = row["limit"]["busbw"].as_f64().unwrap();
                assert!(at("busbw", "high") <= most * 1.000_001, "{name} {machine}: {row}");
            }
        }
    }
}

#[test]
fn networks_are_answered() {
    let text = said("lossless --rate 400G --ports 128 --round-trip 9us --buffer 165.2MB");
    assert!(text.contains("= 1.35 MB") && text.contains("172.8 MB"), "{text}");
    assert!(text.contains("does not suffice"), "{text}");
    let rows = json("loss --rate 400G --round-trip 80us --exposed 14.3%")["rows"].clone();
    assert!(rows[0]["cost_of_step"].as_f64().unwrap() > 0.10, "{rows}");
    assert!(rows[2]["goodput"].as_f64().unwrap() < 0.10, "{rows}");
    let one = json("collisions --uplinks 8")["busiest"]["slowest_share"].as_f64().unwrap();
    let four = json("collisions --queue-pairs 4 --uplinks 8")["busiest"]["slowest_share"].clone();
    assert!(one < four.as_f64().unwrap());
}

#[test]
fn fabrics_are_answered() {
    let example = said("--example clos-2tier");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), example.replace("ports = 64", "ports = 7")).unwrap();
    let bad = format!("{} all_reduce", file.path().display());
    let output = plan(&bad);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let line = 1 + example.lines().position(|line| line == "ports = 64").unwrap();
    assert!(text.contains(&format!("line {line}: 7 ports")), "{text}");
    std::fs::write(file.path(), example).unwrap();
    let path = file.path().display();
    let whole = &json(&format!("{path} all_reduce --gpus 256 -b 1G -e 1G"))["dimensions"][0];
    let named = json("clos-2tier all_reduce --gpus 256 -b 1G -e 1G");
    assert_eq!(*whole, named["dimensions"][0]);
    let failed = said("clos-2tier all_reduce --gpus 256 -b 1G -e 1G --fail switch:spine*8");
    assert!(failed.contains("failed: switch:spine*8") && failed.contains("lost"), "{failed}");
    let table = said("clos-2tier all_reduce --job tp8,dp -b 1G -e 2G --csv");
    assert_eq!(table.lines().count(), 5, "{table}");
}

#[test]
fn nonsense_is_refused_with_a_sentence() {
    for (line, words) in [
        ("all_reduce", "--machine is missing"),
        ("--machine dgx-9000 all_reduce", "no ready machine"),
        ("--machine dgx-h100 --nodes 0 all_reduce", "--nodes"),
        ("--machine dgx-h100 --nodes 2 --gpus 17 all_reduce", "there are 16 GPUs"),
        ("--machine dgx-h100 --nodes 2 --gpus 7 all_reduce", "evenly"),
        ("--machine dgx-h100 -g 1 all_reduce", "takes two GPUs"),
        ("--machine dgx-h100 -b 0 all_reduce", "0 bytes"),
        ("--machine dgx-h100 -b 8G -e 1G all_reduce", "must not be above"),
        ("--machine dgx-h100 --measured=-1 all_reduce", "above 0"),
        ("--machine hgx-h800 --nodes 2 all_reduce", "NICs"),
        ("--machine dgx-a100 --algorithm NVLS all_reduce", "not offered"),
        ("clos.toml all_reduce", "cannot read the fabric file clos.toml"),
        ("clos-2tier all_reduce --gpus 999999", "a fabric that has 2048"),
        ("clos-2tier all_reduce --fail switch:core", "there is no tier `core`"),
        ("clos-2tier all_reduce --job tp7,dp", "7 ranks do not divide 2048 GPUs"),
        ("--example nothing", "there are clos-2tier"),
        ("clos.toml", "needs a collective"),
        ("loss --machine dgx-h100", "--machine is of a collective"),
        ("loss --rate 400G", "--round-trip"),
        ("lossless --rate 800G --cable 10m", "not known"),
        ("collisions", "--uplinks"),
    ] {
        let output = plan(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(words), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn csv_has_a_line_a_size() {
    let text = said("--machine dgx-h100 all_reduce -b 1M -e 8M --csv");
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.starts_with("size,algorithm,protocol,time_us"), "{text}");
}
