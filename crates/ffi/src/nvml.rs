//! NVIDIA's management library: opened where the driver installed it, an error where it is absent.
//! Not the meaning of its values.

mod fabric;
mod fields;
mod gpu;
mod peers;
mod users;
mod xids;

use busbw_core::environment;
pub use fabric::{Fabric, FabricState};
pub use fields::{ALL_LINKS, field_values};
pub use gpu::{Gpu, NvLinks, RemappedRows, throttle};
pub use nvml_wrapper as wrapper;
use nvml_wrapper::{Nvml, error::NvmlError};
pub use peers::{NvLinkPeer, NvLinkPeerKind, NvLinkPeers};
pub use users::{User, users};
pub use xids::Xids;

/// Opens NVML; the environment variable `BUSBW_NVML` names another file than `libnvidia-ml.so.1`.
///
/// # Errors
/// There is no such library, or no driver behind it.
pub fn open() -> Result<Nvml, NvmlError> {
    let path = std::env::var_os(environment::NVML);
    Nvml::builder().lib_path(path.as_deref().unwrap_or("libnvidia-ml.so.1".as_ref())).init()
}

/// One value of NVML.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Reading<T> {
    /// The value.
    Value(T),
    /// This device has no such feature.
    Unsupported,
    /// Unknown, and why.
    Unknown(String),
    /// It was not read.
    #[default]
    Unasked,
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            _ => None,
        }
    }

    fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Value(value) => Reading::Value(f(value)),
            Reading::Unsupported => Reading::Unsupported,
            Reading::Unknown(why) => Reading::Unknown(why),
            Reading::Unasked => Reading::Unasked,
        }
    }
}

impl<T> From<Result<T, NvmlError>> for Reading<T> {
    fn from(answer: Result<T, NvmlError>) -> Reading<T> {
        match answer {
            Ok(value) => Reading::Value(value),
            Err(NvmlError::NotSupported) => Reading::Unsupported,
            Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => {
                Reading::Unknown("this driver's NVML has no such function".to_owned())
            }
            Err(why) => Reading::Unknown(why.to_string()),
        }
    }
}

/// The state of the driver and its GPUs.
#[derive(Debug, Clone, Default)]
pub struct Driver {
    /// Its version, such as 580.82.07.
    pub version: Reading<String>,
    /// The newest CUDA version that it supports, as major and minor.
    pub cuda: Reading<(u32, u32)>,
    /// GPUs by NVML's number; those that do not answer have the reason.
    pub gpus: Vec<Result<Gpu, String>>,
}

/// Reads everything that [`Driver`] holds. Changes nothing on any device.
///
/// # Errors
/// As of [`open`].
pub fn driver() -> Result<Driver, NvmlError> {
    let nvml = open()?;
    let cuda = Reading::from(nvml.sys_cuda_driver_version());
    let count = nvml.device_count()?;
    let read = |index| gpu::read(&nvml, index).map_err(|why| why.to_string());
    Ok(Driver {
        version: nvml.sys_driver_version().into(),
        // 13000 is 13.0: nvmlSystemGetCudaDriverVersion, NVML_CUDA_DRIVER_VERSION_MAJOR and _MINOR.
        cuda: cuda.map(|v| u32::try_from(v).map_or((0, 0), |v| (v / 1000, v % 1000 / 10))),
        gpus: (0..count).map(read).collect(),
    })
}
