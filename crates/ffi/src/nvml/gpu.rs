//! One GPU's state, read without changing it: clocks, power, throttling, errors, links.
//! Not a judgement of it.

use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    error::NvmlError,
    structs::device::FieldId,
    sys_exports::field_id::{
        NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_REMAPPED_COR,
        NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_UNC,
    },
};

use super::{ALL_LINKS, Fabric, NvLinkPeers, Reading, fabric, field_values, peers};

/// Reasons for lowered clocks: nvml.h, nvmlClocksThrottleReasons.
pub mod throttle {
    /// The GPU is idle.
    pub const IDLE: u64 = 0x1;
    /// The application clocks are set lower.
    pub const APPLICATION_CLOCKS: u64 = 0x2;
    /// The power limit.
    pub const POWER_CAP: u64 = 0x4;
    /// The hardware halves the clocks or worse: heat, or the power supply.
    pub const HARDWARE: u64 = 0x8;
    /// Other GPUs of the same boost group.
    pub const SYNC_BOOST: u64 = 0x10;
    /// Thermal slowdown, by the driver.
    pub const HEAT: u64 = 0x20;
    /// Thermal slowdown, by the hardware.
    pub const HARDWARE_HEAT: u64 = 0x40;
    /// The power supply's brake signal.
    pub const POWER_BRAKE: u64 = 0x80;
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gpu {
    /// NVML's number.
    pub index: u32,
    /// Product name.
    pub name: String,
    /// PCI address as sysfs writes it, such as 0000:3b:00.0.
    pub address: String,
    /// Compute capability × 10, such as 90.
    pub sm: Reading<u32>,
    /// Firmware on the board.
    pub vbios: Reading<String>,
    /// SM clock: current and maximum, MHz.
    pub sm_mhz: Reading<u32>,
    /// See `sm_mhz`.
    pub sm_max_mhz: Reading<u32>,
    /// Memory clock: current and maximum, MHz.
    pub memory_mhz: Reading<u32>,
    /// See `memory_mhz`.
    pub memory_max_mhz: Reading<u32>,
    /// Power drawn, limit in force, limit as delivered, mW.
    pub power_mw: Reading<u32>,
    /// See `power_mw`.
    pub power_limit_mw: Reading<u32>,
    /// See `power_mw`.
    pub power_default_mw: Reading<u32>,
    /// Degrees Celsius.
    pub temperature: Reading<u32>,
    /// Bits of [`throttle`].
    pub throttle: Reading<u64>,
    /// Whether ECC is on.
    pub ecc: Reading<bool>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Reading<u64>,
    /// Corrected memory errors since the driver was loaded.
    pub ecc_corrected: Reading<u64>,
    /// Memory rows that were replaced.
    pub remapped: Reading<RemappedRows>,
    /// The driver's recommended action: 0 none, 1 reset, 2 reboot, 3 drain peer traffic, 4 drain
    /// and reset (nvml.h, nvmlDeviceGpuRecoveryAction_t).
    pub recovery: Reading<u64>,
    /// PCIe generation and lanes, current and maximum, of the GPU and its slot.
    pub pcie: Reading<(u32, u32)>,
    /// See `pcie`.
    pub pcie_max: Reading<(u32, u32)>,
    /// Replayed PCIe packets.
    pub pcie_replays: Reading<u32>,
    /// Whether the GPU is partitioned into instances (MIG).
    pub mig: Reading<bool>,
    /// Persistence mode: whether the driver stays loaded without a user.
    pub persistent: Reading<bool>,
    /// Its NVLinks.
    pub nvlinks: Reading<NvLinks>,
    /// The devices at their other ends.
    pub nvlink_peers: Reading<NvLinkPeers>,
    /// Registration with the NVLink fabric.
    pub fabric: Reading<Fabric>,
    /// Processes that compute on it now.
    pub processes: Reading<Vec<u32>>,
    /// Bytes of memory in use, and in total.
    pub memory: Reading<(u64, u64)>,
}

/// NVLinks of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NvLinks {
    /// Links that the GPU has.
    pub all: u32,
    /// Links that are up.
    pub up: u32,
    /// Replayed packets and link recoveries, over all links; `None` where they are unknown.
    pub errors: Option<u64>,
}

/// Memory rows that were replaced by spare ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemappedRows {
    /// After errors that were corrected.
    pub correctable: u64,
    /// After errors that were not.
    pub uncorrectable: u64,
    /// Whether a row remap waits for a reset.
    pub pending: bool,
    /// Whether no spare row was left.
    pub failed: bool,
}

/// Reads GPU `index`; fields that cannot be read hold the reason.
pub(super) fn read(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    Ok(Gpu {
        index,
        name: device.name()?,
        address: sysfs_address(&device.pci_info()?.bus_id),
        sm: Reading::from(device.cuda_compute_capability())
            .map(|sm| u32::try_from(sm.major * 10 + sm.minor).unwrap_or(0)),
        vbios: device.vbios_version().into(),
        sm_mhz: device.clock_info(Clock::SM).into(),
        sm_max_mhz: device.max_clock_info(Clock::SM).into(),
        memory_mhz: device.clock_info(Clock::Memory).into(),
        memory_max_mhz: device.max_clock_info(Clock::Memory).into(),
        power_mw: device.power_usage().into(),
        power_limit_mw: device.enforced_power_limit().into(),
        power_default_mw: device.power_management_limit_default().into(),
        temperature: device.temperature(TemperatureSensor::Gpu).into(),
        throttle: Reading::from(device.current_throttle_reasons()).map(|r| r.bits()),
        ecc: Reading::from(device.is_ecc_enabled()).map(|mode| mode.currently_enabled),
        ecc_uncorrected: device
            .total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
            .into(),
        ecc_corrected: device.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile).into(),
        remapped: remapped(&device).into(),
        recovery: fields(&device, &[NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]).map(|v| v[0]).into(),
        pcie: pair(device.current_pcie_link_gen(), device.current_pcie_link_width()).into(),
        pcie_max: pair(device.max_pcie_link_gen(), device.max_pcie_link_width()).into(),
        pcie_replays: device.pcie_replay_counter().into(),
        mig: Reading::from(device.mig_mode()).map(|mode| mode.current == 1),
        persistent: device.is_in_persistent_mode().into(),
        nvlinks: nvlinks(nvml, &device),
        nvlink_peers: peers::read(nvml, &device),
        fabric: fabric::read(nvml, &device),
        processes: Reading::from(device.running_compute_processes())
            .map(|all| all.iter().map(|process| process.pid).collect()),
        memory: Reading::from(device.memory_info()).map(|memory| (memory.used, memory.total)),
    })
}

