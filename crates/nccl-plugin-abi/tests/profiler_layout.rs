//! The tables and descriptions of profilers, held against those of NCCL's libraries (`structures.tsv` of each release, read
//! from its DWARF). Not what the functions do.

use std::{collections::BTreeMap, mem::offset_of};

use nccl_plugin_abi::profiler::*;

/// By C's name of a structure: its size, and the fields that are named here with their offsets.
type Layouts = BTreeMap<&'static str, Vec<(&'static str, usize)>>;

macro_rules! profiler {
    ($ours:ident, $name:literal, $type:ty) => {
        $ours.insert(
            $name,
            vec![
                ("-", size_of::<$type>()),
                ("name", offset_of!($type, name)),
                ("init", offset_of!($type, init)),
                ("startEvent", offset_of!($type, start)),
                ("stopEvent", offset_of!($type, stop)),
                ("recordEventState", offset_of!($type, record_state)),
                ("finalize", offset_of!($type, finalize)),
            ],
        );
    };
}

macro_rules! description {
    ($ours:ident, $name:expr, $type:ty, $(($field:literal $inner:ty: $($place:ident).+)),* $(,)?) => {
        $ours.insert($name, vec![
            ("type", offset_of!($type, kind)),
            ("parentObj", offset_of!($type, parent)),
            ("rank", offset_of!($type, rank)),
            ("proxyOp.pid", offset_of!($type, of) + offset_of!(ProxyOperation, pid)),
            ("proxyOp.channelId", offset_of!($type, of) + offset_of!(ProxyOperation, channel)),
            ("proxyOp.peer", offset_of!($type, of) + offset_of!(ProxyOperation, peer)),
            ("proxyOp.nSteps", offset_of!($type, of) + offset_of!(ProxyOperation, steps)),
            ("proxyOp.chunkSize", offset_of!($type, of) + offset_of!(ProxyOperation, chunk_bytes)),
            ("proxyOp.isSend", offset_of!($type, of) + offset_of!(ProxyOperation, send)),
            ("proxyStep.step", offset_of!($type, of) + offset_of!(ProxyStep, step)),
            $(($field, offset_of!($type, of) + offset_of!($inner, $($place).+))),*
        ]);
    };
}

