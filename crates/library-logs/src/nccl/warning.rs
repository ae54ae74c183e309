//! What NCCL says that is worth keeping word for word: warnings, and why it does not use something.
//! Not what to do about it.

use serde::{Deserialize, Serialize};

use super::message::Message;
use super::tally::{Tally, keep};

/// Distinct warnings and remarks that are kept.
const MOST: usize = 256;

/// A `NCCL WARN`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Host, as NCCL prints it.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// CUDA device in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_dev: Option<u32>,
    /// The rank that this device had in the newest communicator, where that was said before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Where in the source, such as `plugin/net.cc:334`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The words.
    pub text: String,
}

/// Lines of level INFO that explain a choice: their beginnings.
const REMARKS: [&str; 7] = [
    "P2P is disabled between",
    "P2P not supported between",
    "Could not enable P2P between",
    "NET/IB : No device found",
    "NET/OFI Selected ",
    "Could not get speed from",
    "MSCCL: ",
];

/// What was heard so far.
#[derive(Debug)]
pub(super) struct Words {
    pub warnings: Tally<Warning>,
    pub remarks: Tally<String>,
}

impl Default for Words {
    fn default() -> Self {
        Words { warnings: Tally::new(MOST), remarks: Tally::new(MOST) }
    }
}

impl Words {
    /// Keeps a warning, and of a cut one what is left.
    pub(super) fn warn(&mut self, message: &Message<'_>, rank: Option<u32>) {
        self.warnings.add(Warning {
            host: keep(message.origin.host),
            pid: message.origin.pid,
            cuda_dev: message.origin.device,
            rank,
            place: keep(message.place),
            text: keep(message.text),
        });
    }

    /// Reads a remark; anything else gives `None`.
    pub(super) fn read(&mut self, text: &str, cut: bool) -> Option<()> {
        if cut || !REMARKS.iter().any(|beginning| text.starts_with(beginning)) {
            return None;
        }
        self.remarks.add(keep(text));
        Some(())
    }
}
