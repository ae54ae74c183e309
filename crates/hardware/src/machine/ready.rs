//! Machines that many people have, as machine files: what their makers publish, nothing else.
//! Not what one of them turned out to be: a slot may be narrower, a link down.

use super::Machine;
use super::file;

/// Name and file of every ready machine; each file says where its figures are from.
const READY: [(&str, &str); 12] = [
    ("dgx-a100", include_str!("ready/dgx-a100.toml")),
    ("dgx-h100", include_str!("ready/dgx-h100.toml")),
    ("dgx-h200", include_str!("ready/dgx-h200.toml")),
    ("dgx-b200", include_str!("ready/dgx-b200.toml")),
    ("hgx-h800", include_str!("ready/hgx-h800.toml")),
    ("hgx-h20", include_str!("ready/hgx-h20.toml")),
    ("gb200-nvl72", include_str!("ready/gb200-nvl72.toml")),
    ("p4d.24xlarge", include_str!("ready/p4d.24xlarge.toml")),
    ("p5.48xlarge", include_str!("ready/p5.48xlarge.toml")),
    ("nd-a100-v4", include_str!("ready/nd-a100-v4.toml")),
    ("nd-h100-v5", include_str!("ready/nd-h100-v5.toml")),
    ("rtx4090-host", include_str!("ready/rtx4090-host.toml")),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::models;

    #[test]
    fn every_ready_machine_is_read_and_knows_its_model() {
        for name in names() {
            let text = text(name).expect("named");
            let machine = file::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(text.starts_with("# "), "{name} says where its figures are from");
            let gpu = machine.node.gpu.as_ref().expect("a model");
            let model = models::find(&gpu.name).expect("a known model");
            if let Some(nvlink) = &machine.node.nvlink {
                assert_eq!((nvlink.links, nvlink.line), (model.links, model.line), "{name}");
            }
            assert_eq!(ready(name), Some(machine));
        }
        assert_eq!(ready("DGX-H100").map(|machine| machine.gpus()), Some(8));
        assert_eq!(ready("dgx-9000"), None);
    }
}