fn ours() -> Layouts {
    let mut ours = Layouts::new();
    profiler!(ours, "ncclProfiler_v2_t", ProfilerV2);
    profiler!(ours, "ncclProfiler_v3_t", ProfilerV3);
    profiler!(ours, "ncclProfiler_v4_t", ProfilerV4);
    profiler!(ours, "ncclProfiler_v5_t", ProfilerV5);
    profiler!(ours, "ncclProfiler_v6_t", ProfilerV5);
    profiler!(ours, "ncclProfiler_v7_t", ProfilerV7);
    description!(ours, "ncclProfilerEventDescr_v2_t", DescriptionV2,
        ("coll.name" CollectiveV2: communicator_name), ("coll.commHash" CollectiveV2: communicator),
        ("coll.seqNumber" CollectiveV2: sequence), ("coll.func" CollectiveV2: function),
        ("coll.sendBuff" CollectiveV2: send_buffer), ("coll.recvBuff" CollectiveV2: receive_buffer),
        ("coll.count" CollectiveV2: count), ("coll.root" CollectiveV2: root), ("coll.datatype" CollectiveV2: datatype),
        ("coll.trafficBytes" CollectiveV2: traffic_bytes), ("coll.nMaxChannels" CollectiveV2: most_channels),
        ("coll.nWarps" CollectiveV2: warps), ("coll.algo" CollectiveV2: algorithm), ("coll.proto" CollectiveV2: protocol),
        ("p2p.name" MessageV2: communicator_name), ("p2p.commHash" MessageV2: communicator),
        ("p2p.func" MessageV2: function), ("p2p.buff" MessageV2: buffer), ("p2p.datatype" MessageV2: datatype),
        ("p2p.count" MessageV2: count), ("p2p.peer" MessageV2: peer));
    description!(ours, "ncclProfilerEventDescr_v3_t", DescriptionV3,
        ("coll.name" CollectiveV3: communicator_name), ("coll.commHash" CollectiveV3: communicator),
        ("coll.seqNumber" CollectiveV3: sequence), ("coll.func" CollectiveV3: function),
        ("coll.sendBuff" CollectiveV3: send_buffer), ("coll.recvBuff" CollectiveV3: receive_buffer),
        ("coll.count" CollectiveV3: count), ("coll.root" CollectiveV3: root), ("coll.datatype" CollectiveV3: datatype),
        ("coll.nMaxChannels" CollectiveV3: most_channels), ("coll.nWarps" CollectiveV3: warps),
        ("coll.algo" CollectiveV3: algorithm), ("coll.proto" CollectiveV3: protocol),
        ("p2p.name" MessageV2: communicator_name), ("p2p.commHash" MessageV2: communicator),
        ("p2p.func" MessageV2: function), ("p2p.buff" MessageV2: buffer), ("p2p.datatype" MessageV2: datatype),
        ("p2p.count" MessageV2: count), ("p2p.peer" MessageV2: peer), ("kernelCh.channelId" KernelChannelV3: channel));
    description!(ours, "ncclProfilerEventDescr_v4_t", DescriptionV4,
        ("coll.seqNumber" CollectiveV4: sequence), ("coll.func" CollectiveV4: function),
        ("coll.sendBuff" CollectiveV4: send_buffer), ("coll.recvBuff" CollectiveV4: receive_buffer),
        ("coll.count" CollectiveV4: count), ("coll.root" CollectiveV4: root), ("coll.datatype" CollectiveV4: datatype),
        ("coll.nChannels" CollectiveV4: channels), ("coll.nWarps" CollectiveV4: warps),
        ("coll.algo" CollectiveV4: algorithm), ("coll.proto" CollectiveV4: protocol),
        ("p2p.func" MessageV4: function), ("p2p.buff" MessageV4: buffer), ("p2p.datatype" MessageV4: datatype),
        ("p2p.count" MessageV4: count), ("p2p.peer" MessageV4: peer), ("p2p.nChannels" MessageV4: channels),
        ("kernelCh.channelId" KernelChannelV4: channel), ("kernelCh.pTimer" KernelChannelV4: timer));
    for name in ["ncclProfilerEventDescr_v5_t", "ncclProfilerEventDescr_v6_t"] {
        description!(ours, name, DescriptionV5,
            ("coll.seqNumber" CollectiveV5: v4.sequence), ("coll.func" CollectiveV5: v4.function),
            ("coll.sendBuff" CollectiveV5: v4.send_buffer), ("coll.recvBuff" CollectiveV5: v4.receive_buffer),
            ("coll.count" CollectiveV5: v4.count), ("coll.root" CollectiveV5: v4.root),
            ("coll.datatype" CollectiveV5: v4.datatype), ("coll.nChannels" CollectiveV5: v4.channels),
            ("coll.nWarps" CollectiveV5: v4.warps), ("coll.algo" CollectiveV5: v4.algorithm),
            ("coll.proto" CollectiveV5: v4.protocol), ("coll.parentGroup" CollectiveV5: group),
            ("p2p.func" MessageV5: v4.function), ("p2p.buff" MessageV5: v4.buffer),
            ("p2p.datatype" MessageV5: v4.datatype), ("p2p.count" MessageV5: v4.count), ("p2p.peer" MessageV5: v4.peer),
            ("p2p.nChannels" MessageV5: v4.channels), ("p2p.parentGroup" MessageV5: group),
            ("kernelCh.channelId" KernelChannelV4: channel), ("kernelCh.pTimer" KernelChannelV4: timer));
    }
    description!(ours, "ncclProfilerEventDescr_v7_t", DescriptionV7,
        ("coll.seqNumber" CollectiveV7: v5.v4.sequence), ("coll.func" CollectiveV7: v5.v4.function),
        ("coll.sendBuff" CollectiveV7: v5.v4.send_buffer), ("coll.recvBuff" CollectiveV7: v5.v4.receive_buffer),
        ("coll.count" CollectiveV7: v5.v4.count), ("coll.root" CollectiveV7: v5.v4.root),
        ("coll.datatype" CollectiveV7: v5.v4.datatype), ("coll.nChannels" CollectiveV7: v5.v4.channels),
        ("coll.nWarps" CollectiveV7: v5.v4.warps), ("coll.algo" CollectiveV7: v5.v4.algorithm),
        ("coll.proto" CollectiveV7: v5.v4.protocol), ("coll.parentGroup" CollectiveV7: v5.group),
        ("coll.kernelVariant" CollectiveV7: kernel_variant), ("coll.isSymColl" CollectiveV7: symmetric),
        ("coll.userTag" CollectiveV7: user_tag), ("p2p.func" MessageV7: v5.v4.function),
        ("p2p.buff" MessageV7: v5.v4.buffer), ("p2p.datatype" MessageV7: v5.v4.datatype),
        ("p2p.count" MessageV7: v5.v4.count), ("p2p.peer" MessageV7: v5.v4.peer),
        ("p2p.nChannels" MessageV7: v5.v4.channels), ("p2p.parentGroup" MessageV7: v5.group),
        ("p2p.userTag" MessageV7: user_tag),
        ("kernelCh.channelId" KernelChannelV4: channel), ("kernelCh.pTimer" KernelChannelV4: timer));
    for name in ["ncclProfilerEventStateArgs_v2_t", "ncclProfilerEventStateArgs_v3_t"] {
        ours.insert(
            name,
            vec![
                ("-", size_of::<StateArgumentsV2>()),
                ("proxyOp.transSize", offset_of!(StateArgumentsV2, transfer_bytes)),
                ("proxyOp.steps", offset_of!(StateArgumentsV2, steps)),
            ],
        );
    }
    for name in [
        "ncclProfilerEventStateArgs_v4_t",
        "ncclProfilerEventStateArgs_v5_t",
        "ncclProfilerEventStateArgs_v6_t",
        "ncclProfilerEventStateArgs_v7_t",
    ] {
        ours.insert(
            name,
            vec![
                ("-", size_of::<StateArgumentsV4>()),
                ("proxyStep.transSize", offset_of!(StateArgumentsV4, transfer_bytes)),
                ("kernelCh.pTimer", offset_of!(StateArgumentsV4, timer)),
            ],
        );
    }
    ours
}

