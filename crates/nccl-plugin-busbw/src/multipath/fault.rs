//! Paths that are broken on purpose, for tests: BUSBW_NET_FAULT=kill:MILLISECONDS.
//! Not what is done about that.

use std::time::Duration;

/// Its variable.
pub const VARIABLE: &str = "BUSBW_NET_FAULT";

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Between two paths that are cut, each drawn among all of this process.
    pub every: Duration,
}

impl Fault {
    /// From the variable's value.
    #[must_use]
    pub fn parsed(text: &str) -> Option<Fault> {
        let millis: u64 = text.strip_prefix("kill:")?.parse().ok()?;
        (millis > 0).then_some(Fault { every: Duration::from_millis(millis) })
    }
}

/// Numbers without a pattern (Steele and others, SplitMix64).
#[derive(Debug)]
pub(super) struct Draws(pub u64);

impl Draws {
    /// One of `0..below`.
    pub(super) fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // It is below `below`.
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(Fault::parsed("kill:20"), Some(Fault { every: Duration::from_millis(20) }));
        for none in ["", "kill:", "kill:0", "kill:x", "stop:3"] {
            assert_eq!(Fault::parsed(none), None, "{none}");
        }
    }
}
