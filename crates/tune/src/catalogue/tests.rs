//! The table is whole, and only what means something here is tried.
//! Not the search.

use super::*;

fn here() -> Here {
    Here {
        nccl: Some(Version::new(2, 28, 9)),
        rdma: true,
        rails: true,
        nvlink: true,
        collectives: true,
        ..Here::default()
    }
}

fn listed(name: &str, values: &[&str]) -> BTreeMap<String, Vec<Option<String>>> {
    let values = values.iter().map(|value| Some((*value).to_owned())).collect();
    BTreeMap::from([(name.to_owned(), values)])
}

fn names(space: &Space) -> Vec<&str> {
    space.variables().iter().map(|variable| variable.name.as_str()).collect()
}

#[test]
fn every_row_is_read_and_its_own_values_are_accepted() {
    let rows = rows();
    assert_eq!(rows.len(), TABLE.lines().filter(|line| !line.starts_with('#')).count());
    for (place, row) in rows.iter().enumerate() {
        for (value, _) in &row.values {
            assert!(value.is_none_or(|value| row.accepts.takes(value)), "{}: {value:?}", row.name);
        }
        for need in &row.needs {
            assert!(rows[..place].iter().any(|other| other.name == need.name), "{}", row.name);
        }
        let is_nccls = row.name.starts_with("NCCL_");
        assert_eq!(row.since.is_some(), is_nccls, "{}", row.name);
        let places =
            ["any", "network", "rails", "rdma", "sockets", "nvlink", "busbw_net", "net_backend"];
        assert!(places.contains(&row.place), "{}", row.name);
        assert!(["all", "collectives", "messages"].contains(&row.operations));
        assert!(row.source.len() > 5, "{}", row.name);
    }
}

#[test]
fn what_can_harm_others_is_never_tried_unasked() {
    let (space, waived) = space(&here(), &BTreeMap::new(), &BTreeMap::new()).unwrap();
    for name in [
        "NCCL_IB_TC",
        "NCCL_IB_FIFO_TC",
        "NCCL_IB_SL",
        "NCCL_IB_ADAPTIVE_ROUTING",
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
    ] {
        assert!(!names(&space).contains(&name), "{name}");
        let reason = waived.iter().find(|one| one.name == name).map(|one| one.reason.as_str());
        assert!(reason.is_some_and(|reason| reason.starts_with("not tried unless")), "{name}");
    }
    let (asked, _) =
        super::space(&here(), &BTreeMap::new(), &listed("NCCL_IB_TC", &["106"])).unwrap();
    assert!(names(&asked).contains(&"NCCL_IB_TC"));
}

#[test]
fn releases_and_dependencies_hold() {
    let (space, waived) = space(&here(), &BTreeMap::new(), &BTreeMap::new()).unwrap();
    let reason = |name: &str| waived.iter().find(|one| one.name == name).unwrap().reason.clone();
    assert!(reason("NCCL_IB_EVENT_BASED_LB").contains("2.31.2"));
    assert!(reason("NCCL_SOCKET_NTHREADS").contains("sockets"));
    assert!(reason("NCCL_P2P_NET_CHUNKSIZE").contains("messages"));
    let place = |name: &str| names(&space).iter().position(|one| *one == name).unwrap();
    let mut point = space.default_point();
    point[place("NCCL_IB_SPLIT_DATA_ON_QPS")] = 2;
    space.normalise(&mut point);
    assert_eq!(point, space.default_point());
}

#[test]
fn the_users_own_value_is_the_default() {
    let present = BTreeMap::from([("NCCL_IB_QPS_PER_CONNECTION".to_owned(), "3".to_owned())]);
    let (space, _) = space(&here(), &present, &BTreeMap::new()).unwrap();
    let variable =
        space.variables().iter().find(|v| v.name == "NCCL_IB_QPS_PER_CONNECTION").unwrap();
    let values: Vec<&str> =
        variable.values.iter().map(|value| value.as_deref().unwrap_or("unset")).collect();
    assert_eq!(values, ["unset", "1", "2", "3", "4", "8", "16"]);
    assert_eq!(values[variable.default], "3");
}

