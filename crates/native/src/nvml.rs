//! NVIDIA's management library: opened where the driver installed it, absent without a panic.
//! Not what is asked of it.

pub use nvml_wrapper as wrapper;
use nvml_wrapper::Nvml;

/// Opens NVML; the environment variable `BUSBW_NVML` names another file than `libnvidia-ml.so.1`.
///
/// # Errors
/// Why there is none: no such library, or no driver behind it.
pub fn open() -> Result<Nvml, nvml_wrapper::error::NvmlError> {
    let path = std::env::var_os("BUSBW_NVML");
    Nvml::builder().lib_path(path.as_deref().unwrap_or("libnvidia-ml.so.1".as_ref())).init()
}
