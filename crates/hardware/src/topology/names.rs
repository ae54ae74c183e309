//! Chips by their PCI numbers: the GPUs and network adapters of usual machines.
//! Not the whole PCI ID list: a chip that is not here keeps its numbers.

use super::Device;

/// Vendor, device, name. From the PCI ID Repository (pci-ids.ucw.cz) and the vendors' data sheets.
const CHIPS: [(u16, u16, &str); 32] = [
    (0x10de, 0x1db1, "V100 SXM2"),
    (0x10de, 0x20b0, "A100 SXM 40GB"),
    (0x10de, 0x20b2, "A100 SXM 80GB"),
    (0x10de, 0x20b5, "A100 PCIe 80GB"),
    (0x10de, 0x2204, "RTX 3090"),
    (0x10de, 0x2230, "RTX A6000"),
    (0x10de, 0x2237, "A10G"),
    (0x10de, 0x2324, "H800 SXM"),
    (0x10de, 0x2330, "H100 SXM"),
    (0x10de, 0x2335, "H200 SXM"),
    (0x10de, 0x2684, "RTX 4090"),
    (0x10de, 0x26b9, "L40S"),
    (0x10de, 0x26ba, "L20"),
    (0x10de, 0x27b2, "RTX 4000 Ada"),
    (0x10de, 0x2901, "B200"),
    (0x10de, 0x2941, "GB200"),
    (0x1002, 0x74a1, "MI300X"),
    (0x1002, 0x74b5, "MI300X"),
    (0x1002, 0x75a0, "MI350X"),
    (0x15b3, 0x1015, "ConnectX-4 Lx"),
    (0x15b3, 0x1017, "ConnectX-5"),
    (0x15b3, 0x1019, "ConnectX-5 Ex"),
    (0x15b3, 0x101b, "ConnectX-6"),
    (0x15b3, 0x101d, "ConnectX-6 Dx"),
    (0x15b3, 0x1021, "ConnectX-7"),
    (0x15b3, 0x1023, "ConnectX-8"),
    (0x15b3, 0xa2d6, "BlueField-2"),
    (0x15b3, 0xa2dc, "BlueField-3"),
    (0x1d0f, 0xefa0, "EFA"),
    (0x1d0f, 0xefa1, "EFA"),
    (0x1d0f, 0xefa2, "EFA"),
    (0x14e4, 0x1760, "Broadcom Thor 2"),
];

/// What a device's chip is called, where it is a known one.
pub fn chip(device: &Device) -> Option<&'static str> {
    let (vendor, number) = (device.vendor?, device.device?);
    CHIPS.iter().find(|chip| (chip.0, chip.1) == (vendor, number)).map(|chip| chip.2)
}

/// A GPU's model: what its driver calls it, or the name of its chip, or its architecture.
pub fn gpu_model(device: &Device) -> Option<String> {
    let gpu = device.gpu.as_ref();
    let said = gpu.and_then(|gpu| gpu.name.clone());
    let by_chip = || chip(device).map(str::to_owned);
    let by_architecture = || {
        let gpu = gpu?;
        gpu.gcn.clone().or_else(|| gpu.sm.map(|sm| format!("sm {sm}")))
    };
    said.or_else(by_chip).or_else(by_architecture)
}