#[test]
fn what_somebody_switched_off_stays_off_unless_it_is_listed() {
    let present = BTreeMap::from([("NCCL_NVLS_ENABLE".to_owned(), "0".to_owned())]);
    let (space, waived) = super::space(&here(), &present, &BTreeMap::new()).unwrap();
    assert!(!names(&space).contains(&"NCCL_NVLS_ENABLE"));
    let reason = waived.iter().find(|one| one.name == "NCCL_NVLS_ENABLE").unwrap();
    assert!(reason.reason.contains("left as the environment sets it (0)"));
    let (asked, _) = super::space(&here(), &present, &listed("NCCL_NVLS_ENABLE", &["1"])).unwrap();
    assert!(names(&asked).contains(&"NCCL_NVLS_ENABLE"));
}

#[test]
fn nothing_unknown_is_tried() {
    let refused = |list: &BTreeMap<_, _>| {
        super::space(&here(), &BTreeMap::new(), list).unwrap_err().to_string()
    };
    assert!(refused(&listed("NCCL_FOO", &["1"])).contains("nothing unknown"));
    assert!(refused(&listed("NCCL_IB_SL", &["16"])).contains("from 0 to 15"));
    assert!(refused(&listed("NCCL_PROTO", &["LL128"])).contains("by size"));
    assert!(refused(&listed("NCCL_NTHREADS", &["100"])).contains("the search takes 64, 128"));
    assert!(refused(&listed("NCCL_SOCKET_NTHREADS", &["4"])).contains("cannot be tried here"));
    let nothing = super::space(&Here::default(), &BTreeMap::new(), &BTreeMap::new());
    assert!(matches!(nothing, Err(CatalogueError::Space(SpaceError::Empty))));
}

#[test]
fn the_option_that_selects_a_net_plugin_is_a_variable_of_the_net_backend() {
    let present = BTreeMap::from([("--net".to_owned(), "/lib/reference.so".to_owned())]);
    let here = Here {
        net_backend: true,
        sockets: true,
        busbw_net: true,
        collectives: true,
        ..Here::default()
    };
    let (space, waived) = super::space(&here, &present, &listed("--net", &["busbw"])).unwrap();
    assert_eq!(
        names(&space),
        ["--net", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "BUSBW_NET_THREADS"]
    );
    assert_eq!(
        space.variables()[0].values[space.variables()[0].default].as_deref(),
        Some("/lib/reference.so")
    );
    // Threads of a plugin mean something with that plugin alone.
    for (net, expected) in [(0, "BUSBW_NET_THREADS"), (1, "NCCL_SOCKET_NTHREADS")] {
        let mut point = vec![net, 2, 0, 2];
        space.normalise(&mut point);
        let set: Vec<String> = space.environment(&point).into_iter().map(|one| one.name).collect();
        assert!(set.contains(&expected.to_owned()) && set.len() == 2 - net, "{set:?}");
    }
    let (rungs, _) = rungs(&space, &waived);
    let names: Vec<&str> = rungs.iter().map(|rung| rung.name.as_str()).collect();
    assert_eq!(names, ["net plugin", "threads of the net plugin", "socket threads"]);
}

#[test]
fn what_nccls_sockets_read_is_not_tried_with_the_plugin() {
    let here = Here {
        nccl: Some(Version::new(2, 28, 9)),
        sockets: true,
        busbw_net: true,
        collectives: true,
        ..Here::default()
    };
    let (space, waived) =
        super::space(&here, &BTreeMap::new(), &listed("NCCL_NET_PLUGIN", &["/lib/busbw.so"]))
            .unwrap();
    let at = |name: &str| names(&space).iter().position(|one| *one == name).unwrap();
    let plugin = at("NCCL_NET_PLUGIN");
    let is_set = |value: &Option<String>| value.is_some();
    let with = space.variables()[plugin].values.iter().position(is_set).unwrap();
    for (is_kept, expected) in [(true, "BUSBW_NET_THREADS"), (false, "NCCL_SOCKET_NTHREADS")] {
        let mut point = space.default_point();
        for name in ["BUSBW_NET_THREADS", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"] {
            point[at(name)] = 2;
        }
        if is_kept {
            point[plugin] = with;
        }
        space.normalise(&mut point);
        let set: Vec<String> = space.environment(&point).into_iter().map(|one| one.name).collect();
        assert!(set.contains(&expected.to_owned()) && set.len() == 2, "{set:?}");
    }
    // With one network device rings cannot change it.
    let reason = &waived.iter().find(|one| one.name == "NCCL_CROSS_NIC").unwrap().reason;
    assert!(reason.ends_with("several network devices a node"), "{reason}");
}
