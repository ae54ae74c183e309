//! Topology files as they really come, and damage done to them.
//! Not the single rules; the tests beside the code have those.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use busbw_hardware::topology::{
    Input, Matrix, Paths, System, machine_of_matrix, machine_of_system, of_matrix, of_system,
    recognise, write,
};
use proptest::prelude::*;

mod counts;
mod field_reports;
mod mutations;

/// Every committed file.
const FILES: [(&str, &str); 16] = [
    ("h200x8.xml", include_str!("../data/topology/h200x8.xml")),
    ("rtx4090_cx5_ib.xml", include_str!("../data/topology/rtx4090_cx5_ib.xml")),
    ("rtx4090_cx5_sockets.xml", include_str!("../data/topology/rtx4090_cx5_sockets.xml")),
    ("gb200_smi.txt", include_str!("../data/topology/gb200_smi.txt")),
    ("aws_p4d.xml", include_str!("../data/topology/aws_p4d.xml")),
    ("azure_ndv5_crlf.xml", include_str!("../data/topology/azure_ndv5_crlf.xml")),
    ("mi350x8.xml", include_str!("../data/topology/mi350x8.xml")),
    ("a100pcie_x2_bridge.xml", include_str!("../data/topology/a100pcie_x2_bridge.xml")),
    ("a800x8_smi.txt", include_str!("../data/topology/a800x8_smi.txt")),
    ("a800x8_cut_smi.txt", include_str!("../data/topology/a800x8_cut_smi.txt")),
    ("ascend_npu_smi.txt", include_str!("../data/topology/ascend_npu_smi.txt")),
    ("p2p_ok_smi.txt", include_str!("../data/topology/p2p_ok_smi.txt")),
    ("fused_smi.txt", include_str!("../data/topology/fused_smi.txt")),
    ("two_tables_smi.txt", include_str!("../data/topology/two_tables_smi.txt")),
    ("markdown_smi.txt", include_str!("../data/topology/markdown_smi.txt")),
    ("graphs.xml", include_str!("../data/topology/graphs.xml")),
];

fn file(name: &str) -> &'static str {
    FILES.iter().find(|file| file.0 == name).expect("a committed file").1
}

fn system(name: &str) -> System {
    match recognise(file(name)) {
        Ok(Input::System(system)) => system,
        other => panic!("{name}: {other:?}"),
    }
}

fn matrices(name: &str) -> Vec<Matrix> {
    match recognise(file(name)) {
        Ok(Input::Matrices(matrices)) => matrices,
        other => panic!("{name}: {other:?}"),
    }
}

/// A matrix as text: one row a line, words between blanks.
fn shown(matrix: &Matrix) -> String {
    let mut text = String::new();
    for (row, endpoint) in matrix.endpoints.iter().enumerate() {
        let _ = write!(text, "{}", endpoint.known_as());
        for column in 0..matrix.endpoints.len() {
            let word = matrix.between(row, column).map_or("-".to_owned(), |word| word.to_string());
            let _ = write!(text, " {word}");
        }
        text.push('\n');
    }
    text
}

