//! Machine files: short ones, both ways, and what is said of bad ones.

use busbw_core::Collective;
use busbw_hardware::limits::{RankPlacement, candidates};
use busbw_hardware::machine::{
    Cpu, CpuVendor, GpuModel, Machine, NicKind, Nics, Node, NvLink, PcieLink, parse, ready, write,
};
use busbw_hardware::tuning::{Version, infer};
use proptest::prelude::*;

#[test]
fn a_short_file_is_enough() {
    let text = "nodes = 2\ngpus = 8\nmodel = \"H100 SXM\"\n\
                [[nics]]\ncount = 8\nrate = 400\nfabric = \"infiniband\"\n";
    let machine = parse(text).expect("a machine");
    assert_eq!((machine.nodes, machine.node.gpus), (2, 8));
    let nvlink = machine.node.nvlink.expect("H100 SXM has NVLink");
    assert_eq!((nvlink.links, nvlink.domain), (None, 8), "links are not said");
    assert_eq!(machine.node.nics[0].rate, Some(400.0));
    assert_eq!(machine.node.nics[0].mtu, None);
}

#[test]
fn a_file_starts_from_a_ready_machine() {
    let text = "machine = \"dgx-h100\"\nname = \"ours\"\nnodes = 4\n[nvlink]\nmulticast = false\n";
    let machine = parse(text).expect("a machine");
    let plain = ready("dgx-h100").expect("ready");
    assert_eq!((machine.nodes, machine.name.as_str()), (4, "ours"));
    assert_eq!(machine.node.nics, plain.node.nics);
    let nvlink = machine.node.nvlink.expect("as it was");
    assert_eq!((nvlink.links, nvlink.multicast), (Some(18), Some(false)));
    let none = parse("machine = \"dgx-h100\"\nnvlink = { links = 0 }\n").expect("a machine");
    assert_eq!(none.node.nvlink, None);
    let smaller = parse("machine = \"dgx-h100\"\ngpus = 4\n").expect("a machine");
    assert_eq!(smaller.node.nvlink.expect("as it was").domain, 4);
    let other = parse("machine = \"dgx-h100\"\nmodel = \"RTX 4090\"\n").expect("a machine");
    assert_eq!(other.node.nvlink, None, "another model has other links");
}

/// The line, what is wrong, what is allowed.
#[test]
fn bad_files_say_where_and_what() {
    for (text, line, words) in [
        ("nodes = 2\ngpu = 8\n", 2, vec!["unknown field `gpu`", "`gpus`"]),
        ("nodes = 0\ngpus = 8\n", 1, vec!["0 is not a number of nodes", "1 to 1000000"]),
        ("gpus = 8\n", 1, vec!["`nodes` is missing"]),
        ("nodes = 2\n", 1, vec!["`gpus` is missing"]),
        ("nodes = 2\ngpus = 8\npcie = \"fast\"\n", 3, vec!["`fast` is no PCIe link", "5.0 x16"]),
        ("nodes = 2\ngpus = 8\n[[nics]]\nfabric = \"token ring\"\n", 4, vec!["token ring", "roce"]),
        ("nodes = 2\ngpus = 8\n[[nics]]\nrate = 400\n", 3, vec!["missing field `fabric`"]),
        (
            "nodes = 2\ngpus = 8\n[[nics]]\nfabric=\"roce\"\nrate = -4\n",
            5,
            vec!["-4 is not a rate"],
        ),
        (
            "nodes = 2\ngpus = 8\n[[nics]]\nfabric=\"roce\"\nmtu = 5\n",
            5,
            vec!["MTU", "256 to 65536"],
        ),
        ("# x\nmachine = \"dgx-9\"\n", 2, vec!["`dgx-9`", "dgx-h100", "rtx4090-host"]),
        ("nodes = 1\ngpus = 1\nsm = 90\n", 3, vec!["`sm` needs a `model`"]),
        ("nodes = 1\ngpus = 1\nsockets = 2\n", 3, vec!["`cpu`", "`amd`"]),
        ("nodes = 1\ngpus = 1\npcie_payload = 256\n", 3, vec!["needs `pcie`"]),
        ("nodes = 1\ngpus = nan\n", 2, vec!["floating point"]),
        ("nodes = 1\ngpus = 1\nnodes = 2\n", 3, vec!["duplicate"]),
        ("nodes = [\n", 1, vec!["array"]),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text}{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{text}{error}: no {word}");
        }
    }
}

