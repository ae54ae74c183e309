//! The first message of a handshake: it tells every busbw the version of every other.
//! Not the handshake itself (`accept`, `join`).

use anyhow::{Result, bail};
use busbw_core::printable::printable;
use serde::{Deserialize, Serialize};

use super::token;

/// The protocol of rendezvous and hub. It is raised whenever a message other than [`Hello`] changes.
pub(super) const PROTOCOL: u32 = 2;

/// First message of both sides: a frame with this JSON object. Its form is the same in all versions (docs/launchers.md):
/// later ones may add members, and these stay.
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

    /// Whether what the sender says next can be understood.
    ///
    /// # Errors
    /// When it has another protocol.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/launchers.md promises it to every version.
    #[test]
    fn the_first_message_keeps_its_form() {
        let hello = Hello { protocol: 7, version: "0.1.0".to_owned(), nonce: "ab".to_owned() };
        let text = r#"{"protocol":7,"version":"0.1.0","nonce":"ab"}"#;
        assert_eq!(serde_json::to_string(&hello).unwrap(), text);
        let later = r#"{"later":[1],"nonce":"ab","version":"0.1.0","protocol":7}"#;
        assert_eq!(serde_json::from_str::<Hello>(later).unwrap().protocol, 7);
    }
}
