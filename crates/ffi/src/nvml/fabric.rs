//! A GPU's registration with the NVLink fabric: state, cluster, clique, health.
//! Not NVLink itself: a GPU without NVSwitch has links and no fabric.

use std::mem::{size_of, zeroed};

use nvml_wrapper::{Device, Nvml, error::nvml_try};
use nvml_wrapper_sys::bindings::{
    nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlGpuFabricInfoV_t,
};

use super::Reading;

/// The state of the registration: nvml.h, NVML_GPU_FABRIC_STATE_*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FabricState {
    /// This GPU has no fabric.
    #[default]
    NotSupported,
    /// Not started: no fabric manager runs.
    NotStarted,
    /// In progress.
    InProgress,
    /// Completed; `Fabric::failed` says whether successfully.
    Completed,
}

/// The registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fabric {
    /// Its state.
    pub state: FabricState,
    /// NVML's error code of a completed registration that failed.
    pub failed: Option<u32>,
    /// The cluster; all zeros within one machine.
    pub cluster: [u8; 16],
    /// The clique: GPUs of the cluster that reach each other.
    pub clique: u32,
    /// NVML_GPU_FABRIC_HEALTH_MASK_* bits.
    pub health: u32,
}

impl Fabric {
    /// Two bits of a field of the health mask; 1 is "true", 2 "false", 0 "not supported".
    const fn field(&self, shift: u32) -> u32 {
        self.health >> shift & 0x3
    }

    /// Whether the fabric reports degraded bandwidth.
    pub const fn bandwidth_degraded(&self) -> bool {
        self.field(0) == 1
    }

    /// Whether a route recovers, is unhealthy, or an access timeout recovers.
    pub const fn route_unhealthy(&self) -> bool {
        self.field(2) == 1 || self.field(4) == 1 || self.field(6) == 1
    }

    /// Whether the configuration is wrong: system or chassis number, no partition, too few links.
    pub const fn misconfigured(&self) -> bool {
        self.health >> 8 & 0xf > 1
    }
}

/// NVML_STRUCT_VERSION of nvml.h: the size and, above it, the version.
const fn version(size: usize, version: u32) -> u32 {
    size as u32 | version << 24
}

/// Reads the newest version of the structure that the driver supports: drivers of the 535 branch
/// have version 2 only.
pub(super) fn read(nvml: &Nvml, device: &Device) -> Reading<Fabric> {
    let Ok(ask) = nvml.lib().nvmlDeviceGetGpuFabricInfoV.as_ref() else {
        return Reading::Unknown("this driver's NVML has no such function".to_owned());
    };
    let mut answer = Reading::Unsupported;
    for form in [
        version(size_of::<nvmlGpuFabricInfo_v3_t>(), 3),
        version(size_of::<nvmlGpuFabricInfo_v2_t>(), 2),
    ] {
        // SAFETY: the structure holds integers and arrays of them, for which zeros are valid.
        let mut info: nvmlGpuFabricInfoV_t = unsafe { zeroed() };
        info.version = form;
        // SAFETY: the handle is valid while `device` borrows `nvml`; `info` is writable, large enough
        // for either form, and says which one it is.
        let status = unsafe { ask(device.handle(), &raw mut info) };
        match nvml_try(status) {
            Ok(()) => return Reading::Value(fabric(&info)),
            Err(why) => answer = Reading::from(Err(why)),
        }
    }
    answer
}

fn fabric(info: &nvmlGpuFabricInfoV_t) -> Fabric {
    let state = match info.state {
        1 => FabricState::NotStarted,
        2 => FabricState::InProgress,
        3 => FabricState::Completed,
        _ => FabricState::NotSupported,
    };
    let failed = (state == FabricState::Completed && info.status != 0).then_some(info.status);
    Fabric {
        state,
        failed,
        cluster: info.clusterUuid,
        clique: info.cliqueId,
        health: info.healthMask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_fields_stand_where_the_header_has_them() {
        use nvml_wrapper_sys::bindings as header;
        let bad = |shift: u32, value: u32| Fabric { health: value << shift, ..Fabric::default() };
        let degraded = header::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW;
        assert!(
            bad(degraded, header::NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE)
                .bandwidth_degraded()
        );
        assert!(
            !bad(degraded, header::NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE)
                .bandwidth_degraded()
        );
        let route = header::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY;
        assert!(
            bad(route, header::NVML_GPU_FABRIC_HEALTH_MASK_ROUTE_UNHEALTHY_TRUE).route_unhealthy()
        );
        let wrong = header::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION;
        let few = header::NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INSUFFICIENT_NVLINKS;
        assert!(bad(wrong, few).misconfigured());
        assert!(
            !bad(wrong, header::NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE)
                .misconfigured()
        );
    }
}
