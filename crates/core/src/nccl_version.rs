//! An NCCL release number, as written (2.28.9, 2.30.7-1, v2.19) and ordered.
//! It does not find out which release is in use.

use std::fmt;
use std::str::FromStr;

/// A release of NCCL. The package suffix (`-1`) is dropped: it never changes which variables exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 2 in 2.28.9.
    pub major: u16,
    /// 28 in 2.28.9.
    pub minor: u16,
    /// 9 in 2.28.9.
    pub patch: u16,
}

/// The text was not a release number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseVersionError {
    text: String,
}

impl fmt::Display for ParseVersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not an NCCL release; write it like 2.28.9", self.text)
    }
}

impl std::error::Error for ParseVersionError {}

impl Version {
    /// A release from its three numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Version { major, minor, patch }
    }

    /// The release of a number of ncclGetVersion of 2.9 and later; `None` for 0, which stands for no NCCL, and for older ones.
    pub fn from_code(code: u32) -> Option<Self> {
        let part = |number: u32| u16::try_from(number).ok();
        let (major, minor, patch) = (code / 10_000, code / 100 % 100, code % 100);
        (major >= 2).then_some(())?;
        Some(Version::new(part(major)?, part(minor)?, part(patch)?))
    }

    /// The number of ncclGetVersion for it: 22809 for 2.28.9 (NCCL_VERSION of nccl.h, 2.9 and later).
    pub const fn code(self) -> u32 {
        self.major as u32 * 10_000 + self.minor as u32 * 100 + self.patch as u32
    }
}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseVersionError { text: text.to_owned() };
        let bare = text.trim().trim_start_matches('v');
        // 2.30.7-1 and 2.30.7+cuda13.0 are the same release to us.
        let bare = bare.split(['-', '+']).next().unwrap_or(bare);
        let mut parts = bare.split('.');
        let mut number = |needed: bool| match parts.next() {
            Some(part) => part.parse::<u16>().map_err(|_| refuse()),
            None if needed => Err(refuse()),
            None => Ok(0),
        };
        let version = Version::new(number(true)?, number(true)?, number(false)?);
        match parts.next() {
            Some(_) => Err(refuse()),
            None => Ok(version),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_in_use_are_read() {
        let want = Version::new(2, 30, 7);
        for text in ["2.30.7", "2.30.7-1", "v2.30.7-1", "2.30.7+cuda13.0"] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        assert_eq!("2.19".parse(), Ok(Version::new(2, 19, 0)));
    }

    #[test]
    fn numbers_order_as_numbers() {
        assert!(Version::new(2, 9, 6) < Version::new(2, 28, 9));
    }

    #[test]
    fn other_text_is_refused_by_name() {
        for text in ["", "-", "2", "2.x.1", "2.1.1.1", "latest", "2.99999.1"] {
            let error = text.parse::<Version>().unwrap_err();
            assert!(error.to_string().contains("2.28.9"), "{text}");
        }
    }
}
