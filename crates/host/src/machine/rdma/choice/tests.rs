//! Choices on made-up devices: which port and address, with what reason, and what the errors say.
//! Not reading the devices.

use proptest::prelude::*;

use super::*;

fn gid(index: u32, address: &str, version_two: Option<bool>) -> Gid {
    let interface = Some("eth0".to_owned());
    Gid { index, address: address.parse().unwrap(), version_two, interface, elsewhere: false }
}

/// What mlx5 makes of an interface with an IPv4 address.
fn roce(number: u32) -> Port {
    Port {
        number,
        state: "ACTIVE".to_owned(),
        physical: "LinkUp".to_owned(),
        gbps: Some(400.0),
        ethernet: true,
        gids: vec![
            gid(0, "fe80::1", Some(false)),
            gid(1, "fe80::1", Some(true)),
            gid(2, "::ffff:10.0.0.1", Some(false)),
            gid(3, "::ffff:10.0.0.1", Some(true)),
        ],
        ..Port::default()
    }
}

fn infiniband(number: u32) -> Port {
    let gids = vec![gid(0, "fe80::2", None)];
    Port { ethernet: false, lid: Some(17), sm_lid: Some(1), gids, ..roce(number) }
}

fn device(index: u32, port: Port) -> RdmaDevice {
    RdmaDevice {
        name: format!("mlx5_{index}"),
        address: Some(format!("0000:{:02x}:00.0", 0x10 + index)),
        numa: Some(index / 2),
        node_type: "CA".to_owned(),
        ports: vec![port],
        ..RdmaDevice::default()
    }
}

fn four(port: fn(u32) -> Port) -> Vec<RdmaDevice> {
    (0..4).map(|index| device(index, port(1))).collect()
}

fn named(names: &str) -> Wanted {
    Wanted { devices: Some(names.to_owned()), ..Wanted::default() }
}

/// The names that are taken, in turn.
fn names(devices: &[RdmaDevice], wanted: &Wanted) -> Vec<String> {
    let found = candidates(devices, wanted).unwrap();
    found.ports.iter().map(Choice::name).collect()
}

#[test]
fn ranks_take_devices_in_turn() {
    let devices = four(roce);
    let of = |turn, near| choose(&devices, &Wanted::default(), turn, near).unwrap();
    let first = of(0, None);
    assert_eq!((first.name().as_str(), first.gid_index, first.port), ("mlx5_0:1", 3, 1));
    assert_eq!((first.address(), first.numa), ("10.0.0.1".to_owned(), Some(0)));
    assert_eq!(first.why, "the first of 4 active ports in PCI order; GID 3: RoCE v2, 10.0.0.1");
    assert_eq!(
        [0, 1, 2, 3, 4].map(|turn| of(turn, None).device.clone()).concat(),
        "mlx5_0mlx5_1mlx5_2mlx5_3mlx5_0"
    );
    let far = of(1, Some(1));
    assert_eq!(far.device, "mlx5_3");
    assert_eq!(
        far.why,
        "port 4 of 4 active ones in PCI order, on NUMA node 1 as the rank; GID 3: RoCE v2, 10.0.0.1"
    );
    assert!(of(1, Some(7)).why.contains("none is on the rank's NUMA node 7"));
}

#[test]
fn order_is_that_of_the_bus() {
    let mut devices = four(roce);
    devices[0].address = Some("10000:01:00.0".to_owned());
    devices[1].address = None;
    devices[1].name = "rxe0".to_owned();
    assert_eq!(names(&devices, &Wanted::default()), ["mlx5_2:1", "mlx5_3:1", "mlx5_0:1", "rxe0:1"]);
}

#[test]
fn names_of_devices() {
    let devices = four(roce);
    assert_eq!(names(&devices, &named("mlx5_2,mlx5_0:1")), ["mlx5_2:1", "mlx5_0:1"]);
    assert_eq!(names(&devices, &named("^mlx5_3, mlx5_1")), ["mlx5_0:1", "mlx5_2:1"]);
    assert_eq!(names(&devices, &named("")).len(), 4);
    let error = |words: &str| candidates(&devices, &named(words)).unwrap_err();
    assert_eq!(error("mlx5_7"), "no RDMA device is called mlx5_7 here; there are: mlx5_0-3");
    assert_eq!(error("mlx5_0:2"), "mlx5_0 has no port 2; its ports: 1");
    assert_eq!(error("mlx5_0:x"), "mlx5_0:x: \"x\" is no port number; write mlx5_0 or mlx5_0:1");
    assert_eq!(
        error("^mlx5_0,mlx5_1,mlx5_2,mlx5_3"),
        "^mlx5_0,mlx5_1,mlx5_2,mlx5_3 leaves no RDMA port of this host"
    );
    let wanted = Wanted { port: Some(2), ..Wanted::default() };
    assert_eq!(
        candidates(&devices, &wanted).unwrap_err(),
        "no RDMA device of this host has a port 2"
    );
    assert!(candidates(&[], &Wanted::default()).unwrap_err().starts_with("no RDMA device here"));
}

