//! The devices that NCCL is offered: one for each port, or for four together, and those that NCCL makes of several.
//! Not the ports (`ports`), and not which devices NCCL merges: those as near to each other as NCCL_NET_MERGE_LEVEL says.

use std::{
    ffi::CString,
    path::Path,
    sync::{PoisonError, RwLock},
};

use busbw_verbs::Verbs;
use nccl_plugin_abi::{
    Status,
    net::{PTR_CUDA, PTR_DMA_BUF, PTR_HOST},
};

use super::{MAX_PORTS, ports::Port};
use crate::{
    devices::Device,
    log,
    network::{Failure, Result},
};

/// Ports of a device that BUSBW_NET_MERGE=1 makes.
const MERGED: usize = 4;
/// Devices of several others at most, as NCCL has it (MAX_IB_VDEVS of src/transport/net_ib/common.h).
const MAX_MERGED: usize = 256;
/// 0: NCCL's own IB transport merges nothing, nor do we.
const MERGE_NICS: &str = "NCCL_IB_MERGE_NICS";

/// The devices. They stay for the life of the process: NCCL keeps pointers to their names.
pub(super) struct Offered {
    kinds: i32,
    /// How many were there at first.
    own: usize,
    all: RwLock<All>,
}

/// Every device that there ever was, of which NCCL is told the first `counted`.
struct All {
    devices: Vec<One>,
    counted: usize,
    /// Communicators that have begun and not ended, in versions that tell (v11 on).
    communicators: usize,
}

/// A device, and its ports by their places in the list of ports.
#[derive(Clone)]
struct One {
    device: &'static Device,
    ports: Vec<usize>,
}

impl Offered {
    /// A device for each port, or for four together.
    pub(super) fn new(ports: &[Port], is_merged: bool) -> Offered {
        let kinds = PTR_HOST | device_memory();
        let each = if is_merged { MERGED } else { 1 };
        let places: Vec<usize> = (0..ports.len()).collect();
        let one = |members: &[usize]| One {
            device: leaked(ports, members, kinds, Vec::new()),
            ports: members.to_vec(),
        };
        let devices: Vec<One> = places.chunks(each).map(one).collect();
        let own = devices.len();
        let all = All { devices, counted: own, communicators: 0 };
        Offered { kinds, own, all: RwLock::new(all) }
    }

    /// How many NCCL is told of.
    pub(super) fn count(&self) -> usize {
        self.all.read().unwrap_or_else(PoisonError::into_inner).counted
    }

