//! Fabric files: what is read, and what is refused, each with its line.
//! Not what follows for collectives.

use busbw_hardware::fabric::file::{parse, ready_machine};
use busbw_hardware::fabric::{Routing, Shape, picture, ready};
use proptest::prelude::*;

const TWO_TIERS: &str = "machine = \"dgx-h100\"\nhosts = 16\n[[tiers]]\nports = 64\nrate = 400\n[[tiers]]\nports = 64\nrate = 400\n";

#[test]
fn defaults() {
    let fabric = parse(TWO_TIERS, &ready_machine).unwrap();
    assert_eq!((fabric.rails, fabric.planes, fabric.routing), (1, 1, Routing::Ecmp));
    let names: Vec<_> =
        fabric.tiers.iter().map(|tier| (tier.name.as_str(), tier.down, tier.up)).collect();
    assert_eq!(names, [("leaf", 32, 32), ("spine", 64, 0)]);
    let shape = Shape::of(&fabric).unwrap();
    assert_eq!(
        (shape.blocks, shape.hosts_per_block, shape.spines, shape.leaf_to_spine),
        (4, 4, 2, 16)
    );
}

/// One change of a file that is right, the line that is named, and what it says.
#[test]
fn nonsense_is_refused_with_its_line() {
    for (from, to, line, says) in [
        ("ports = 64", "ports = 63", 4, "even number"),
        ("ports = 64", "ports = 1", 4, "2 to 4096"),
        ("rate = 400", "rate = 0", 5, "not a rate"),
        (
            "rate = 400",
            "rate = 200",
            5,
            "a NIC of 400 Gb/s over 1 plane has ports of 400 Gb/s, this switch of 200",
        ),
        ("rate = 400", "rate = nan", 5, "not a rate"),
        ("hosts = 16", "hosts = 0", 2, "not a number of hosts"),
        (
            "hosts = 16",
            "hosts = 257",
            2,
            "257 hosts are more than the 256 that these switches have ports for",
        ),
        ("hosts = 16", "hosts = \"many\"", 2, "invalid type"),
        ("hosts = 16", "hosts = 16\nhots = 16", 3, "unknown field `hots`"),
        ("hosts = 16", "", 1, "missing field `hosts`"),
        ("dgx-h100", "dgx-h101", 1, "no ready machine"),
        ("dgx-h100", "gb200-nvl72", 2, "16 hosts do not fill NVLink domains of 18 hosts each"),
        ("dgx-h100", "h100-pcie", 1, "a NIC whose rate is known"),
        ("hosts = 16", "hosts = 16\nrails = 3", 3, "3 rails"),
        ("hosts = 16", "hosts = 16\nplanes = 3", 6, "over 3 planes"),
        ("hosts = 16", "hosts = 16\nrouting = \"magic\"", 3, "`spray` or `ecmp`"),
        ("ports = 64", "ports = 64\ndown = 64", 5, "could not reach each other"),
        ("ports = 64", "ports = 64\ndown = 66", 5, "66 ports down of a switch with 64"),
        ("ports = 64", "ports = 64\noversubscription = 2.0", 5, "21.33 uplinks"),
        ("ports = 64", "ports = 64\ndown = 48\noversubscription = 3.0", 6, "not both"),
        ("ports = 64", "ports = 64\ndown = 4", 4, "fewer than the 8 NICs"),
        ("ports = 64", "ports = 64\nspread = 3", 5, "one port on each plane"),
        ("ports = 64", "ports = 64\nbuffer = 0", 5, "a buffer in bytes"),
        ("ports = 64", "ports = 64\nlatency_us = -1.0", 5, "a latency"),
        ("ports = 64", "ports = 64\nname = \"a b\"", 5, "letters, digits"),
    ] {
        let text = TWO_TIERS.replacen(from, to, 1);
        let refused = parse(&text, &ready_machine).expect_err(to);
        assert!(refused.message.contains(says), "{to}: {refused}");
        assert_eq!(refused.line, line, "{to}: {refused}");
    }
    // Of the last tier.
    let last = |more: &str| parse(&format!("{TWO_TIERS}{more}\n"), &ready_machine).expect_err(more);
    for (more, says) in [
        ("spread = 3", "do not spread evenly over 3 switches"),
        ("spread = 1", "needs 128 ports down and has 64"),
        ("oversubscription = 1.0", "the last tier has no uplinks"),
        ("down = 32", "the last tier has no uplinks"),
        ("name = \"leaf\"", "two tiers are called `leaf`"),
        ("name = \"host\"", "no tier of switches"),
    ] {
        assert!(last(more).message.contains(says), "{}", last(more));
        assert_eq!(last(more).line, 9, "{more}");
    }
    let island = "machine = \"dgx-h100\"\nhosts = 16\n[[tiers]]\nports = 64\nrate = 400\n";
    let refused = parse(island, &ready_machine).expect_err("islands");
    assert_eq!(refused.line, 2);
    assert!(refused.message.contains("the other 8 could not reach them"), "{refused}");
}

#[test]
fn pictures_of_all_examples() {
    for name in ready::names() {
        let fabric = ready::ready(name).unwrap();
        let text = picture::picture(&fabric, &Shape::of(&fabric).unwrap());
        for tier in &fabric.tiers {
            assert!(text.contains(&tier.name), "{name}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{name}\n{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any numbers: refused with a line of the file, or a fabric whose links add up.
    #[test]
    fn any_numbers(
        machine in prop::sample::select(vec!["dgx-h100", "gb200-nvl72"]), hosts in 0usize..3000, rails in 0usize..10, planes in 0usize..5, tiers in 0usize..5,
        ports in 0usize..200, rate in prop::sample::select(vec!["400", "200", "100.0", "0", "-1", "inf"]),
        more in prop::sample::select(vec!["", "down = 8\n", "oversubscription = 3.0\n", "spread = 4\n", "up = 3\n"]),
    ) {
        let tier = format!("[[tiers]]\nports = {ports}\nrate = {rate}\n{more}");
        let text = format!("machine = \"{machine}\"\nhosts = {hosts}\nrails = {rails}\nplanes = {planes}\n{}", tier.repeat(tiers));
        match parse(&text, &ready_machine) {
            Err(refused) => {
                prop_assert!(refused.line >= 1 && refused.line <= text.lines().count().max(1));
                prop_assert!(!refused.message.is_empty());
            }
            Ok(fabric) => {
                let shape = Shape::of(&fabric).expect("parsed, so it is built");
                let classes = shape.classes(&fabric);
                let switches = shape.switches();
                // Links down of a tier have ports there, links up as well.
                for (at, tier) in fabric.tiers.iter().enumerate() {
                    prop_assert!(classes[at].count <= switches[at] * tier.down);
                    let up = classes.get(at + 1).map_or(0, |class| class.count);
                    prop_assert!(up == 0 || up == switches[at] * tier.up);
                }
                prop_assert!(shape.blocks * shape.hosts_per_block >= shape.hosts);
                prop_assert_eq!(shape.hosts * fabric.gpus_per_island(), fabric.gpus());
                prop_assert!(shape.pods * shape.blocks_per_pod >= shape.blocks);
            }
        }
    }

    /// Any text.
    #[test]
    fn any_text(text in "[a-z\\[\\]=\"0-9.\\n -]{0,200}") {
        if let Err(refused) = parse(&text, &ready_machine) {
            prop_assert!(refused.line <= text.split('\n').count());
        }
    }
}