#[test]
fn what_is_no_topology_is_refused_with_a_reason() {
    for (text, reason) in [
        (file("ascend_npu_smi.txt"), "npu-smi's matrix"),
        (file("p2p_ok_smi.txt"), "topo -p2p"),
        ("", "neither NCCL's XML nor"),
        ("hello world\n", "neither NCCL's XML nor"),
        ("<html><body/></html>", "begins with <html>"),
        ("<system", "no well-formed XML"),
        (
            "<system version=\"1\"><cpu numaid=\"0\"><pci/></cpu></system>",
            "line 1: <pci> has no busid",
        ),
        ("<system version=\"7\"/>", "version 7"),
        ("GPU0 GPU1\nGPU0 what is\n", "no row holds a word"),
    ] {
        let why = recognise(text).expect_err(text).to_string();
        assert!(why.contains(reason), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
    }
}

#[test]
fn graphs_tell_the_channels() {
    let Ok(Input::Graphs(graphs)) = recognise(file("graphs.xml")) else { panic!("no graphs") };
    let ring = &graphs.graphs[0];
    assert_eq!((ring.algorithm(), ring.nccl_expects(), ring.channels.len()), ("Ring", 40.0, 2));
    assert_eq!((ring.type_intra.as_str(), ring.channels[0].0.len()), ("NVL", 4));
    assert_eq!(graphs.graphs[1].algorithm(), "CollNet direct");
}

#[test]
fn tables_as_people_paste_them() {
    let [fused] = &matrices("fused_smi.txt")[..] else { panic!("one table") };
    assert_eq!(
        shown(fused),
        "GPU0 X NV12 PXB SYS SYS\nGPU1 NV12 X SYS PXB SYS\nmlx5_0 PXB SYS X SYS SYS\n\
         mlx5_1 SYS PXB SYS X PIX\nmlx5_2 SYS SYS SYS PIX X\n"
    );
    assert_eq!(fused.endpoints[1].cores.as_deref(), Some("8-15,72-79"));
    assert_eq!(fused.endpoints[1].numa.as_deref(), Some("1"));
    let [first, second] = &matrices("two_tables_smi.txt")[..] else { panic!("two tables") };
    assert_eq!(shown(first), "GPU0 X NV4 PHB\nGPU1 NV4 X SYS\nrocep4s0f0 PHB SYS X\n");
    assert_eq!(shown(second), "GPU0 X SYS\nGPU1 SYS X\n");
    let [markdown] = &matrices("markdown_smi.txt")[..] else { panic!("one table") };
    assert_eq!(shown(markdown), "GPU0 X NV4 SYS\nGPU1 NV4 X PHB\nmlx5_0 SYS PHB X\n");
    assert_eq!(markdown.endpoints[0].cores.as_deref(), Some("24-31,56-63"));
    // Its columns of NICs are cut: what the rows of the NICs say is used, the rest is unknown.
    let [cut] = &matrices("a800x8_cut_smi.txt")[..] else { panic!("one table") };
    assert_eq!(cut.endpoints.len(), 12);
    assert!(shown(cut).ends_with("mlx5_3 SYS SYS SYS SYS NODE NODE NODE PIX - - - -\n"));
    let [gb200] = &matrices("gb200_smi.txt")[..] else { panic!("one table") };
    assert_eq!(gb200.endpoints[3].numa.as_deref(), Some("1,18-33"));
}

#[test]
fn what_was_read_is_written_and_read_again() {
    for (name, text) in FILES {
        let Ok(Input::System(system)) = recognise(text) else { continue };
        let written = write(&system);
        assert_eq!(recognise(&written), Ok(Input::System(system)), "{name}\n{written}");
    }
}

#[test]
fn a_bridge_with_links_down() {
    let findings = of_system(&system("a100pcie_x2_bridge.xml"));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((&*finding.rule, finding.subject.as_str()), ("gpu-link", "GPU0"));
    assert_eq!(finding.cost.as_deref(), Some("275.0 GB/s one way"), "11 links of 25 GB/s");
}

#[test]
fn machines_of_matrices() {
    let [gb200] = &matrices("gb200_smi.txt")[..] else { panic!("one table") };
    let node = machine_of_matrix(gb200, "gb200").node;
    let nvlink = node.nvlink.expect("NVLink");
    assert_eq!((node.gpus, nvlink.links, nvlink.switched), (4, Some(18), true));
    assert_eq!(node.nics[0].count, 8);
    let [two] = &matrices("fused_smi.txt")[..] else { panic!("one table") };
    let nvlink = machine_of_matrix(two, "two").node.nvlink.expect("NVLink");
    assert_eq!((nvlink.links, nvlink.switched), (Some(12), false));
}