    fn one(&self, device: usize) -> Option<One> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.devices.get(device).cloned()
    }

    /// One of them, also one that is not counted any more: where NCCL keeps a plugin loaded it goes on with the numbers that it knows.
    pub(super) fn device(&self, device: usize) -> Option<&'static Device> {
        self.one(device).map(|one| one.device)
    }

    /// A communicator begins. NCCL forgets what it has merged when its last one ends, and takes all that it is told of then for the
    /// host's own (ncclNetPluginUnload and ncclNetPluginInit of src/plugin/net.cc, 2.28 to 2.30).
    pub(super) fn begin(&self) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.communicators == 0 {
            all.counted = self.own;
        }
        all.communicators += 1;
    }

    /// A communicator has ended.
    pub(super) fn end(&self) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.communicators = all.communicators.saturating_sub(1);
    }

    /// The ports of one of them.
    ///
    /// # Errors
    /// There is no such device.
    pub(super) fn ports_of(&self, device: usize) -> Result<Vec<usize>> {
        let none =
            || Failure::new(Status::INVALID_ARGUMENT, format!("there is no device {device}"));
        self.one(device).map(|one| one.ports).ok_or_else(none)
    }

    /// Makes one of several that were there at first: the one that was made of the same before, or a new one.
    ///
    /// # Errors
    /// They are none or too many, one of them twice or itself merged, or of Ethernet and InfiniBand.
    pub(super) fn merge(&self, ports: &[Port], parts: &[usize]) -> Result<usize> {
        let refused = |why: &str| {
            let text = format!("devices {parts:?} cannot be merged: {why}");
            Failure::new(Status::INVALID_USAGE, text)
        };
        if std::env::var(MERGE_NICS).is_ok_and(|value| value.trim() == "0") {
            return Err(refused("NCCL_IB_MERGE_NICS=0"));
        }
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if parts.is_empty() || parts.iter().any(|part| *part >= self.own) {
            return Err(refused("one of them is not one of the host's ports"));
        }
        let numbers: Vec<i32> = parts.iter().map(|part| *part as i32).collect();
        // What is not counted any more is taken again only where it is the next one: NCCL takes the last one for the new one.
        let mut known = all.devices.iter().take(all.counted + 1);
        if let Some(there) = known.position(|one| one.device.parts == numbers) {
            all.counted = all.counted.max(there + 1);
            return Ok(there);
        }
        let members: Vec<usize> =
            parts.iter().flat_map(|part| all.devices[*part].ports.iter().copied()).collect();
        let is_twice = (1..parts.len()).any(|at| parts[..at].contains(&parts[at]));
        if is_twice || members.len() > MAX_PORTS {
            return Err(refused("a device has eight ports at most, each once"));
        }
        let first = &ports[members[0]];
        if members.iter().any(|at| ports[*at].is_ethernet != first.is_ethernet) {
            return Err(refused("some are Ethernet and some InfiniBand (NCCL_IB_HCA chooses)"));
        }
        if members.iter().any(|at| ports[*at].path.is_none()) {
            // NCCL 2.28 to 2.30 find no way to what they make of devices without a PCI address.
            return Err(refused("one of them is on no PCI bus"));
        }
        if all.counted - self.own >= MAX_MERGED {
            return Err(refused("there are too many already"));
        }
        let device = leaked(ports, &members, self.kinds, numbers);
        let name = device.name.to_string_lossy();
        log::info(&format!(
            "NET/busbw: device {} of {parts:?}: {name}, {} Mb/s",
            all.counted, device.speed
        ));
        let counted = all.counted;
        all.devices.truncate(counted);
        all.devices.push(One { device, ports: members });
        all.counted += 1;
        Ok(counted)
    }
}

/// A device of these ports.
fn leaked(ports: &[Port], members: &[usize], kinds: i32, parts: Vec<i32>) -> &'static Device {
    let first = &ports[members[0]];
    let names: Vec<&str> = members.iter().map(|at| ports[*at].device.as_str()).collect();
    let gbps: f64 = members.iter().map(|at| ports[*at].gbps).sum();
    Box::leak(Box::new(Device {
        name: CString::new(names.join("+")).unwrap_or_default(),
        path: first.path.as_deref().and_then(|path| CString::new(path).ok()),
        guid: first.guid,
        speed: (gbps * 1000.0) as i32,
        port: first.number.into(),
        kinds,
        interfaces: Vec::new(),
        parts,
    }))
}

