//! The inputs of NCCL's graph search by release: speeds that it tries, GB/s of a link, channels.
//! Not the search (`inference`).

use super::communicator::Version;
use crate::limits::resource::nccl_link;

const INTRA: [f32; 13] = [40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0];
const INTER: [f32; 19] = [
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2,
    0.24, 0.12,
];
const INTRA_90_OF_18: [f32; 9] = [60.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0];
const INTRA_90_OF_19: [f32; 10] = [60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0];
const INTRA_90: [f32; 11] = [60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0];
const INTER_90_OF_18: [f32; 16] =
    [48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12];
const INTER_90: [f32; 17] = [
    48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24,
    0.12,
];
const INTRA_100_OF_25: [f32; 10] = [90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 19.0];
const INTRA_100_OF_27: [f32; 11] =
    [90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0];
const INTRA_100: [f32; 12] =
    [90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0];
/// The newest list; earlier ones lack 86 and 80.
const INTER_100: [f32; 20] = [
    96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0,
    2.4, 1.2, 0.24, 0.12,
];

/// Speeds of a channel within a node, falling (src/graph/search.cc, `…SpeedArrayIntra`).
pub(super) fn within(version: Version, sm: u32) -> Vec<f32> {
    match (sm, version.minor) {
        (100.., 29..) => INTRA_100.to_vec(),
        (100.., 27..) => INTRA_100_OF_27.to_vec(),
        (100.., 25..) => INTRA_100_OF_25.to_vec(),
        (90.., 18) => INTRA_90_OF_18.to_vec(),
        (90.., 19 | 20) => INTRA_90_OF_19.to_vec(),
        (90.., _) => INTRA_90.to_vec(),
        _ => INTRA.to_vec(),
    }
}

/// The same for graphs over several nodes (`…SpeedArrayInter`).
pub(super) fn between(version: Version, sm: u32) -> Vec<f32> {
    let known = |speed: &f32| match version.minor {
        27 | 28 => *speed != 86.0 && *speed != 80.0,
        29 => *speed != 86.0,
        _ => true,
    };
    match (sm, version.minor) {
        (100.., 27..) => INTER_100.into_iter().filter(known).collect(),
        (90.., 18) => INTER_90_OF_18.to_vec(),
        (90.., _) => INTER_90.to_vec(),
        _ => INTER.to_vec(),
    }
}

/// GB/s of one NVLink (src/graph/topo.h).
pub(super) fn link(version: Version, sm: u32) -> Option<f64> {
    match (sm, version.minor) {
        (100.., 25 | 26) => Some(40.0),
        (100.., ..25) => link(version, 90),
        (90..100, ..=19) => Some(20.0),
        _ => nccl_link(sm),
    }
}

/// Maximum of channels of a graph: half of MAXCHANNELS (src/include/device.h).
pub(super) fn max_channels(version: Version) -> u32 {
    if version.minor < 25 { 16 } else { 32 }
}

/// NVLS channels unless NCCL_NVLS_NCHANNELS says otherwise (src/transport/nvls.cc).
pub(super) fn nvls_channels(version: Version, sm: u32, several: bool) -> u32 {
    match (sm, version.minor) {
        (100.., 27..) if !several => 24,
        (100.., 25..) => 32,
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_fall_and_change_with_releases() {
        for minor in Version::KNOWN {
            let version = Version::last_of(minor);
            for sm in [70, 80, 90, 100] {
                for list in [within(version, sm), between(version, sm)] {
                    assert!(list.is_sorted_by(|a, b| a > b), "2.{minor} sm{sm}: {list:?}");
                }
                assert!(link(version, sm).is_some());
            }
        }
        let between = |minor| between(Version::last_of(minor), 100);
        assert_eq!(between(28)[..3], [96.0, 48.0, 45.1]);
        assert_eq!(between(29)[..3], [96.0, 80.0, 48.0]);
        assert_eq!(between(30)[..3], [96.0, 86.0, 80.0]);
        assert_eq!(between(26)[..3], [48.0, 45.0, 42.0]);
    }
}