#[test]
fn as_in_releases() {
    let (ours, mut compared) = (ours(), BTreeMap::new());
    for release in ["2.24.3", "2.26.2", "2.27.7", "2.28.9", "2.29.2", "2.30.7", "2.31.2", "2.32.3"]
    {
        let path = format!(
            "{}/../nccl-releases/data/{release}/structures.tsv",
            env!("CARGO_MANIFEST_DIR")
        );
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let [structure, offset, bytes, field] = line.split('\t').collect::<Vec<_>>()[..] else {
                continue;
            };
            let Some(layout) = ours.get(structure) else { continue };
            let Some(place) = layout.iter().find(|one| one.0 == field) else { continue };
            let theirs = if field == "-" { bytes } else { offset };
            assert_eq!(place.1.to_string(), theirs, "{release}: {line}");
            *compared.entry((structure.to_owned(), field.to_owned())).or_insert(0) += 1;
        }
    }
    let fields: usize = ours.values().map(Vec::len).sum();
    assert_eq!(compared.len(), fields, "{compared:?}");
}

/// By `ptype /o` of 2.32.3's library: v5's size is v6's too.
#[test]
fn descriptions_are_as_long_as_nccls() {
    let ours = [
        (size_of::<DescriptionV2>(), 128),
        (size_of::<DescriptionV3>(), 120),
        (size_of::<DescriptionV4>(), 104),
        (size_of::<DescriptionV5>(), 112),
        (size_of::<DescriptionV7>(), 136),
    ];
    for (ours, theirs) in ours {
        assert_eq!(ours, theirs);
    }
}
