//! NVML's field values with a scope, which the wrapper crate does not support: counters over all
//! NVLinks.
//! Not which fields mean what.

use nvml_wrapper::{Device, Nvml, error::NvmlError};
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

/// A scope: all of a GPU's NVLinks together. Scope 0 is the first link, or no scope where a field has
/// none (nvml.h, nvmlFieldValue_t).
pub const ALL_LINKS: u32 = u32::MAX;

/// Values of `fields`, (identifier, scope) each, as unsigned integers; `None` where the GPU or the
/// driver has no such field. Identifiers from 251 on changed with driver 580.82 and are passed as
/// they are.
///
/// # Errors
/// The GPU has none of them, such as one that fell off the bus.
pub fn field_values(
    nvml: &Nvml,
    device: &Device<'_>,
    fields: &[(u32, u32)],
) -> Result<Vec<Option<u64>>, NvmlError> {
    let function = nvml.lib().nvmlDeviceGetFieldValues.as_ref();
    let function = function
        .map_err(|_| NvmlError::FailedToLoadSymbol("nvmlDeviceGetFieldValues".to_owned()))?;
    let mut values: Vec<nvmlFieldValue_t> = fields
        .iter()
        .map(|(field, scope)| nvmlFieldValue_t {
            fieldId: *field,
            scopeId: *scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        })
        .collect();
    // SAFETY: the handle is used while `device` is borrowed, and `values` has the length it is passed
    // with.
    let result = unsafe { function(device.handle(), values.len() as i32, values.as_mut_ptr()) };
    match result {
        0 => Ok(values.iter().map(number).collect()),
        3 => Err(NvmlError::NotSupported),
        15 => Err(NvmlError::GpuLost),
        _ => Err(NvmlError::Unknown),
    }
}

/// A value that is an unsigned number.
fn number(value: &nvmlFieldValue_t) -> Option<u64> {
    if value.nvmlReturn != 0 {
        return None;
    }
    // SAFETY: all members are plain numbers that begin at the same place; the union was zeroed before,
    // so that every byte of it is set.
    unsafe {
        match value.valueType {
            1 => Some(u64::from(value.value.uiVal)),
            2 => Some(value.value.ulVal),
            3 => Some(value.value.ullVal),
            _ => None,
        }
    }
}
