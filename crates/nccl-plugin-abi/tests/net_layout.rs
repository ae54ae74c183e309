//! The tables of nets as C lays them out, printed as tests/data/net_layout.txt was by a C program from
//! NCCL's headers (2.30.7). Not what the functions do.

use std::{fmt::Write, mem::offset_of};

use nccl_plugin_abi::net::{
    CommConfig, DirectionHints, Hints, NetV8, NetV9, NetV10, NetV11, NetV12, PropertiesV8,
    PropertiesV9, PropertiesV11, PropertiesV12, VirtualDevice,
};

macro_rules! print {
    ($out:ident, $name:literal, $type:ty, $($field:literal $($path:ident).+),+) => {
        let (size, align) = (size_of::<$type>(), align_of::<$type>());
        writeln!($out, "{} {size} {align}", $name).unwrap();
        $(writeln!($out, "  {} {}", $field, offset_of!($type, $($path).+)).unwrap();)+
    };
}

#[test]
fn as_in_c() {
    let mut out = String::new();
    print!(out, "ncclNetProperties_v8_t", PropertiesV8, "name" name, "pciPath" pci_path, "guid" guid, "ptrSupport" ptr_support, "regIsGlobal" reg_is_global, "speed" speed, "port" port, "latency" latency, "maxComms" max_comms, "maxRecvs" max_recvs, "netDeviceType" device_type, "netDeviceVersion" device_version);
    print!(out, "ncclNet_v8_t", NetV8, "name" name, "init" init, "devices" devices, "getProperties" get_properties, "listen" listen, "connect" connect, "accept" accept, "regMr" reg_mr, "regMrDmaBuf" reg_mr_dma_buf, "deregMr" dereg_mr, "isend" isend, "irecv" irecv, "iflush" iflush, "test" test, "closeSend" close_send, "closeRecv" close_recv, "closeListen" close_listen, "getDeviceMr" get_device_mr, "irecvConsumed" irecv_consumed);
    print!(out, "ncclNetVDeviceProps_v9_t", VirtualDevice<4>, "ndevs" count, "devs" devices);
    print!(out, "ncclNetProperties_v9_t", PropertiesV9, "name" name, "pciPath" pci_path, "guid" guid, "ptrSupport" ptr_support, "regIsGlobal" reg_is_global, "forceFlush" force_flush, "speed" speed, "port" port, "latency" latency, "maxComms" max_comms, "maxRecvs" max_recvs, "netDeviceType" device_type, "netDeviceVersion" device_version, "vProps" virtual_device, "maxP2pBytes" max_p2p_bytes, "maxCollBytes" max_coll_bytes);
    print!(out, "ncclNet_v9_t", NetV9, "name" name, "init" init, "devices" devices, "getProperties" get_properties, "listen" listen, "connect" connect, "accept" accept, "regMr" reg_mr, "regMrDmaBuf" reg_mr_dma_buf, "deregMr" dereg_mr, "isend" isend, "irecv" irecv, "iflush" iflush, "test" test, "closeSend" close_send, "closeRecv" close_recv, "closeListen" close_listen, "getDeviceMr" get_device_mr, "irecvConsumed" irecv_consumed, "makeVDevice" make_virtual);
    print!(out, "ncclNetVDeviceProps_v10_t", VirtualDevice<4>, "ndevs" count, "devs" devices);
    print!(out, "ncclNetCommConfig_v10_t", CommConfig, "trafficClass" traffic_class);
    print!(out, "ncclNetProperties_v10_t", PropertiesV9, "name" name, "pciPath" pci_path, "guid" guid, "ptrSupport" ptr_support, "regIsGlobal" reg_is_global, "forceFlush" force_flush, "speed" speed, "port" port, "latency" latency, "maxComms" max_comms, "maxRecvs" max_recvs, "netDeviceType" device_type, "netDeviceVersion" device_version, "vProps" virtual_device, "maxP2pBytes" max_p2p_bytes, "maxCollBytes" max_coll_bytes);
    print!(out, "ncclNet_v10_t", NetV10, "name" name, "init" init, "devices" devices, "getProperties" get_properties, "listen" listen, "connect" connect, "accept" accept, "regMr" reg_mr, "regMrDmaBuf" reg_mr_dma_buf, "deregMr" dereg_mr, "isend" isend, "irecv" irecv, "iflush" iflush, "test" test, "closeSend" close_send, "closeRecv" close_recv, "closeListen" close_listen, "getDeviceMr" get_device_mr, "irecvConsumed" irecv_consumed, "makeVDevice" make_virtual);
    print!(out, "ncclNetVDeviceProps_v11_t", VirtualDevice<4>, "ndevs" count, "devs" devices);
    print!(out, "ncclNetCommConfig_v11_t", CommConfig, "trafficClass" traffic_class);
    print!(out, "ncclNetProperties_v11_t", PropertiesV11, "name" v9.name, "pciPath" v9.pci_path, "guid" v9.guid, "ptrSupport" v9.ptr_support, "regIsGlobal" v9.reg_is_global, "forceFlush" v9.force_flush, "speed" v9.speed, "port" v9.port, "latency" v9.latency, "maxComms" v9.max_comms, "maxRecvs" v9.max_recvs, "netDeviceType" v9.device_type, "netDeviceVersion" v9.device_version, "vProps" v9.virtual_device, "maxP2pBytes" v9.max_p2p_bytes, "maxCollBytes" v9.max_coll_bytes, "maxMultiRequestSize" max_multi_request);
    print!(out, "ncclNetCommAttr_v11_t", DirectionHints, "maxConcurrentPeers" most_peers, "minConcurrentPeers" least_peers, "maxFlowsPerPeer" most_flows, "minFlowsPerPeer" least_flows);
    print!(out, "ncclNetAttr_v11_t", Hints, "sendCommAttr" send, "recvCommAttr" recv, "op" op, "algo" algo, "proto" proto);
    print!(out, "ncclNet_v11_t", NetV11, "name" name, "init" init, "devices" devices, "getProperties" get_properties, "listen" listen, "connect" connect, "accept" accept, "regMr" reg_mr, "regMrDmaBuf" reg_mr_dma_buf, "deregMr" dereg_mr, "isend" isend, "irecv" irecv, "iflush" iflush, "test" test, "closeSend" close_send, "closeRecv" close_recv, "closeListen" close_listen, "getDeviceMr" get_device_mr, "irecvConsumed" irecv_consumed, "makeVDevice" make_virtual, "finalize" finalize, "setNetAttr" set_hints);
    print!(out, "ncclNetVDeviceProps_v12_t", VirtualDevice<8>, "ndevs" count, "devs" devices);
    print!(out, "ncclNetCommConfig_v12_t", CommConfig, "trafficClass" traffic_class);
    print!(out, "ncclNetProperties_v12_t", PropertiesV12, "name" name, "pciPath" pci_path, "guid" guid, "ptrSupport" ptr_support, "regIsGlobal" reg_is_global, "forceFlush" force_flush, "speed" speed, "port" port, "latency" latency, "maxComms" max_comms, "maxRecvs" max_recvs, "netDeviceType" device_type, "netDeviceVersion" device_version, "vProps" virtual_device, "maxP2pBytes" max_p2p_bytes, "maxCollBytes" max_coll_bytes, "maxMultiRequestSize" max_multi_request, "railId" rail, "planeId" plane);
    print!(out, "ncclNetCommAttr_v12_t", DirectionHints, "maxConcurrentPeers" most_peers, "minConcurrentPeers" least_peers, "maxFlowsPerPeer" most_flows, "minFlowsPerPeer" least_flows);
    print!(out, "ncclNetAttr_v12_t", Hints, "sendCommAttr" send, "recvCommAttr" recv, "op" op, "algo" algo, "proto" proto);
    print!(out, "ncclNet_v12_t", NetV12, "name" name, "init" init, "devices" devices, "getProperties" get_properties, "listen" listen, "connect" connect, "accept" accept, "regMr" reg_mr, "regMrDmaBuf" reg_mr_dma_buf, "deregMr" dereg_mr, "isend" isend, "irecv" irecv, "iflush" iflush, "test" test, "closeSend" close_send, "closeRecv" close_recv, "closeListen" close_listen, "getDeviceMr" get_device_mr, "irecvConsumed" irecv_consumed, "makeVDevice" make_virtual, "finalize" finalize, "setNetAttr" set_hints);
    assert_eq!(out, include_str!("data/net_layout.txt"));
}

