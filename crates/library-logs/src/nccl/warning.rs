//! Messages that are kept word for word: warnings, and reasons why NCCL does not use something.
//! Not what to do about them.

use serde::{Deserialize, Serialize};

use super::message::{Level, Message};
use super::tally::{Tally, keep};

/// The most distinct warnings and remarks that are kept.
const MAX_WARNINGS: usize = 256;

/// A `NCCL WARN`, or a message of the levels that later releases have beside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Host, as NCCL prints it.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_dev: Option<u32>,
    /// The rank of this device in the newest communicator, where that was printed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The source position, such as `plugin/net.cc:334`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// `ATTN` (2.32 on) or `ERROR` (development branch); absent for WARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The text.
    pub text: String,
}

/// Lines of level INFO that explain a choice: their beginnings.
const REMARKS: [&str; 12] = [
    "P2P is disabled between",
    "P2P not supported between",
    "Could not enable P2P between",
    "NET/IB : No device found",
    "NET/OFI Selected ",
    "Could not get speed from",
    "MSCCL: ",
    // 2.31 and 2.32: causes of a failure, and settings that are not used as they were given.
    "HINT: ",
    "Config ",
    "Env var for ",
    "Warning: ENV ",
    "Unable to recognize NCCL_",
];

/// What has been read so far.
#[derive(Debug)]
pub(super) struct Words {
    pub warnings: Tally<Warning>,
    pub remarks: Tally<String>,
}

impl Default for Words {
    fn default() -> Self {
        Words { warnings: Tally::new(MAX_WARNINGS), remarks: Tally::new(MAX_WARNINGS) }
    }
}

impl Words {
    /// Keeps a warning, or the rest of a cut one.
    pub(super) fn warn(&mut self, message: &Message<'_>, rank: Option<u32>) {
        self.warnings.add(Warning {
            host: keep(message.origin.host),
            pid: message.origin.pid,
            cuda_dev: message.origin.device,
            rank,
            place: keep(message.place),
            level: match message.level {
                Level::Error => Some("ERROR".to_owned()),
                Level::Attn => Some("ATTN".to_owned()),
                _ => None,
            },
            text: keep(message.text),
        });
    }

    /// Reads a remark; `None` for anything else.
    pub(super) fn read(&mut self, text: &str, cut: bool) -> Option<()> {
        // `MNNVL busId 0x… NVLink fabric health reports DEGRADED_BANDWIDTH (healthMask 0x…)`, 2.32 on.
        let degraded = text.starts_with("MNNVL busId ") && text.contains(" DEGRADED_BANDWIDTH ");
        let known = degraded || REMARKS.iter().any(|beginning| text.starts_with(beginning));
        if cut || !known {
            return None;
        }
        self.remarks.add(keep(text));
        Some(())
    }
}
