//! Limits of generated machines: what must hold of every machine, not of the ones people have.
//! Not the results of real machines (tests/it/limits.rs).

use proptest::prelude::*;

use super::*;
use crate::machine::{Cpu, CpuVendor, GpuModel, Machine, NicKind, Nics, Node, NvLink, PcieLink};
use busbw_core::Collective;

/// The resources of a machine that can be made faster or slower by a factor, all of a kind at once.
fn scaled(machine: &Machine, resource: Resource, double: bool) -> Option<Machine> {
    let mut machine = machine.clone();
    let factor = if double { 2.0 } else { 0.5 };
    let width = |link: &mut PcieLink| {
        let width = if double { link.width.checked_mul(2)? } else { link.width / 2 };
        *link = PcieLink { width, ..*link };
        (width > 0).then_some(())
    };
    match resource {
        Resource::NvLink => *machine.node.nvlink.as_mut()?.line.as_mut()? *= factor,
        Resource::GpuPcie => width(machine.node.pcie.as_mut()?)?,
        Resource::GpuLinks => return None,
        Resource::BetweenSockets => {
            *machine.node.cpu.as_mut()?.between_sockets.as_mut()? *= factor;
        }
        Resource::Nic => {
            for nics in &mut machine.node.nics {
                *nics.rate.as_mut()? *= factor;
            }
        }
        Resource::NicSlot => {
            for nics in &mut machine.node.nics {
                width(nics.slot.as_mut()?)?;
            }
        }
    }
    Some(machine)
}

fn link() -> impl Strategy<Value = PcieLink> {
    (1u8..=6, prop::sample::select(vec![2u8, 4, 8, 16]), prop::option::of(Just(256)))
        .prop_map(|(generation, width, max_payload)| PcieLink { generation, width, max_payload })
}

fn nics() -> impl Strategy<Value = Nics> {
    (
        1usize..9,
        prop::sample::select(vec![10.0, 25.0, 100.0, 200.0, 400.0, 800.0]),
        prop::sample::select(NicKind::ALL.to_vec()),
        prop::option::of(prop::sample::select(vec![1024u32, 4096])),
        prop::option::of(link()),
        1usize..3,
    )
        .prop_map(|(count, rate, kind, mtu, slot, sharing)| Nics {
            count,
            rate: Some(rate),
            kind,
            mtu,
            slot,
            sharing,
        })
}

prop_compose! {
    fn machine()(
        nodes in 1usize..9,
        gpus in prop::sample::select(vec![1usize, 2, 4, 8]),
        links in prop::option::of(1u32..19),
        each in prop::sample::select(vec![25.0, 50.0]),
        spans in 1usize..3,
        pcie in prop::option::of(link()),
        groups in prop::collection::vec(nics(), 1..3),
        sockets in prop::option::of(10.0f64..80.0),
    ) -> Machine {
        let nvlink = links.map(|links| NvLink {
            links: Some(links),
            line: Some(each),
            switched: true,
            meshed: None,
            multicast: Some(true),
            domain: gpus * spans,
        });
        let cpu = Cpu { vendor: CpuVendor::Intel, sockets: Some(2), between_sockets: sockets };
        let gpu = GpuModel { name: "generated".to_owned(), sm: Some(90) };
        Machine {
            name: "generated".to_owned(),
            nodes,
            node: Node { gpus, gpu: Some(gpu), nvlink, pcie, cpu: Some(cpu), nics: groups },
            sharp: Some(true),
        }
    }
}

const RESOURCES: [Resource; 5] = [
    Resource::NvLink,
    Resource::GpuPcie,
    Resource::BetweenSockets,
    Resource::Nic,
    Resource::NicSlot,
];

fn of(machine: &Machine, collective: Collective, algorithm: Algorithm) -> Limit {
    limit(machine, collective, algorithm, &RankPlacement::new(machine.nodes, machine.node.gpus))
}

/// Doubles several resources.
fn doubled(machine: &Machine, resources: &[Resource]) -> Option<Machine> {
    resources
        .iter()
        .try_fold(machine.clone(), |machine, &resource| scaled(&machine, resource, true))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Halving a resource halves the bound at most, and never raises it; doubling what sets a bound
    /// raises it, and if one resource sets it, doubling any other leaves it.
    #[test]
    fn bounds_follow_what_sets_them(
        machine in machine(), which in 0..Collective::ALL.len(), algorithm in 0usize..8,
    ) {
        let collective = Collective::ALL[which];
        let algorithm = Algorithm::ALL[algorithm];
        let before = of(&machine, collective, algorithm);
        let (Some(line), Some(payload)) = (&before.line, &before.payload) else {
            prop_assert!(!before.missing.is_empty());
            return Ok(());
        };
        prop_assert!(payload.busbw <= line.busbw * (1.0 + 1e-9));
        for resource in RESOURCES {
            let Some(half) = scaled(&machine, resource, false) else { continue };
            let after = of(&half, collective, algorithm).payload.expect("as known as before");
            prop_assert!(after.busbw <= payload.busbw * (1.0 + 1e-9), "{resource}: {after:?}");
            prop_assert!(after.busbw >= payload.busbw / 2.0 * (1.0 - 1e-9), "{resource}: {after:?}");
            if payload.set_by == [resource] {
                let halved = (after.busbw / payload.busbw - 0.5).abs() < 1e-9;
                prop_assert!(halved, "{resource}: {payload:?} {after:?}");
            }
        }
        let bottleneck = before.bottleneck.expect("bounds have a bottleneck");
        let tied: Vec<Resource> =
            RESOURCES.into_iter().filter(|r| line.set_by.contains(r) || payload.set_by.contains(r)).collect();
        prop_assert!(tied.contains(&bottleneck));
        if let Some(faster) = doubled(&machine, &tied) {
            let after = of(&faster, collective, algorithm).payload.expect("as known as before");
            prop_assert!(after.busbw > payload.busbw * (1.0 + 1e-9), "{tied:?} {before:?} {after:?}");
        }
        for resource in RESOURCES {
            if let (false, Some(faster)) = (tied.contains(&resource), scaled(&machine, resource, true)) {
                let after = of(&faster, collective, algorithm).payload.expect("as known as before");
                prop_assert!((after.busbw / payload.busbw - 1.0).abs() < 1e-9, "{resource}");
            }
        }
    }

    /// Exactly halved or left, for rates without ties.
    #[test]
    fn halving_one_resource_halves_the_bound_or_leaves_it(
        machine in machine(), which in 0..Collective::ALL.len(), algorithm in 0usize..8, at in 0usize..5,
    ) {
        let (collective, algorithm) = (Collective::ALL[which], Algorithm::ALL[algorithm]);
        let Some(payload) = of(&machine, collective, algorithm).payload else { return Ok(()) };
        let Some(half) = scaled(&machine, RESOURCES[at], false) else { return Ok(()) };
        let after = of(&half, collective, algorithm).payload.expect("as known as before");
        let ratio = after.busbw / payload.busbw;
        // Between the two only where the halved resource becomes what sets the bound.
        let allowed = (ratio - 0.5).abs() < 1e-9
            || (ratio - 1.0).abs() < 1e-9
            || after.set_by.contains(&RESOURCES[at]) && !payload.set_by.contains(&RESOURCES[at])
            || payload.set_by.len() > 1;
        prop_assert!(allowed, "{ratio} {payload:?} {after:?}");
    }
}
