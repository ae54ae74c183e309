//! Limits against results that people published: data/limits/rows.tsv, one machine file each.
//! Every bound within 3 %, the same bottleneck, unknown where it is unknown.

use std::path::Path;

use busbw_core::Collective;
use busbw_core::alltoallv::Traffic;
use busbw_hardware::limits::{
    Algorithm, Bottleneck, Inside, Limit, Memory, Possible, RankPlacement, Resource, candidates,
    explaining, judge, limit, limit_of_traffic,
};
use busbw_hardware::machine::{Machine, parse};

const TOLERANCE: f64 = 0.03;

fn machine(name: &str) -> Machine {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/limits/{name}.toml"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

struct Row {
    number: usize,
    collective: Collective,
    bytes: u64,
    machine: Machine,
    placements: Vec<(RankPlacement, Algorithm)>,
    results: Vec<f64>,
    algbw: bool,
    line: Option<f64>,
    payload: Option<f64>,
    expects: Vec<f64>,
    bottleneck: String,
}

fn rows() -> Vec<Row> {
    let text = include_str!("../data/limits/rows.tsv");
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.split('\t').collect();
    let number = |text: &str| text.parse::<f64>().ok();
    let several = |text: &str| text.split(' ').filter_map(|word| word.parse().ok()).collect();
    let nodes = cells[4].parse().expect("nodes");
    let inside = match cells[6] {
        "best" => Inside::Best,
        "network" => Inside::Network,
        other => panic!("{other}"),
    };
    let memory = if cells[7] == "host" { Memory::Host } else { Memory::Gpu };
    // The first algorithm goes with the first number of ranks, as a report says `2, or 4 by Tree`.
    let placements = cells[5].split(' ').zip(cells[8].split(' ')).map(|(per_node, name)| {
        let per_node = per_node.parse().expect("ranks of a node");
        let placement = RankPlacement { inside, memory, ..RankPlacement::new(nodes, per_node) };
        (placement, Algorithm::from_name(name).expect("an algorithm"))
    });
    Row {
        number: cells[0].parse().expect("a row"),
        collective: Collective::from_name(cells[2]).expect("a collective"),
        bytes: cells[3].parse().expect("bytes"),
        machine: machine(cells[1]),
        placements: placements.collect(),
        results: several(cells[9]),
        algbw: cells[10] == "algbw",
        line: number(cells[11]),
        payload: number(cells[12]),
        expects: several(cells[13]),
        bottleneck: cells[14].to_owned(),
    }
}

/// The column that a row speaks of.
fn column(row: &Row, limit: &Limit, busbw: f64) -> f64 {
    let bound = limit.line.as_ref().expect("a bound");
    if row.algbw { busbw / bound.busbw * bound.algbw } else { busbw }
}

fn close(row: &Row, what: &str, got: f64, wanted: f64) {
    let off = (got / wanted - 1.0).abs();
    println!(
        "row {:>2} {what:<8} {got:>9.3} wanted {wanted:>8.3} off {:.2} %",
        row.number,
        off * 100.0
    );
    assert!(off <= TOLERANCE, "row {}: {what} {got} is not {wanted}", row.number);
}

/// What the bottleneck column may call it.
fn column_words(bottleneck: &Bottleneck) -> Vec<&'static str> {
    match bottleneck {
        Bottleneck::SetBy { resource: Resource::NvLink } => vec!["NVLink"],
        Bottleneck::SetBy { resource: Resource::Nic } => vec!["NIC"],
        Bottleneck::SetBy { resource: Resource::NicSlot } => vec!["PCIe slot"],
        Bottleneck::SetBy { .. } => vec!["another resource"],
        Bottleneck::Elsewhere { considered } if considered.contains(&Resource::NicSlot) => {
            vec!["neither NIC nor slot", "not the line rate"]
        }
        Bottleneck::Elsewhere { .. } => vec!["not the line rate"],
        Bottleneck::Software => vec!["software"],
        Bottleneck::Unknown { .. } => vec!["unknown"],
        Bottleneck::AboveLimit => vec!["above its limit"],
    }
}

