//! Machines that many people have, as machine files: what their makers publish, nothing else.
//! Not what one of them turned out to be: a slot may be narrower, a link down.

use super::Machine;
use super::{file, models};

/// Name and file of every ready machine; each file says where its figures are from.
const READY: [(&str, &str); 25] = [
    ("dgx-a100", include_str!("ready/dgx-a100.toml")),
    ("dgx-h100", include_str!("ready/dgx-h100.toml")),
    ("dgx-h200", include_str!("ready/dgx-h200.toml")),
    ("dgx-b200", include_str!("ready/dgx-b200.toml")),
    ("dgx-b300", include_str!("ready/dgx-b300.toml")),
    ("hgx-h800", include_str!("ready/hgx-h800.toml")),
    ("hgx-h20", include_str!("ready/hgx-h20.toml")),
    ("h100-pcie", include_str!("ready/h100-pcie.toml")),
    ("h100-pcie-bridge", include_str!("ready/h100-pcie-bridge.toml")),
    ("h200-nvl", include_str!("ready/h200-nvl.toml")),
    ("l40s-host", include_str!("ready/l40s-host.toml")),
    ("gb200-nvl72", include_str!("ready/gb200-nvl72.toml")),
    ("gb300-nvl72", include_str!("ready/gb300-nvl72.toml")),
    ("gh200", include_str!("ready/gh200.toml")),
    ("dgx-spark", include_str!("ready/dgx-spark.toml")),
    ("p4d.24xlarge", include_str!("ready/p4d.24xlarge.toml")),
    ("p5.48xlarge", include_str!("ready/p5.48xlarge.toml")),
    ("a3-megagpu-8g", include_str!("ready/a3-megagpu-8g.toml")),
    ("a4-highgpu-8g", include_str!("ready/a4-highgpu-8g.toml")),
    ("nd-a100-v4", include_str!("ready/nd-a100-v4.toml")),
    ("nd-h100-v5", include_str!("ready/nd-h100-v5.toml")),
    ("rtx4090-host", include_str!("ready/rtx4090-host.toml")),
    ("rtx5090-host", include_str!("ready/rtx5090-host.toml")),
    ("mi300x", include_str!("ready/mi300x.toml")),
    ("mi355x", include_str!("ready/mi355x.toml")),
];

/// Names of all ready machines.
pub fn names() -> Vec<&'static str> {
    READY.iter().map(|(name, _)| *name).collect()
}

/// The file of a ready machine, as a start for one's own.
pub fn text(name: &str) -> Option<&'static str> {
    let wanted = name.to_ascii_lowercase();
    READY.iter().find(|(known, _)| *known == wanted).map(|(_, text)| *text)
}

/// A ready machine.
pub fn ready(name: &str) -> Option<Machine> {
    file::parse(text(name)?).ok()
}

/// Where a ready machine's figures are from: the comment at the head of its file.
pub fn source(name: &str) -> Option<String> {
    let lines = text(name)?.lines().map_while(|line| line.strip_prefix('#'));
    Some(lines.map(str::trim).collect::<Vec<_>>().join(" "))
}

/// What NCCL calls the network of a ready machine: Amazon's EFA comes with the plugin of aws-ofi-nccl, GPUDirect-TCPXO with
/// Google's; all others have NCCL's own.
pub fn network(name: &str) -> &'static str {
    match name {
        "p4d.24xlarge" | "p5.48xlarge" => "Libfabric",
        "a3-megagpu-8g" => "FasTrak",
        _ => "IB",
    }
}

/// The ready machine of a chip that is a whole host, with its NIC: GB10 alone, which every maker of such a host uses as
/// NVIDIA attached it. Of any other GPU the server's maker chose the NICs.
pub fn of_chip(model: &models::Model) -> Option<Machine> {
    (model.name == "GB10").then(|| ready("dgx-spark")).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_machine_is_read_and_knows_its_model() {
        for name in names() {
            let text = text(name).expect("named");
            let machine = file::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(text.starts_with("# "), "{name} says where its figures are from");
            let gpu = machine.node.gpu.as_ref().expect("a model");
            let model = models::find(&gpu.name).expect("a known model");
            // A bridge is sold apart from the board.
            if let (Some(nvlink), Some(_)) = (&machine.node.nvlink, model.links) {
                assert_eq!((nvlink.links, nvlink.line), (model.links, model.line), "{name}");
            }
            assert!(source(name).is_some_and(|source| source.len() > 40), "{name}");
            assert_eq!(ready(name), Some(machine));
        }
        assert_eq!(ready("DGX-H100").map(|machine| machine.gpus()), Some(8));
        assert_eq!(ready("dgx-9000"), None);
    }
}
