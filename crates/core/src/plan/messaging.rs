//! What only tests of messages have: windows, and other iterations for large messages.
//! Not who talks to whom (`messages`).

use serde::{Deserialize, Serialize};

/// How messages are measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messaging {
    /// Messages of a pair that are under way at once (`-W`).
    pub window: u32,
    /// Iterations of messages beyond a size, where they differ.
    pub large: Option<LargeMessages>,
    /// Percentiles of all samples that were asked for, in per cent (OSU's `-z`); at most five.
    pub percentiles: Vec<u8>,
    /// Windows of which each is measured at every size (OSU's `-V`); none: only `window`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub varied: Vec<u32>,
    /// How many pairs talk, rank i with rank i + pairs; without, all ranks do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Each message of a window has a place of its own (OSU's `-b multiple`).
    #[serde(default)]
    pub separate: bool,
}

impl Messaging {
    /// The windows that are measured at every size.
    pub fn windows(&self) -> impl Iterator<Item = u32> + use<> {
        let one = if self.varied.is_empty() { vec![self.window] } else { self.varied.clone() };
        one.into_iter()
    }
}

/// Iterations of large messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeMessages {
    /// Of messages of more bytes than these.
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
