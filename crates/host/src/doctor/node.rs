//! The input of all checks: a root of files, an environment, and NVML's answers.
//! Not the checks.

use busbw_ffi::{
    nvml::{Driver, Gpu},
    search::{self, Candidate, Environment, Kind, Standing},
};

use crate::machine::{self, Bridging, Devlink, PciDevice, RdmaDevice, Root};
use busbw_core::nccl_version::Version;

/// One node at one moment. Tests use recorded ones.
pub struct Node {
    /// The root of the files that are read.
    pub root: Root,
    /// Environment variables.
    pub environment: Environment,
    /// NVML's answers, or why there are none.
    pub driver: Result<Driver, String>,
    /// Network devices, GPUs and the ports above them.
    pub pci: Vec<PciDevice>,
    /// RDMA devices.
    pub rdma: Vec<RdmaDevice>,
    /// Every NCCL library that was found.
    pub nccl: Vec<Candidate>,
    /// Interfaces of RDMA devices whose drivers say what they do by priority; of this machine alone, since no file has it.
    pub bridging: Vec<(String, Bridging)>,
    /// NVIDIA's adapters by their PCI addresses, whose driver says more of them; of this machine alone, too.
    pub devlink: Vec<(String, Devlink)>,
}

impl Node {
    /// Reads what several topics need.
    pub fn read(root: Root, environment: Environment, driver: Result<Driver, String>) -> Node {
        let (mut pci, rdma) = (machine::pci(&root), machine::rdma(&root));
        // A container may hide the bus: then only the driver knows them.
        for gpu in driver.iter().flat_map(|driver| driver.gpus.iter().flatten()) {
            if !pci.iter().any(|device| device.address == gpu.address) {
                pci.push(PciDevice { address: gpu.address.clone(), ..PciDevice::default() });
            }
        }
        let nccl = search::candidates(Kind::Nccl, &environment, root.folder());
        let (bridging, devlink) = match root == Root::system() {
            true => (bridging(&rdma), devlink(&pci)),
            false => (Vec::new(), Vec::new()),
        };
        Node { root, environment, driver, pci, rdma, nccl, bridging, devlink }
    }

    /// What an interface's driver does by priority, where it says so.
    pub fn bridging(&self, interface: &str) -> Option<&Bridging> {
        self.bridging.iter().find(|(name, _)| name == interface).map(|(_, bridging)| bridging)
    }

    /// GPUs that the driver shows and that answer.
    pub fn gpus(&self) -> impl Iterator<Item = &Gpu> {
        self.driver.iter().flat_map(|driver| driver.gpus.iter().flatten())
    }

    /// Number of GPUs, from the driver, else from the PCI bus.
    pub fn gpu_count(&self) -> usize {
        match &self.driver {
            Ok(driver) => driver.gpus.len(),
            Err(_) => self.pci.iter().filter(|d| machine::is_gpu(d)).count(),
        }
    }

    /// A PCI device.
    pub fn pci(&self, address: &str) -> Option<&PciDevice> {
        self.pci.iter().find(|device| device.address == address)
    }

    /// RDMA devices with a PCI address: not the software ones.
    pub fn adapters(&self) -> impl Iterator<Item = (&RdmaDevice, &PciDevice)> {
        self.rdma.iter().filter_map(|rdma| Some((rdma, self.pci(rdma.address.as_deref()?)?)))
    }

    /// GPUs and network adapters on the bus, with the names that people know them by.
    pub fn endpoints(&self) -> Vec<(String, &PciDevice)> {
        let gpus = self.gpus().map(|gpu| (format!("GPU {}", gpu.index), gpu.address.as_str()));
        let mut named: Vec<(String, &PciDevice)> =
            gpus.filter_map(|(name, address)| Some((name, self.pci(address)?))).collect();
        // Those that no driver shows are still on the bus.
        for device in self.pci.iter().filter(|device| machine::is_gpu(device)) {
            if !named.iter().any(|(_, known)| known.address == device.address) {
                named.push((format!("GPU at {}", device.address), device));
            }
        }
        named.extend(self.adapters().map(|(rdma, device)| (rdma.name.clone(), device)));
        named
    }

    /// Whether /sys shows every GPU that the driver knows.
    pub fn sees_the_bus(&self) -> bool {
        self.pci.iter().all(|device| device.class != 0)
    }

    /// A variable's text.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// The NCCL that programs load.
    pub fn used_nccl(&self) -> Option<&Candidate> {
        self.nccl.iter().find(|candidate| candidate.standing == Standing::Used)
    }

    /// Release of the NCCL that is used.
    pub fn nccl_version(&self) -> Option<Version> {
        self.used_nccl()?.version.as_deref()?.parse().ok()
    }
}

fn bridging(rdma: &[RdmaDevice]) -> Vec<(String, Bridging)> {
    let ports = rdma.iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    let ethernet = ports.filter(|(_, port)| port.ethernet);
    let names = ethernet.filter_map(|(device, port)| device.interfaces_of(port).first().copied());
    let asked = names.filter_map(|name| Some((name.to_owned(), machine::bridging(name)?)));
    asked.collect()
}

fn devlink(pci: &[PciDevice]) -> Vec<(String, Devlink)> {
    let adapters = pci.iter().filter(|device| device.is_nvidia_adapter());
    let asked =
        adapters.filter_map(|one| Some((one.address.clone(), machine::devlink(&one.address)?)));
    asked.collect()
}
