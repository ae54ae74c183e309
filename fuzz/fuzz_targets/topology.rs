//! Topology files: NCCL's XML and graphs, nvidia-smi's tables, as pasted and as damaged.
//! Not whether a tree is right; the tests beside the code say that.
#![no_main]

use busbw_core::finding::Finding;
use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_hardware::topology::{
    Input, Paths, System, links, machine_of_matrix, machine_of_system, of_matrix, of_system,
    recognise, write,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let read = recognise(&text);
    share::count(read.is_ok());
    match read {
        Ok(Input::System(system)) => of_a_system(&system),
        Ok(Input::Matrices(matrices)) => {
            assert!(!matrices.is_empty());
            for matrix in &matrices {
                assert_eq!(matrix.endpoints.len(), matrix.cells.len());
                assert_eq!(matrix.gpus().count() + matrix.nics().count(), matrix.endpoints.len());
                let json = serde_json::to_string(matrix).expect("a matrix is JSON");
                assert_eq!(
                    &serde_json::from_str::<busbw_hardware::topology::Matrix>(&json).expect("back"),
                    matrix
                );
                check(&of_matrix(matrix));
                assert_eq!(machine_of_matrix(matrix, "m").node.gpus, matrix.gpus().count());
            }
        }
        Ok(Input::Graphs(graphs)) => {
            assert!(graphs.graphs.iter().all(|graph| graph.nccl_expects() >= 0.0));
        }
        Err(why) => assert_eq!(why.to_string().lines().count(), 1, "{why}"),
    }
});

fn of_a_system(system: &System) {
    let written = write(system);
    assert_eq!(recognise(&written), Ok(Input::System(system.clone())), "{written}");
    let paths = Paths::of(system);
    let ends = paths.ends();
    for (a, _) in ends.iter().take(32) {
        for (b, _) in ends.iter().take(32) {
            assert_eq!(paths.word(*a, *b), paths.word(*b, *a), "one way and back");
            assert_eq!(a == b, paths.word(*a, *b).to_string() == "X");
            let _ = paths.nccl(*a, *b);
        }
    }
    for link in links(system) {
        if let (Some(line), Some(payload)) = (link.rates.line, link.rates.payload) {
            assert!(payload <= line, "{link:?}");
        }
    }
    check(&of_system(system));
    // Several hosts in one file are as many nodes, over which their GPUs are divided.
    let machine = machine_of_system(system, "m");
    assert!(machine.node.gpus * machine.nodes <= system.gpus().len());
    assert!(machine.nodes > 1 || machine.node.gpus == system.gpus().len());
}

fn check(findings: &[Finding]) {
    for finding in findings {
        let gbps = |cost: &String| cost.split(' ').next()?.parse::<f64>().ok();
        assert!(finding.cost.as_ref().is_none_or(|cost| gbps(cost) >= Some(0.0)), "{finding:?}");
        assert!(!finding.cause.is_empty(), "{finding:?}");
        // A note may be as it should be.
        let advised = finding.remedy.is_some() && finding.confirm.is_some();
        assert!(advised || !finding.severity.is_wrong(), "{finding:?}");
    }
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let text = match draw.below(16) {
        0..=3 => tree(&mut draw),
        4..=6 => table(&mut draw),
        7..=12 => {
            let text = String::from_utf8_lossy(&data[..size]);
            let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
            edit(&mut draw, &mut lines, |draw, old| match old {
                Some(old) => damaged(draw, old),
                None => pci(draw),
            });
            lines.join("\n")
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    put(text.as_bytes(), data, max_size)
});

/// A line with another digit, word or end.
fn damaged(draw: &mut Draw, old: &str) -> String {
    let at = old.floor_char_boundary(draw.below(old.len() + 1));
    let (before, after) = old.split_at(at);
    let inserted = draw.pick(&["0", "16", "x", "\"", "/>", "<", " ", "\t", "NV4", "SYS", "-1"]);
    match draw.below(3) {
        0 => before.to_owned(),
        1 => format!("{before}{inserted}{after}"),
        _ => {
            format!("{before}{inserted}{}", &after[after.ceil_char_boundary(after.len().min(1))..])
        }
    }
}

fn tree(draw: &mut Draw) -> String {
    let mut text = format!("<system version=\"{}\">\n", 1 + draw.below(2));
    for numa in 0..=draw.below(2) {
        text += &format!(
            "<cpu numaid=\"{numa}\" vendor=\"GenuineIntel\" host_hash=\"0x{}\">\n",
            draw.below(3)
        );
        for _ in 0..=draw.below(3) {
            text += &pci(draw);
            text.push('\n');
        }
        text += "</cpu>\n";
    }
    text + "</system>\n"
}

fn pci(draw: &mut Draw) -> String {
    let class = draw.pick(&["0x060400", "0x030200", "0x020700", "0x020000", "0x120000"]);
    let chip = draw.pick(&["vendor=\"0x1000\" device=\"0xc030\" subsystem_vendor=\"0x1000\" subsystem_device=\"0x1003\"", "vendor=\"0x10de\" device=\"0x2335\"", ""]);
    let speed = draw.pick(&["32.0 GT/s PCIe", "16 GT/s", "8.0 GT/s PCIe", "2.5 GT/s PCIe", ""]);
    let width = draw.pick(&["16", "8", "4", "0"]);
    let (bus, function) = (draw.below(6), draw.below(2));
    let inside = match draw.below(4) {
        0 => {
            let (dev, to, count) = (draw.below(4), draw.below(6), draw.number(5));
            let kind = draw.pick(&["nvlink", "xgmi"]);
            let class = draw.pick(&["0x068000", "0x030200", "0x120000", "0x068001"]);
            let sm = draw.pick(&["90", "80", "100", "304"]);
            format!(
                "<gpu dev=\"{dev}\" sm=\"{sm}\"><{kind} target=\"0000:{to:02x}:00.0\" count=\"{count}\" tclass=\"{class}\"/></gpu>"
            )
        }
        1 => {
            let (port, speed) = (draw.below(3), draw.pick(&["400000", "100000", "-1", "1000"]));
            format!(
                "<nic><net name=\"mlx5_{port}\" dev=\"{port}\" speed=\"{speed}\" port=\"{port}\"/></nic>"
            )
        }
        2 if draw.below(3) > 0 => pci(draw),
        _ => String::new(),
    };
    format!(
        "<pci busid=\"0000:{bus:02x}:00.{function}\" class=\"{class}\" {chip} link_speed=\"{speed}\" link_width=\"{width}\">{inside}</pci>"
    )
}

fn table(draw: &mut Draw) -> String {
    let (gpus, nics) = (1 + draw.below(4), draw.below(4));
    let names: Vec<String> =
        (0..gpus).map(|n| format!("GPU{n}")).chain((0..nics).map(|n| format!("NIC{n}"))).collect();
    let gap = draw.pick(&["\t", "  ", " "]);
    let mut text = format!("{gap}{}{gap}CPU Affinity\n", names.join(gap));
    for (row, name) in names.iter().enumerate() {
        text += name;
        for column in 0..names.len() {
            let word = draw.pick(&["NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]);
            text += &format!("{gap}{}", if row == column { "X" } else { word });
        }
        text += &format!("{gap}0-31{gap}{}\n", draw.below(2));
    }
    text + "\nNIC Legend:\n\n  NIC0: mlx5_0\n"
}