#[test]
fn published_results_have_their_limits_and_bottlenecks() {
    let rows = rows();
    assert_eq!(rows.len(), 18);
    for row in &rows {
        assert!(!row.placements.is_empty());
        for (placement, algorithm) in &row.placements {
            let limit = limit(&row.machine, row.collective, *algorithm, placement);
            if let Some(wanted) = row.line {
                let bound = limit.line.as_ref().unwrap_or_else(|| panic!("row {}", row.number));
                close(row, "line", column(row, &limit, bound.busbw), wanted);
            }
            if let Some(wanted) = row.payload {
                let bound = limit.payload.as_ref().unwrap_or_else(|| panic!("row {}", row.number));
                close(row, "payload", column(row, &limit, bound.busbw), wanted);
            }
            if let (Some(low), Some(high)) = (row.expects.first(), row.expects.last()) {
                let expects =
                    limit.expects.as_ref().unwrap_or_else(|| panic!("row {}", row.number));
                close(row, "expects", column(row, &limit, expects.low), *low);
                if row.expects.len() > 1 {
                    close(row, "to", column(row, &limit, expects.high), *high);
                }
            }
            let results: Vec<f64> = match &limit.line {
                Some(bound) if row.algbw => {
                    row.results.iter().map(|rate| rate * bound.busbw / bound.algbw).collect()
                }
                _ => row.results.clone(),
            };
            for busbw in &results {
                if let Some(bound) = &limit.payload {
                    // Reports print two decimals of either column.
                    let printed = 0.005 * bound.busbw / column(row, &limit, bound.busbw);
                    assert!(*busbw - printed <= bound.busbw, "row {}: above", row.number);
                }
            }
            let bottleneck = judge(&limit, row.bytes, &results, None).bottleneck;
            println!("row {:>2} {bottleneck:?}", row.number);
            assert!(
                column_words(&bottleneck).contains(&row.bottleneck.as_str()),
                "row {}: {bottleneck:?}",
                row.number
            );
            if let Bottleneck::Unknown { missing } = &bottleneck {
                assert!(!missing.is_empty(), "row {}: nothing is named", row.number);
            }
        }
    }
}

fn one(row: usize) -> Row {
    rows().into_iter().find(|known| known.number == row).expect("a row")
}

fn of(row: &Row) -> Limit {
    let (placement, algorithm) = &row.placements[0];
    limit(&row.machine, row.collective, *algorithm, placement)
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(of(&one(3)).missing, ["the rate of a NIC"]);
    let row = one(12);
    let Bottleneck::Unknown { missing } =
        judge(&of(&row), row.bytes, &row.results, None).bottleneck
    else {
        panic!("row 12 has no limit");
    };
    assert!(missing[0].starts_with("NVLinks of a GPU: 18"), "{missing:?}");
    assert!(missing[1].contains("NCCL_DEBUG"), "{missing:?}");
}

/// Row 2: "above the ring bound 50: only Tree or NVLSTree explains it".
#[test]
fn a_result_excludes_algorithms() {
    let row = one(2);
    let (placement, _) = row.placements[0];
    let all = candidates(&row.machine, row.collective, &placement);
    assert_eq!(explaining(&all, 84.77), [Algorithm::Tree, Algorithm::NvlsTree]);
    assert_eq!(explaining(&all, 49.0).first(), Some(&Algorithm::Tree));
    assert!(explaining(&all, 49.0).contains(&Algorithm::Ring));
    let ring = all.iter().find(|candidate| candidate.limit.algorithm == Algorithm::Ring);
    let ring = ring.and_then(|candidate| candidate.limit.line.as_ref()).expect("a ring");
    assert!((ring.busbw - 50.0).abs() < 0.01);
    let collnet = all.iter().find(|c| c.limit.algorithm == Algorithm::CollNetChain);
    assert!(
        matches!(collnet.map(|c| &c.possible), Some(Possible::If(why)) if why.contains("SHARP"))
    );
    // Rows 13 and 14: above what a ring or a tree can do.
    let row = one(13);
    let all = candidates(&row.machine, row.collective, &row.placements[0].0);
    assert_eq!(explaining(&all, 476.37), [Algorithm::Nvls]);
    let row = one(14);
    let all = candidates(&row.machine, row.collective, &row.placements[0].0);
    assert!(!explaining(&all, 469.67).contains(&Algorithm::Ring));
}

