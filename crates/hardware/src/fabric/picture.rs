//! A fabric as a text picture: its tiers from the top, with switches, ports and links.
//! Not single cables.

use std::fmt::Write as _;

use super::{Fabric, Shape};

/// The picture; lines of at most 100 columns for names of usual length.
pub fn picture(fabric: &Fabric, shape: &Shape) -> String {
    let node = &fabric.machine.node;
    let mut text = format!(
        "{}: {} hosts of {} GPUs ({}), {} GPUs{}\n\n",
        fabric.name,
        fabric.hosts,
        node.gpus,
        fabric.machine.name,
        fabric.gpus(),
        match fabric.planes {
            1 => String::new(),
            planes => format!("; {planes} planes, together as drawn"),
        }
    );
    let classes = shape.classes(fabric);
    let switches = shape.switches();
    let width = fabric.tiers.iter().map(|tier| tier.name.len()).max().unwrap_or(0).max(4);
    for (at, tier) in fabric.tiers.iter().enumerate().rev() {
        let ratio = (tier.up > 0).then(|| {
            let above = fabric.tiers[at + 1].rate;
            tier.down as f64 * tier.rate / (tier.up as f64 * above)
        });
        let split = match ratio {
            Some(ratio) => {
                format!("{} down, {} up, {}:1", tier.down, tier.up, (ratio * 100.0).round() / 100.0)
            }
            None => "all down".to_owned(),
        };
        let buffer = match tier.buffer {
            Some(bytes) => format!(", buffer {}", busbw_core::quantity::decimal_bytes(bytes)),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "{:>width$}  [ {} switches of {} ports: {split}{buffer} ]",
            tier.name, switches[at], tier.ports
        );
        let each = match at {
            0 => String::new(),
            1 => format!(
                ", {} from each {} to each of {}",
                shape.leaf_to_spine, classes[1].below, shape.spines
            ),
            _ => format!(
                ", {} from each {} to each of {}",
                shape.spine_to_core, classes[2].below, shape.cores_of_a_spine
            ),
        };
        let (class, gap) = (&classes[at], "");
        let _ = writeln!(text, "{gap:>width$}      |  |  |");
        let _ = writeln!(
            text,
            "{gap:>width$}      |  |  |   {} links of {} Gb/s, {} m{each}",
            class.count, class.rate, tier.cable_m
        );
        let _ = writeln!(text, "{gap:>width$}      |  |  |");
    }
    let nics = shape.lanes.count * shape.lanes.nics;
    let island = fabric.island();
    let rails = match shape.rails {
        1 => "their NICs at one leaf".to_owned(),
        rails => format!("their NICs at {rails} leaves (rails)"),
    };
    let _ = writeln!(
        text,
        "{:>width$}  [ {} {island}s, {} GPUs and {nics} NICs each: {} a block, {rails} ]",
        "host",
        shape.hosts,
        fabric.gpus_per_island(),
        shape.hosts_per_block
    );
    if shape.pods > 1 {
        let _ = writeln!(
            text,
            "\n{} pods of {} blocks; way between {island}s: {} us in a block, {} in a pod, {} between pods",
            shape.pods,
            shape.blocks_per_pod,
            round(shape.way_us(fabric, 0)),
            round(shape.way_us(fabric, 1)),
            round(shape.way_us(fabric, 2))
        );
    }
    text
}

fn round(us: f64) -> f64 {
    (us * 100.0).round() / 100.0
}
