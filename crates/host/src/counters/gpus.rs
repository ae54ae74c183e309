//! NVIDIA's GPUs through NVML: bytes and errors of NVLink, throttling, ECC, XID.
//! Not their clocks and health before a run.

use std::sync::Arc;

use busbw_core::record::{DeviceKind, Unread};
use busbw_ffi::nvml::{
    self, ALL_LINKS, Xids,
    wrapper::{Device, Nvml, bitmasks::device::ThrottleReasons},
};

use super::{Count, Reading, Source};

/// A field of NVML: its identifier and its scope.
type Field = (u32, u32);

/// A counter: its name in the record, the amount of one step, and the fields that may have it
/// (nvml.h, NVML_FI_DEV_*). Hopper counts NVLink's errors in other fields than the GPUs before it.
/// Bytes are counted in KiB.
const COUNTERS: [(&str, u64, &[Field]); 9] = [
    ("nvlink_tx_bytes", 1024, &[(138, ALL_LINKS)]),
    ("nvlink_rx_bytes", 1024, &[(139, ALL_LINKS)]),
    ("nvlink_replays", 1, &[(161, ALL_LINKS), (52, 0)]),
    ("nvlink_recoveries", 1, &[(162, ALL_LINKS), (59, 0)]),
    ("nvlink_crc_errors", 1, &[(163, ALL_LINKS), (38, 0)]),
    ("ecc_corrected", 1, &[(3, 0)]),
    ("ecc_uncorrected", 1, &[(4, 0)]),
    ("throttled_power_ns", 1, &[(74, 0)]),
    ("throttled_thermal_ns", 1, &[(75, 0)]),
];

/// Reasons for lowered clocks that are no incident: an idle GPU, and clocks that somebody set.
const HARMLESS: ThrottleReasons = ThrottleReasons::GPU_IDLE
    .union(ThrottleReasons::APPLICATIONS_CLOCKS_SETTING)
    .union(ThrottleReasons::DISPLAY_CLOCK_SETTING);

struct Gpu {
    nvml: &'static Nvml,
    device: Device<'static>,
    address: String,
    /// Names and step sizes of the fields that this GPU has.
    names: Vec<(&'static str, u64)>,
    fields: Vec<Field>,
    xids: Option<Xids>,
}

/// Adds the GPUs at these PCI addresses, each once.
pub(super) fn find(
    addresses: &[String],
    sources: &mut Vec<Arc<dyn Source>>,
    unread: &mut Vec<Unread>,
) {
    let nvml: &'static Nvml = match nvml::open() {
        // NVML stays open: its handles live as long as the process.
        Ok(nvml) => Box::leak(Box::new(nvml)),
        Err(error) => {
            let reason = format!("NVML cannot be opened: {error}");
            miss(unread, None, None, reason);
            return;
        }
    };
    let mut addresses = addresses.to_vec();
    addresses.sort();
    addresses.dedup();
    for address in addresses {
        // PCI addresses in the record have no function number.
        let full = if address.contains('.') { address.clone() } else { format!("{address}.0") };
        let gpu = nvml.device_by_pci_bus_id(full).map_err(|error| error.to_string());
        let gpu = gpu.and_then(|device| Gpu::open(nvml, device, &address, unread));
        match gpu {
            Ok(gpu) => sources.push(Arc::new(gpu)),
            Err(reason) => miss(unread, None, Some(&address), reason),
        }
    }
}

/// Notes counters that cannot be read, once for all GPUs that lack the same.
fn miss(unread: &mut Vec<Unread>, counter: Option<&str>, device: Option<&str>, reason: String) {
    let counter = counter.map(str::to_owned);
    let devices = device.into_iter().map(str::to_owned);
    let gpus = unread.iter_mut().filter(|other| other.kind == DeviceKind::Gpu);
    let mut same = gpus.filter(|other| other.counter == counter && other.reason == reason);
    if let Some(same) = same.next() {
        same.devices.extend(devices);
        return;
    }
    unread.push(Unread { kind: DeviceKind::Gpu, counter, devices: devices.collect(), reason });
}

impl Gpu {
    /// Finds the counters that a GPU has.
    fn open(
        nvml: &'static Nvml,
        device: Device<'static>,
        address: &str,
        unread: &mut Vec<Unread>,
    ) -> Result<Gpu, String> {
        let all: Vec<Field> = COUNTERS.iter().flat_map(|(.., fields)| *fields).copied().collect();
        let values = nvml::field_values(nvml, &device, &all).map_err(|error| error.to_string())?;
        let has = |field: &Field| {
            all.iter().zip(&values).any(|(asked, value)| asked == field && value.is_some())
        };
        let (mut names, mut fields) = (Vec::new(), Vec::new());
        for (name, step, choices) in COUNTERS {
            if let Some(field) = choices.iter().find(|field| has(field)) {
                names.push((name, step));
                fields.push(*field);
            } else {
                let reason = "the GPU or its driver has no such counter".to_owned();
                miss(unread, Some(name), Some(address), reason);
            }
        }
        let xids = Xids::watch(nvml, &device);
        if let Err(error) = &xids {
            miss(unread, Some("xids"), Some(address), format!("NVML reports no events: {error}"));
        }
        if let Err(error) = device.current_throttle_reasons() {
            miss(unread, Some("throttled"), Some(address), error.to_string());
        }
        let address = address.to_owned();
        Ok(Gpu { nvml, device, address, names, fields, xids: xids.ok() })
    }
}

impl Source for Gpu {
    fn read(&self) -> Vec<Reading> {
        let xids = self.xids.as_ref().map_or_else(Vec::new, Xids::take);
        let values = match self.fields.as_slice() {
            [] => Ok(Vec::new()),
            fields => nvml::field_values(self.nvml, &self.device, fields),
        };
        // A GPU that fell off the bus has no counters any more, but its XID may name the cause.
        let values = values.unwrap_or_default();
        let counts = self.names.iter().zip(values).filter_map(|((name, step), value)| {
            Some(Count { name, value: value?, step: *step, narrow: false })
        });
        let reasons = self.device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
        vec![Reading {
            device: self.address.clone(),
            kind: DeviceKind::Gpu,
            counts: counts.collect(),
            throttled: words(reasons),
            xids,
        }]
    }
}

/// The reasons for lowered clocks, in words.
fn words(reasons: ThrottleReasons) -> Vec<&'static str> {
    let known = [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "thermal slowdown by the driver"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "thermal slowdown by the hardware"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    ];
    let reasons = reasons.difference(HARMLESS);
    known.iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, word)| *word).collect()
}

#[cfg(test)]
mod tests {
    use busbw_core::record::Meaning;

    use super::*;

    #[test]
    fn every_counter_means_something() {
        for (name, ..) in COUNTERS {
            assert!(Meaning::of(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_idle_gpu_is_not_throttled() {
        assert!(words(HARMLESS).is_empty());
        let both = ThrottleReasons::GPU_IDLE | ThrottleReasons::SW_POWER_CAP;
        assert_eq!(words(both), ["power cap"]);
    }

    #[test]
    fn gpus_that_miss_the_same_are_told_together() {
        let mut unread = Vec::new();
        for gpu in ["a", "b"] {
            miss(&mut unread, Some("xids"), Some(gpu), "why".to_owned());
        }
        miss(&mut unread, Some("xids"), Some("c"), "another".to_owned());
        let devices: Vec<_> = unread.iter().map(|one| one.devices.join(" ")).collect();
        assert_eq!(devices, ["a b", "c"]);
    }
}
