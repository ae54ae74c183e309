//! Predicted times by size against whole tables that people published: how many rows are in their range. The table of
//! docs/plan.md is this one; `UPDATE_PLAN_TABLE=1 cargo test -p busbw-hardware --test it plan_curves` writes it anew.

use std::{fmt::Write, fs, path::Path};

use busbw_core::Collective;
use busbw_hardware::limits::RankPlacement;
use busbw_hardware::machine::parse;
use busbw_hardware::prediction::Question;
use busbw_hardware::tuning::Version;

const BEGIN: &str = "<!-- curves -->\n";
const END: &str = "<!-- end of curves -->\n";

/// From this size on bandwidth decides, bytes.
const LARGE_BYTES: u64 = 64 << 20;

/// File below crates/busbw/tests/explain, machine file, hosts, ranks of a host, collective. NVLS was off on the H800: their
/// figures within a host are those of rings.
const TABLES: [(&str, &str, usize, usize, Collective); 4] = [
    (
        "8x-h800-nvlink-all-reduce.txt",
        "machine = 'hgx-h800'\n[nvlink]\nmulticast = false",
        1,
        8,
        Collective::AllReduce,
    ),
    (
        "32x-h800-nvlink-4x-400gbps-ib-all-reduce.txt",
        "machine = 'hgx-h800'\nnodes = 2\n[nvlink]\nmulticast = false\n[[nics]]\ncount = 4\nrate = 400.0\nfabric = 'infiniband'\nmtu = 4096",
        2,
        8,
        Collective::AllReduce,
    ),
    (
        "16x-h100-nvlink-4x-400gbps-ib-all2all.txt",
        "machine = 'dgx-h100'\nnodes = 2\n[[nics]]\ncount = 4\nrate = 400.0\nfabric = 'infiniband'\nmtu = 4096",
        2,
        8,
        Collective::AllToAll,
    ),
    (
        "32x-h800-nvlink-4x-400gbps-ib-all2all.txt",
        "machine = 'hgx-h800'\nnodes = 4\n[[nics]]\ncount = 4\nrate = 400.0\nfabric = 'infiniband'\nmtu = 4096",
        4,
        8,
        Collective::AllToAll,
    ),
];

/// Size and out-of-place time of the rows of nccl-tests; sizes that the ranks round to nothing are left out.
fn rows(text: &str) -> Vec<(u64, f64)> {
    let cells = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = |cells: Vec<&str>| {
        let (size, time) = (cells.first()?.parse().ok()?, cells.get(5)?.parse().ok()?);
        (size > 0 && cells.len() > 10).then_some((size, time))
    };
    cells.filter_map(row).collect()
}

/// The document's lines, and of each table (rows, inside, large rows, inside).
fn document() -> (String, Vec<[usize; 4]>) {
    let mut text = String::from(
        "| table | rows | time inside | rows from 64 MiB on | time inside | mean error of these |\n|---|---|---|---|---|---|\n",
    );
    let mut counts = Vec::new();
    for (file, machine, nodes, per_node, collective) in TABLES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../busbw/tests/explain").join(file);
        let rows = rows(&fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}")));
        let machine = parse(machine).unwrap();
        let question = Question {
            machine: &machine,
            placement: RankPlacement::new(nodes, per_node),
            collective,
            version: Version::last_of(28),
            algorithm: None,
        };
        let mut count = [0; 4];
        let mut errors = Vec::new();
        for (bytes, time) in rows {
            let expected = question.expect(bytes).unwrap();
            let inside = expected.time_us.holds(time);
            count[0] += 1;
            count[1] += usize::from(inside);
            if bytes >= LARGE_BYTES {
                count[2] += 1;
                count[3] += usize::from(inside);
                errors.push((time / expected.time_us.middle - 1.0).abs());
            } else if !inside {
                println!("{file}: {bytes} B: {time} us, expected {:?}", expected.time_us);
            }
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64 * 100.0;
        let [all, inside, large, large_inside] = count;
        let _ = writeln!(
            text,
            "| {file} | {all} | {inside} | {large} | {large_inside} | {mean:.1} % |"
        );
        counts.push(count);
    }
    (text, counts)
}

#[test]
fn large_sizes_of_whole_tables_are_in_their_range() {
    for [rows, inside, large, large_inside] in document().1 {
        assert!(rows >= 20 && large >= 8, "{rows} {large}");
        assert!(large_inside * 10 >= large * 8, "{large_inside} of {large}");
        assert!(inside * 2 > rows, "{inside} of {rows}");
    }
}

#[test]
fn the_document_has_this_table() {
    super::document_has(BEGIN, END, &document().0);
}