/// Row 7: "514 line, 423.8 expected, not the limit". Row 4: "a 4-rank ring would stop at 0.083".
#[test]
fn what_does_not_limit_is_known_as_well() {
    let row = one(7);
    let limit7 = of(&row);
    let nvlink =
        limit7.loads.iter().find(|load| load.resource == Resource::NvLink).expect("crossed");
    assert!((nvlink.line_busbw - 514.3).abs() < 0.1, "{nvlink:?}");
    let expected = nvlink.capacity.nccl.expect("known") / nvlink.capacity.line * nvlink.line_busbw;
    assert!((expected - 423.8).abs() < 0.1, "{expected}");
    let row = one(4);
    let ring = limit(&row.machine, row.collective, Algorithm::Ring, &RankPlacement::new(2, 2));
    assert!((ring.line.expect("a bound").algbw - 0.0833).abs() < 0.0001);
}

/// Rows 8 and 14: line rates tie, and NCCL expects less of NVLink.
#[test]
fn ties_are_named() {
    for row in [8, 14] {
        let limit = of(&one(row));
        let line = limit.line.as_ref().expect("a bound");
        assert_eq!(line.set_by, [Resource::NvLink, Resource::Nic], "row {row}");
        assert_eq!(limit.payload.as_ref().expect("a bound").set_by, [Resource::Nic], "row {row}");
        assert_eq!(limit.bottleneck, Some(Resource::NvLink), "row {row}");
    }
}

/// Every collective has a bound by some algorithm on a machine that is known, alltoallv says why not.
#[test]
fn all_collectives_have_a_bound_or_say_why_not() {
    let machine = machine("h100-8x400");
    for (nodes, per_node) in [(1, 8), (2, 8), (2, 1), (1, 2)] {
        for collective in Collective::ALL {
            let placement = RankPlacement::new(nodes, per_node);
            let all = candidates(&machine, collective, &placement);
            let bounded = all.iter().any(|candidate| candidate.limit.payload.is_some());
            assert_eq!(
                bounded,
                collective != Collective::AllToAllV,
                "{collective:?} {placement:?}"
            );
            for candidate in &all {
                let known = candidate.limit.payload.is_some();
                assert_ne!(known, !candidate.limit.missing.is_empty(), "{candidate:?}");
            }
        }
    }
}

/// Even traffic is an alltoall; a rank that sends nothing to itself sends more to others.
#[test]
fn alltoallv_has_a_bound_when_its_traffic_is_known() {
    let machine = machine("h100-4x400");
    let placement = RankPlacement::new(2, 8);
    let even = limit(&machine, Collective::AllToAll, Algorithm::Direct, &placement);
    let even = even.payload.expect("a bound").busbw;
    let of = |spread| {
        let traffic = Traffic::Generated { spread };
        let limit = limit_of_traffic(&machine, &traffic, 1 << 30, &placement);
        limit.payload.expect("a bound").busbw
    };
    assert!((of(0.0) / even - 1.0).abs() < 1e-6, "{} {even}", of(0.0));
    assert!(of(1.0) < even);
    let none = limit(&machine, Collective::AllToAllV, Algorithm::Direct, &placement);
    assert!(none.missing[0].contains("not known"), "{none:?}");
}

/// Numbers that nobody means give a reason, not a panic.
#[test]
fn absurd_placements_are_refused() {
    let machine = machine("h100-4x400");
    for placement in [
        RankPlacement::new(usize::MAX, usize::MAX),
        RankPlacement::new(usize::MAX, 1),
        RankPlacement::new(0, 8),
        RankPlacement::new(1, 0),
        RankPlacement::new(1, 1),
        RankPlacement { nics: Some(0), ..RankPlacement::new(2, 8) },
    ] {
        for collective in Collective::ALL {
            for candidate in candidates(&machine, collective, &placement) {
                let bounded = candidate.limit.payload.is_some_and(|bound| bound.busbw > 0.0);
                assert!(!bounded || placement.nics == Some(0), "{placement:?}");
            }
        }
    }
}