#[test]
fn a_device_with_two_ports() {
    let mut devices = vec![device(0, roce(1))];
    devices[0].ports.push(roce(2));
    assert_eq!(names(&devices, &Wanted::default()), ["mlx5_0:1", "mlx5_0:2"]);
    assert_eq!(names(&devices, &Wanted { port: Some(2), ..named("mlx5_0") }), ["mlx5_0:2"]);
    assert_eq!(names(&devices, &named("^mlx5_0:1")), ["mlx5_0:2"]);
    assert_eq!(names(&devices, &named("mlx5_0,mlx5_0:1")), ["mlx5_0:1", "mlx5_0:2"]);
}

#[test]
fn ports_that_cannot_be_used() {
    let of = |change: fn(&mut RdmaDevice)| {
        let mut devices = vec![device(0, infiniband(1))];
        devices[0].interfaces = vec!["eth0".to_owned()];
        change(&mut devices[0]);
        candidates(&devices, &Wanted::default()).unwrap_err()
    };
    let head = "no RDMA port can be used: mlx5_0: ";
    type Change = fn(&mut RdmaDevice);
    let cases: [(&str, Change); 6] = [
        (
            "the port is INIT, its link LinkUp; start a subnet manager (opensm) that reaches it",
            |d| {
                d.ports[0].state = "INIT".to_owned();
            },
        ),
        ("it is ACTIVE without a LID; start a subnet manager (opensm) that reaches it", |d| {
            d.ports[0].lid = None
        }),
        ("the port is DOWN, its link Disabled; ip link set eth0 up", |d| {
            d.ports[0] =
                Port { state: "DOWN".to_owned(), physical: "Disabled".to_owned(), ..roce(1) };
        }),
        ("the port is DOWN, its link Polling; check cable and switch port", |d| {
            (d.ports[0].state, d.ports[0].physical) = ("DOWN".to_owned(), "Polling".to_owned());
        }),
        ("its address table is empty; give its interface an IPv4 address", |d| {
            d.ports[0] = Port { gids: Vec::new(), ..roce(1) };
        }),
        ("it speaks iWARP, whose connections only librdmacm makes", |d| {
            d.node_type = "RNIC".to_owned()
        }),
    ];
    for (want, change) in cases {
        assert_eq!(of(change), format!("{head}{want}"));
    }
}

#[test]
fn an_index_that_is_asked_for() {
    let devices = four(roce);
    let of = |index| candidates(&devices, &Wanted { gid_index: Some(index), ..named("mlx5_0") });
    assert_eq!(of(1).unwrap().ports[0].kind, AddressKind::RoceV2LinkLocal);
    let head = "no RDMA port can be used: mlx5_0: GID index";
    assert_eq!(of(9).unwrap_err(), format!("{head} 9 is empty; RoCE v2 is at 1, 3"));
    assert_eq!(of(2).unwrap_err(), format!("{head} 2 is RoCE v1; RoCE v2 is at 1, 3"));
    let wanted = Wanted { gid_index: Some(3), ..Wanted::default() };
    assert_eq!(
        candidates(&four(infiniband), &wanted).unwrap_err(),
        "no RDMA port can be used: mlx5_0-3: GID index 3 is empty; there is 0"
    );
}

#[test]
fn what_does_not_fit_is_left_out_and_said() {
    let mut devices = four(roce);
    devices[0].ports[0].gbps = Some(25.0);
    devices[1].ports[0].state = "DOWN".to_owned();
    devices[2].ports[0].gids.truncate(2);
    let found = candidates(&devices, &Wanted::default()).unwrap();
    assert_eq!(found.ports.len(), 1);
    assert_eq!(found.ports[0].why, "the only port that fits; GID 3: RoCE v2, 10.0.0.1");
    assert_eq!(
        found.left_out,
        [
            "mlx5_1: the port is DOWN, its link LinkUp; check cable and switch port, and ip link set INTERFACE up",
            "mlx5_0: 25 Gb/s where other ports have 400 Gb/s",
            "mlx5_2: RoCE v2, link-local where other ports have RoCE v2, IPv4",
        ]
    );
    // Who names a port gets it.
    assert_eq!(names(&devices, &named("mlx5_0,mlx5_2")), ["mlx5_0:1", "mlx5_2:1"]);
}

#[test]
fn infiniband_by_its_first_address() {
    let choice = choose(&four(infiniband), &Wanted::default(), 0, None).unwrap();
    assert_eq!(choice.why, "the first of 4 active ports in PCI order; GID 0: InfiniBand, LID 17");
    let mut efa = four(infiniband);
    for device in &mut efa {
        (device.ports[0].lid, device.node_type) = (None, "unspecified".to_owned());
    }
    assert!(candidates(&efa, &Wanted::default()).is_ok());
}