/// NVML writes eight digits of the domain, and capitals: 00000000:3B:00.0.
pub(super) fn sysfs_address(bus_id: &str) -> String {
    let lower = bus_id.to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 => format!("{}:{rest}", &domain[4..]),
        _ => lower,
    }
}

fn pair<T>(a: Result<T, NvmlError>, b: Result<T, NvmlError>) -> Result<(T, T), NvmlError> {
    Ok((a?, b?))
}

/// Values of fields, in order, or the first reason why one is missing.
fn fields(device: &Device, ids: &[u32]) -> Result<Vec<u64>, NvmlError> {
    use nvml_wrapper::enums::device::SampleValue::{F64, I64, U32, U64};
    let ids: Vec<FieldId> = ids.iter().map(|id| FieldId(*id)).collect();
    let samples = device.field_values_for(&ids)?;
    if samples.len() != ids.len() {
        return Err(NvmlError::NotFound);
    }
    let number = |sample: Result<nvml_wrapper::struct_wrappers::device::FieldValueSample, _>| {
        Ok(match sample?.value? {
            U32(value) => u64::from(value),
            U64(value) => value,
            I64(value) => u64::try_from(value).unwrap_or(0),
            F64(value) => value as u64,
        })
    };
    samples.into_iter().map(number).collect()
}

fn remapped(device: &Device) -> Result<RemappedRows, NvmlError> {
    let values = fields(
        device,
        &[
            NVML_FI_DEV_REMAPPED_COR,
            NVML_FI_DEV_REMAPPED_UNC,
            NVML_FI_DEV_REMAPPED_PENDING,
            NVML_FI_DEV_REMAPPED_FAILURE,
        ],
    )?;
    Ok(RemappedRows {
        correctable: values[0],
        uncorrectable: values[1],
        pending: values[2] != 0,
        failed: values[3] != 0,
    })
}

/// The most NVLinks of any GPU (nvml.h, NVML_NVLINK_MAX_LINKS, grew from 6 to 18); NVML answers
/// with an error for links that a GPU does not have.
pub(super) const MAX_LINKS: u32 = 36;

/// Replays and recoveries of all links, by field: reading a counter of one link takes as long as
/// reading it for all (0.8 ms on an H200).
fn link_errors(nvml: &Nvml, device: &Device) -> Option<u64> {
    // nvml.h: NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY and _RECOVERY of Hopper; before it
    // NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL and _RECOVERY_ERROR_COUNT_TOTAL.
    let fields = [(161, ALL_LINKS), (162, ALL_LINKS), (52, 0), (59, 0)];
    let values = field_values(nvml, device, &fields).ok()?;
    let [replays, recoveries, old_replays, old_recoveries] = values.try_into().ok()?;
    let pair = |one: Option<u64>, other: Option<u64>| {
        one.into_iter().chain(other).reduce(u64::saturating_add)
    };
    pair(replays, recoveries).or_else(|| pair(old_replays, old_recoveries))
}

fn nvlinks(nvml: &Nvml, device: &Device) -> Reading<NvLinks> {
    let mut links = NvLinks::default();
    for link in (0..MAX_LINKS).map(|link| device.link_wrapper_for(link)) {
        match link.is_active() {
            Ok(up) => {
                links.all += 1;
                links.up += u32::from(up);
            }
            // A GPU without NVLink reports that for its first link.
            Err(NvmlError::NotSupported | NvmlError::InvalidArg) => break,
            Err(why) => return Reading::Unknown(why.to_string()),
        }
    }
    links.errors = link_errors(nvml, device);
    if links.all == 0 { Reading::Unsupported } else { Reading::Value(links) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_sysfs_writes_them() {
        assert_eq!(sysfs_address("00000000:3B:00.0"), "0000:3b:00.0");
        assert_eq!(sysfs_address("00000008:01:00.0"), "0008:01:00.0");
        assert_eq!(sysfs_address("0000:3b:00.0"), "0000:3b:00.0");
    }

    #[test]
    fn reasons_are_the_wrappers() {
        use nvml_wrapper::bitmasks::device::ThrottleReasons as Reasons;
        assert_eq!(throttle::IDLE, Reasons::GPU_IDLE.bits());
        assert_eq!(throttle::POWER_CAP, Reasons::SW_POWER_CAP.bits());
        assert_eq!(throttle::HARDWARE, Reasons::HW_SLOWDOWN.bits());
        assert_eq!(throttle::HEAT, Reasons::SW_THERMAL_SLOWDOWN.bits());
        assert_eq!(throttle::HARDWARE_HEAT, Reasons::HW_THERMAL_SLOWDOWN.bits());
        assert_eq!(throttle::POWER_BRAKE, Reasons::HW_POWER_BRAKE_SLOWDOWN.bits());
    }
}