/// The same layout in the libraries themselves: `structures.tsv` of each release is read from its DWARF.
#[test]
fn as_in_releases() {
    let mut structures = 0;
    for release in ["2.28.9", "2.30.7", "2.31.2", "2.32.3"] {
        let path = format!(
            "{}/../nccl-releases/data/{release}/structures.tsv",
            env!("CARGO_MANIFEST_DIR")
        );
        let table = std::fs::read_to_string(&path).unwrap();
        let place = |structure: &str, field: &str| {
            table.lines().find_map(|line| {
                let mut cells = line.split('\t');
                let named = cells.next() == Some(structure);
                let (offset, bytes) = (cells.next()?, cells.next()?);
                (named && cells.next() == Some(field))
                    .then(|| (offset.to_owned(), bytes.to_owned()))
            })
        };
        let mut inside = None;
        for line in include_str!("data/net_layout.txt").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if line.starts_with(' ') {
                let Some(structure) = inside else { continue };
                let (offset, _) = place(structure, words[0]).expect(line);
                assert_eq!(offset, words[1], "{release} {structure}.{}", words[0]);
                continue;
            }
            // A release does not have the interfaces of later ones.
            let whole = place(words[0], "-");
            inside = whole.as_ref().map(|_| words[0]);
            if let Some((_, bytes)) = whole {
                assert_eq!(bytes, words[1], "{release} {}", words[0]);
                structures += 1;
            }
        }
    }
    assert!(structures >= 4 * 10, "{structures} structures were compared");
}