#[test]
fn an_address_of_another_namespace_comes_last() {
    let mut devices = vec![device(0, roce(1))];
    devices[0].ports[0].gids[3].elsewhere = true;
    assert_eq!(choose(&devices, &Wanted::default(), 0, None).unwrap().gid_index, 1);
    for gid in &mut devices[0].ports[0].gids {
        gid.elsewhere = true;
    }
    let choice = choose(&devices, &Wanted::default(), 0, None).unwrap();
    assert_eq!(
        choice.why,
        "the only port; GID 3: RoCE v2, 10.0.0.1 (of eth0, an interface of another network namespace)"
    );
    devices.push(device(1, roce(1)));
    assert_eq!(names(&devices, &Wanted::default()), ["mlx5_1:1"]);
}

fn any_gid() -> impl Strategy<Value = Gid> {
    let addresses = ["fe80::1", "::ffff:10.0.0.1", "2001:db8::1", "::1"];
    (0..8_u32, prop::sample::select(addresses.to_vec()), any::<Option<bool>>(), any::<bool>())
        .prop_map(|(index, address, kind, elsewhere)| Gid {
            elsewhere,
            ..gid(index, address, kind)
        })
}

fn any_port() -> impl Strategy<Value = Port> {
    let state = prop::sample::select(vec!["ACTIVE", "DOWN", "INIT", ""]);
    let gbps = prop::option::of(prop::sample::select(vec![25.0, 400.0]));
    let gids = prop::collection::vec(any_gid(), 0..5);
    (1..3_u32, state, any::<bool>(), any::<Option<u16>>(), gbps, gids).prop_map(
        |(number, state, ethernet, lid, gbps, gids)| Port {
            state: state.to_owned(),
            ethernet,
            lid,
            gbps,
            gids,
            ..roce(number)
        },
    )
}

fn any_device() -> impl Strategy<Value = RdmaDevice> {
    let ports = prop::collection::vec(any_port(), 0..3);
    (0..9_u32, ports, prop::option::of(0..3_u32), any::<bool>()).prop_map(
        |(index, ports, numa, hard)| {
            let address = hard.then(|| format!("0000:{index:02x}:00.0"));
            RdmaDevice { ports, numa, address, ..device(index, roce(1)) }
        },
    )
}

proptest! {
    /// What is chosen exists, is active, and is what was asked for; what is not is said.
    #[test]
    fn a_choice_is_one_of_the_ports(
        devices in prop::collection::vec(any_device(), 0..6),
        names in prop::option::of("\\^?(mlx5_[0-9](:[12])?,?){0,3}"),
        port in prop::option::of(1..3_u32),
        gid_index in prop::option::of(0..8_u32),
        turn in 0..20_usize,
        near in prop::option::of(0..3_u32),
    ) {
        let wanted = Wanted { devices: names, port, gid_index };
        let all = candidates(&devices, &wanted);
        let one = choose(&devices, &wanted, turn, near);
        prop_assert_eq!(all.is_ok(), one.is_ok());
        let (Ok(all), Ok(one)) = (all, one) else { return Ok(()) };
        prop_assert!(all.ports.iter().any(|port| (port.name(), port.gid_index) == (one.name(), one.gid_index)));
        let is_it = |d: &&RdmaDevice| d.name == one.device && d.numa == one.numa;
        let ports = devices.iter().filter(is_it).flat_map(|device| &device.ports);
        let mut found = ports.filter(|port| {
            port.number == one.port && port.state == "ACTIVE"
                && port.gids.iter().any(|gid| (gid.index, gid.address) == (one.gid_index, one.gid))
        });
        prop_assert!(found.next().is_some());
        prop_assert!(gid_index.is_none_or(|index| index == one.gid_index));
        if near.is_some() && all.ports.iter().any(|port| port.numa == near) {
            prop_assert_eq!(one.numa, near);
        }
        prop_assert!(one.why.contains("; GID "));
    }

    /// Turns go round all of the ports, as evenly as can be.
    #[test]
    fn turns_are_even(devices in prop::collection::vec(any_device(), 1..6)) {
        if let Ok(all) = candidates(&devices, &Wanted::default()) {
            let round: Vec<String> = (0..all.ports.len())
                .map(|turn| choose(&devices, &Wanted::default(), turn, None).unwrap().name())
                .collect();
            let ports: Vec<String> = all.ports.iter().map(Choice::name).collect();
            prop_assert_eq!(round, ports);
        }
    }

    #[test]
    fn any_names(text in ".{0,40}") {
        let _ = candidates(&four(roce), &named(&text));
    }
}
