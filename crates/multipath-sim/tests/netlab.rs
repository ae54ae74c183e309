//! The simulated bed against what was measured on the real one (docs/data/netlab_cases.tsv): the same links,
//! faults and messages,
//! and the same link for each path.
//! Not properties of the transport (`properties`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod bed;

use std::{collections::HashMap, time::Duration};

use bed::Bed;
use busbw_multipath_sim::{
    Change, Label,
    tcp::Algorithm,
    transport::{Endless, Settings},
};

/// How far a case's ratio may be from 1.
const TOLERANCE: f64 = 0.1;
/// Cases that are further away, each with the reason. The list may only become shorter.
const KNOWN: &[(&str, &str)] = &[
    (
        "loss",
        "1.59: packet by packet, two processors are what limits the real bed (slow-loss is 0.98); processors are not simulated",
    ),
    ("0", "1.26: as `loss` (slow-0 is 0.91)"),
];

type Row = HashMap<String, String>;

fn rows() -> Vec<Row> {
    let table = include_str!("../../../docs/data/netlab_cases.tsv");
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let row = |line: &str| {
        names
            .iter()
            .zip(line.split('\t'))
            .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

fn number(row: &Row, name: &str) -> f64 {
    row[name].parse().unwrap_or(0.0)
}

fn links(text: &str) -> Vec<(u64, Duration)> {
    let link = |link: &str| {
        let (rate, queue) = link.split_once(':').unwrap();
        (
            (rate.parse::<f64>().unwrap() * 1e6) as u64,
            Duration::from_secs_f64(queue.parse::<f64>().unwrap() / 1e3),
        )
    };
    text.split(',').filter(|text| *text != "-").map(link).collect()
}

/// Goodput of a row's run, simulated, in Gb/s.
fn simulated(row: &Row, seed: u64) -> f64 {
    let all = links(&row["links_Mbps:queue_ms"]);
    let last = links(&row["last_hop_Mbps:queue_ms"]).first().copied();
    let burst = number(row, "burst_KiB") as u32 * 1024;
    let mut bed = Bed::new(seed, &all, last, burst);
    bed.tcp.algorithm = if row["congestion"] == "bbr" { Algorithm::Bbr } else { Algorithm::Cubic };
    bed.tcp.offload = row["offload"] == "on";
    bed.tcp.mtu = number(row, "mtu_B") as u32;
    let link = number(row, "fault_link") as usize;
    if row["fault"] == "loss" {
        bed.change(link - 1, Change::Loss(number(row, "fault_value")));
    }
    let label = |link: &str| Label::Link(link.parse::<usize>().unwrap() - 1);
    let pairs: Vec<usize> = row["data_links"]
        .split(';')
        .zip(row["ack_links"].split(';'))
        .map(|(data, acks)| {
            let labels = data
                .split(',')
                .zip(acks.split(','))
                .map(|(data, acks)| [label(data), label(acks)])
                .collect();
            let settings = Settings { labels, ..bed.settings() };
            bed.world.connect(settings)
        })
        .collect();
    let time = Duration::from_secs_f64(number(row, "seconds"));
    let (bytes, open) = (number(row, "message_B") as usize, number(row, "open") as usize);
    let mut endless = Endless::new(&pairs, bytes, open).lasting(time);
    let fault = match &row["fault"][..] {
        "blackhole" => Some((Change::Blackhole(true), Change::Blackhole(false))),
        "down" => Some((Change::Up(false), Change::Up(true))),
        // The links of the table have a slow one's own rate.
        "none" | "loss" | "slow" => None,
        other => panic!("{other}"),
    };
    if let Some((on, off)) = fault {
        let began = endless.begin(&mut bed.world);
        let at = |name| began + Duration::from_secs_f64(number(row, name));
        bed.change_at(at("fault_from_s"), link - 1, on);
        bed.change_at(at("fault_to_s"), link - 1, off);
    }
    let each = endless.finish(&mut bed.world);
    let bytes: u64 = each.iter().map(|(bytes, _)| bytes).sum();
    let took = each.iter().map(|(_, took)| took.as_secs_f64()).fold(0.0, f64::max);
    bytes as f64 * 8e-9 / took
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// Each run is simulated with its own links of the paths: a case's ratio is the median of its runs' ratios.
#[test]
fn the_simulated_bed_gives_what_the_real_one_gave() {
    let mut cases: Vec<(String, String, Vec<f64>, Vec<f64>)> = Vec::new();
    for (seed, row) in rows().iter().enumerate() {
        let measured = number(row, "goodput_Gbps");
        // What loses at random is simulated more than once.
        let repetitions = if row["fault"] == "loss" { 3 } else { 1 };
        let simulated = (0..repetitions).map(|turn| simulated(row, (seed * 8 + turn) as u64));
        let simulated = median(simulated.collect());
        if cases.last().is_none_or(|(case, ..)| *case != row["case"]) {
            cases.push((row["case"].clone(), row["fault"].clone(), Vec::new(), Vec::new()));
        }
        let (.., all_measured, all_simulated) = cases.last_mut().unwrap();
        all_measured.push(measured);
        all_simulated.push(simulated);
    }
    println!(
        "| case | fault | measured Gb/s | simulated Gb/s | simulated / measured |\n|---|---|---|---|---|"
    );
    let mut missed = Vec::new();
    for (case, fault, measured, simulated) in cases {
        let ratios =
            measured.iter().zip(&simulated).map(|(measured, simulated)| simulated / measured);
        let ratio = median(ratios.collect());
        let (measured, simulated) = (median(measured), median(simulated));
        println!("| {case} | {fault} | {measured:.3} | {simulated:.3} | {ratio:.2} |");
        let is_known = KNOWN.iter().any(|(known, _)| *known == case);
        let off = (ratio - 1.0).abs();
        if off > TOLERANCE && !is_known {
            missed.push(format!("{case}: {ratio:.2}"));
        }
        if off < TOLERANCE / 2.0 && is_known {
            missed.push(format!("{case}: {ratio:.2}, which is an exception no more"));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