/// Kinds of memory of GPUs that a queue pair can reach here: with nvidia_peermem by its address; dma-bufs where libibverbs takes
/// them (rdma-core 34).
fn device_memory() -> i32 {
    let peer = ["nvidia_peermem", "nv_peer_mem", "nvidia-peermem"];
    let has_peer = peer.iter().any(|module| Path::new("/sys/module").join(module).exists());
    let has_gpu = Path::new("/dev/nvidiactl").exists();
    let has_dma_buf = has_gpu && Verbs::open().is_ok_and(Verbs::takes_dma_bufs);
    match (has_peer, has_dma_buf) {
        (true, true) => PTR_CUDA | PTR_DMA_BUF,
        (true, false) => PTR_CUDA,
        // NCCL asks for a GPU's memory by both bits.
        (false, true) => PTR_CUDA | PTR_DMA_BUF,
        (false, false) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, gbps: f64, is_ethernet: bool) -> Port {
        Port {
            device: device.to_owned(),
            number: 1,
            gbps,
            is_ethernet,
            gid_index: 0,
            path: Some(format!("/sys/devices/pci0000:15/{device}")),
            guid: 7,
        }
    }

    fn name(offered: &Offered, at: usize) -> String {
        offered.device(at).unwrap().name.to_string_lossy().into_owned()
    }

    #[test]
    fn one_for_each_port_or_for_four() {
        let ports: Vec<Port> = (0..6).map(|at| port(&format!("mlx5_{at}"), 100.0, true)).collect();
        let each = Offered::new(&ports, false);
        assert_eq!((each.count(), name(&each, 5)), (6, "mlx5_5".to_owned()));
        assert_eq!((each.device(1).unwrap().speed, each.ports_of(1).unwrap()), (100_000, vec![1]));
        let four = Offered::new(&ports, true);
        assert_eq!((four.count(), name(&four, 1)), (2, "mlx5_4+mlx5_5".to_owned()));
        assert_eq!(
            (four.device(0).unwrap().speed, four.ports_of(1).unwrap()),
            (400_000, vec![4, 5])
        );
        assert!(four.ports_of(2).is_err());
    }

    #[test]
    fn nccl_merges_what_goes_together() {
        let mut ports: Vec<Port> =
            (0..6).map(|at| port(&format!("mlx5_{at}"), 200.0, true)).collect();
        ports.push(port("mlx5_6", 400.0, false));
        ports.push(Port { path: None, ..port("rxe0", 400.0, true) });
        let offered = Offered::new(&ports, false);
        assert_eq!(offered.merge(&ports, &[2, 0]).unwrap(), 8);
        assert_eq!(offered.merge(&ports, &[1, 3]).unwrap(), 9);
        // A second communicator asks for the same.
        assert_eq!(offered.merge(&ports, &[2, 0]).unwrap(), 8);
        assert_eq!((offered.count(), name(&offered, 8)), (10, "mlx5_2+mlx5_0".to_owned()));
        let made = offered.device(8).unwrap();
        assert_eq!((made.speed, &made.parts[..]), (400_000, &[2, 0][..]));
        assert_eq!(offered.ports_of(9).unwrap(), [1, 3]);
        for (parts, why) in [
            (&[1, 1][..], "each once"),
            (&[0, 6], "some InfiniBand"),
            (&[0, 7], "on no PCI bus"),
            (&[0, 8], "not one of the host's ports"),
            (&[], "not one of the host's ports"),
        ] {
            let text = offered.merge(&ports, parts).unwrap_err().text;
            assert!(text.contains(why), "{parts:?}: {text}");
        }
    }

    #[test]
    fn eight_ports_are_merged_and_no_more() {
        let ports: Vec<Port> = (0..9).map(|at| port(&format!("mlx5_{at}"), 200.0, true)).collect();
        let offered = Offered::new(&ports, false);
        let all: Vec<usize> = (0..9).collect();
        assert_eq!(offered.merge(&ports, &all[..8]).unwrap(), 9);
        let text = offered.merge(&ports, &all).unwrap_err().text;
        assert!(text.contains("eight ports at most"), "{text}");
    }

    #[test]
    fn what_was_merged_ends_with_the_last_communicator() {
        let ports: Vec<Port> = (0..4).map(|at| port(&format!("mlx5_{at}"), 200.0, true)).collect();
        let offered = Offered::new(&ports, false);
        offered.begin();
        offered.begin();
        assert_eq!((offered.merge(&ports, &[0, 1]).unwrap(), offered.count()), (4, 5));
        offered.end();
        offered.begin();
        assert_eq!(offered.count(), 5);
        offered.end();
        offered.end();
        offered.begin();
        // NCCL counts anew, unless it has kept the plugin, and then it knows the number.
        assert_eq!((offered.count(), name(&offered, 4)), (4, "mlx5_0+mlx5_1".to_owned()));
        assert_eq!((offered.merge(&ports, &[0, 1]).unwrap(), offered.count()), (4, 5));
        offered.end();
        offered.begin();
        assert_eq!((offered.merge(&ports, &[2, 3]).unwrap(), offered.count()), (4, 5));
        assert_eq!(name(&offered, 4), "mlx5_2+mlx5_3");
    }
}
