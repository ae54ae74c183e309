//! Random tokens: secrets of a job, and nonces of a handshake.
//! Not the authentication that uses them (`authentication`).

use anyhow::{Context, Result};
use rustix::rand::{GetRandomFlags, getrandom};

/// 128 random bits as 32 hexadecimal digits.
///
/// # Errors
/// When getrandom(2) fails.
pub fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    // So few bytes are never cut short (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty()).context("cannot get random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
