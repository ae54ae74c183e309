//! Random tokens that only processes of a job know.
//! Not what is proven with them (`proof`).

use anyhow::{Context, Result};
use rustix::rand::{GetRandomFlags, getrandom};

/// 128 random bits in hexadecimal digits.
///
/// # Errors
/// When the kernel has none to give.
pub fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    // So few bytes are never cut short (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty()).context("cannot get random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