fn link() -> impl Strategy<Value = PcieLink> {
    (1u8..=6, prop::sample::select(vec![1u8, 4, 8, 16]), prop::option::of(64u16..=4096))
        .prop_map(|(generation, width, max_payload)| PcieLink { generation, width, max_payload })
}

fn nics() -> impl Strategy<Value = Nics> {
    (
        1usize..40,
        prop::option::of(0.1f64..1600.0),
        prop::sample::select(NicKind::ALL.to_vec()),
        prop::option::of(256u32..10_000),
        prop::option::of(link()),
        1usize..4,
    )
        .prop_map(|(count, rate, kind, mtu, slot, sharing)| Nics {
            count,
            rate,
            kind,
            mtu,
            slot,
            sharing,
        })
}

prop_compose! {
    fn machine()(
        name in "[ -~]{0,20}",
        nodes in 1usize..100_000,
        gpus in 0usize..20,
        gpu in prop::option::of(("[a-zA-Z0-9 \"\\\\]{0,12}", prop::option::of(60u32..130))),
        nvlink in prop::option::of((
            prop::option::of(1u32..40), prop::option::of(1.0f64..100.0),
            any::<bool>(), prop::option::of(any::<bool>()), prop::option::of(any::<bool>()),
            1usize..200,
        )),
        pcie in prop::option::of(link()),
        cpu in prop::option::of((prop::option::of(1usize..9), prop::option::of(1.0f64..90.0))),
        nics in prop::collection::vec(nics(), 0..3),
        sharp in prop::option::of(any::<bool>()),
    ) -> Machine {
        Machine {
            name,
            nodes,
            node: Node {
                gpus,
                gpu: gpu.map(|(name, sm)| GpuModel { name, sm }),
                nvlink: nvlink.map(|(links, line, switched, meshed, multicast, domain)| NvLink {
                    links, line, switched, meshed, multicast, domain,
                }),
                pcie,
                cpu: cpu.map(|(sockets, between_sockets)| Cpu {
                    vendor: CpuVendor::Amd, sockets, between_sockets,
                }),
                nics,
            },
            sharp,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(machine in machine()) {
        let text = write(&machine);
        prop_assert_eq!(parse(&text).map_err(|error| format!("{error}\n{text}")), Ok(machine));
    }

    /// Whatever a machine is like, every bound is a rate with a bottleneck, or names what is missing, and
    /// NCCL's graphs are guessed in every release, or something is missing.
    #[test]
    fn every_machine_has_limits_or_says_why_not(machine in machine(), minor in 18u32..=30) {
        let placement = RankPlacement::new(machine.nodes, machine.node.gpus);
        for collective in Collective::ALL {
            for candidate in candidates(&machine, collective, &placement) {
                let limit = candidate.limit;
                prop_assert_eq!(limit.payload.is_some(), limit.missing.is_empty());
                if let Some(bound) = &limit.payload {
                    prop_assert!(bound.busbw.is_finite() && bound.busbw > 0.0, "{:?}", limit);
                    prop_assert!(limit.bottleneck.is_some());
                }
            }
        }
        match infer(&machine, &placement, Version::last_of(minor)) {
            Ok(inferred) => {
                let choice = inferred.communicator.choose(Collective::AllReduce, 1 << 20);
                let us = choice.map(|choice| choice.best.us);
                prop_assert!(us.is_none_or(|us| us.is_finite() && us > 0.0), "{:?}", us);
            }
            Err(missing) => prop_assert!(!missing.is_empty()),
        }
    }

    #[test]
    fn damaged_files_never_panic(cut in 0usize..700, byte in any::<char>(), which in 0usize..12) {
        let name = busbw_hardware::machine::ready::names()[which];
        let text = busbw_hardware::machine::ready::text(name).expect("named");
        let mut damaged: String = text.chars().take(cut).collect();
        damaged.push(byte);
        damaged.extend(text.chars().skip(cut + 1));
        if let Err(error) = parse(&damaged) {
            prop_assert!(error.line <= damaged.lines().count() + 1);
        }
    }
}
