//! Options of tests of messages alone: windows, and other iterations for large messages.
//! Not the pairs (`messages`).

use serde::{Deserialize, Serialize};

/// How messages are measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messaging {
    /// Messages of a pair in flight at once (`-W`).
    pub window: u32,
    /// Iterations of large messages, where they differ.
    pub large: Option<LargeMessages>,
    /// Requested percentiles of all samples, in per cent (OSU's `-z`); at most five.
    pub percentiles: Vec<u8>,
    /// Windows to measure at every size (OSU's `-V`); if empty, only `window`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub varied: Vec<u32>,
    /// The number of pairs, rank i with rank i + pairs; by default of all ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Each message of a window has a part of the buffer of its own (OSU's `-b multiple`).
    #[serde(default)]
    pub separate: bool,
}

impl Messaging {
    /// The windows to measure at every size.
    pub fn windows(&self) -> impl Iterator<Item = u32> + use<> {
        let one = if self.varied.is_empty() { vec![self.window] } else { self.varied.clone() };
        one.into_iter()
    }
}

/// Iterations of large messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeMessages {
    /// Larger than this number of bytes.
    pub above: u64,
    /// Timed iterations a batch.
    pub iterations: u32,
    /// Untimed iterations before each batch.
    pub warmup: u32,
}

impl Default for Messaging {
    /// OSU's window (c/util/osu_util.h: WINDOW_SIZE_LARGE).
    fn default() -> Messaging {
        Messaging {
            window: 64,
            large: None,
            percentiles: Vec::new(),
            varied: Vec::new(),
            pairs: None,
            separate: false,
        }
    }
}
