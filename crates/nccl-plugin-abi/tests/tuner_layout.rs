//! The tables of tuners, held against those of NCCL's libraries; v7, which no library here has, against the sizes of its
//! header. Not what the functions do.

use std::{collections::BTreeMap, mem::offset_of};

use nccl_plugin_abi::tuner::{Constants, NvlDomains, TunerV2, TunerV3, TunerV4, TunerV5, TunerV6};

macro_rules! layout {
    ($ours:ident, $name:literal, $type:ty, $($field:literal $place:ident),+) => {
        $ours.insert($name, vec![("-", 0, size_of::<$type>()), $(($field, offset_of!($type, $place), 0)),+]);
    };
}

macro_rules! tuner {
    ($ours:ident, $name:literal, $type:ty, $end:literal $(, $field:literal $place:ident)*) => {
        layout!($ours, $name, $type, "name" name, "init" init, "getCollInfo" ask, $end end $(, $field $place)*);
    };
}

macro_rules! constants {
    ($ours:ident, $name:literal, $type:ty) => {
        layout!($ours, $name, $type, "baseLatencies" base_latencies, "hwLatencies" link_latencies, "llMaxBws" most_ll, "perChMaxRingLL128Bws" most_ring_ll128, "perChMaxTreeLL128Bws" most_tree_ll128, "perChMaxTreeBws" most_tree, "perChMaxNVLSTreeBws" most_nvls_tree);
    };
}

/// By C's name of a structure: the whole with its size, and the fields with their offsets.
type Layouts = BTreeMap<&'static str, Vec<(&'static str, usize, usize)>>;

fn ours() -> Layouts {
    let mut ours = Layouts::new();
    tuner!(ours, "ncclTuner_v2_t", TunerV2, "destroy");
    tuner!(ours, "ncclTuner_v3_t", TunerV3, "destroy");
    tuner!(ours, "ncclTuner_v4_t", TunerV4, "destroy");
    tuner!(ours, "ncclTuner_v5_t", TunerV5, "finalize");
    tuner!(ours, "ncclTuner_v6_t", TunerV6<4>, "finalize", "getChunkSize" chunk_size);
    constants!(ours, "ncclTunerConstants_v5_t", Constants<4>);
    constants!(ours, "ncclTunerConstants_v6_t", Constants<4>);
    ours
}

/// `structures.tsv` of each release is read from its library's DWARF.
#[test]
fn as_in_releases() {
    let (ours, mut compared) = (ours(), BTreeMap::new());
    for release in ["2.21.5", "2.22.3", "2.24.3", "2.28.9", "2.30.7", "2.31.2", "2.32.3"] {
        let path = format!(
            "{}/../nccl-releases/data/{release}/structures.tsv",
            env!("CARGO_MANIFEST_DIR")
        );
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let [structure, offset, bytes, field] = line.split('\t').collect::<Vec<_>>()[..] else {
                continue;
            };
            let Some(layout) = ours.get(structure) else { continue };
            let place = layout.iter().find(|one| one.0 == field).expect(line);
            assert_eq!(place.1.to_string(), offset, "{release}: {line}");
            if field == "-" {
                assert_eq!(place.2.to_string(), bytes, "{release}: {line}");
            }
            *compared.entry((structure.to_owned(), field.to_owned())).or_insert(0) += 1;
        }
    }
    let fields: usize = ours.values().map(Vec::len).sum();
    assert_eq!(compared.len(), fields, "{compared:?}");
}

/// tuner_v7.h of 2.32.6: the constants have a fifth compute capability, the table is that of v6.
#[test]
fn as_in_the_header_of_v7() {
    assert_eq!(size_of::<NvlDomains>(), 12);
    assert_eq!((size_of::<TunerV6<5>>(), size_of::<Constants<5>>()), (40, 1272));
    assert_eq!(offset_of!(Constants<5>, most_ll), 672);
    assert_eq!(offset_of!(Constants<5>, most_nvls_tree), 672 + 4 * 120);
    assert_eq!(offset_of!(TunerV6<5>, chunk_size), 32);
}
