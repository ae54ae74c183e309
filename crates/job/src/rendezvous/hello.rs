//! The first message of a handshake. Both sides send it, and every busbw understands that of every other, so that
//! different versions are named.
//! Not the handshake itself (`accept`, `join`).

use anyhow::{Result, bail};
use busbw_core::printable::printable;
use serde::{Deserialize, Serialize};

use super::token;

/// The protocol of rendezvous and hub. It is raised whenever a message other than [`Hello`] changes.
pub(super) const PROTOCOL: u32 = 1;
/// First message of both sides. Every busbw understands that of every other, so that different versions are named: a
/// frame with this JSON object (docs/launchers.md). Later versions may add members; these stay.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    /// Version of busbw.
    pub(super) version: String,
    /// Random; the other side's authentication tag covers it.
    pub(super) nonce: String,
}

impl Hello {
    pub(super) fn new() -> Result<Hello> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Hello { protocol: PROTOCOL, version, nonce: token()? })
    }

    /// # Errors
    /// When the other side's messages cannot be understood.
    pub(super) fn check(&self) -> Result<()> {
        if self.protocol != PROTOCOL {
            bail!("its rendezvous has protocol {}, and this one has {PROTOCOL}", self.protocol);
        }
        Ok(())
    }

    /// The sender's version for a message, if it is not this one's.
    pub(super) fn other_version(&self) -> Option<String> {
        let version: String = self.version.chars().take(32).collect();
        (self.version != env!("CARGO_PKG_VERSION")).then(|| printable(&version).into_owned())
    }
}
