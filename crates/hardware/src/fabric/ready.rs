//! Fabrics to start from, as fabric files: each says whose design it follows.
//! Not anyone's fabric as built: cables and switches of a site are its own.

use super::{Fabric, file};

/// Name and file of every example.
const READY: [(&str, &str); 6] = [
    ("clos-2tier", include_str!("ready/clos-2tier.toml")),
    ("clos-3tier", include_str!("ready/clos-3tier.toml")),
    ("rail-optimized", include_str!("ready/rail-optimized.toml")),
    ("multi-plane", include_str!("ready/multi-plane.toml")),
    ("oversubscribed", include_str!("ready/oversubscribed.toml")),
    ("nvl72", include_str!("ready/nvl72.toml")),
];

/// Names of all examples.
pub fn names() -> Vec<&'static str> {
    READY.iter().map(|(name, _)| *name).collect()
}

/// The file of an example, as a start for one's own.
pub fn example(name: &str) -> Option<&'static str> {
    let wanted = name.to_ascii_lowercase();
    READY.iter().find(|(known, _)| *known == wanted).map(|(_, text)| *text)
}

/// The fabric of an example.
pub fn ready(name: &str) -> Option<Fabric> {
    file::parse(example(name)?, &file::ready_machine).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    #[test]
    fn every_example_is_read_and_built() {
        for name in names() {
            let text = example(name).expect("named");
            assert!(text.starts_with("# "), "{name} says whose design it follows");
            let fabric = file::parse(text, &file::ready_machine)
                .unwrap_or_else(|error| panic!("{name}, {error}"));
            assert_eq!(ready(name), Some(fabric.clone()));
            let shape = Shape::of(&fabric).expect("built");
            assert_eq!(shape.classes(&fabric).len(), fabric.tiers.len(), "{name}");
        }
        assert_eq!(ready("clos-9tier"), None);
    }

    /// Figures that the designs publish or that follow by hand: 64 leaves and 32 spines for 2,048 ports of 64-port switches;
    /// 32 leaves and 16 spines of DGX SuperPOD H100 with 4 scalable units; 100k GPUs.
    #[test]
    fn counts_of_the_designs() {
        for (name, gpus, switches) in [
            ("clos-2tier", 2048, vec![64, 32]),
            ("rail-optimized", 1024, vec![32, 16]),
            ("clos-3tier", 102_400, vec![1600, 1600, 1024]),
            ("multi-plane", 131_072, vec![4096, 2048]),
            ("oversubscribed", 2048, vec![32, 8]),
            ("nvl72", 576, vec![8, 4]),
        ] {
            let fabric = ready(name).expect("an example");
            assert_eq!(fabric.gpus(), gpus, "{name}");
            assert_eq!(Shape::of(&fabric).expect("built").switches(), switches, "{name}");
        }
    }
}
