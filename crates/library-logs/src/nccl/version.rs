//! The version of NCCL and of CUDA: `NCCL version …`, `cudaDriverVersion …`.
//! Not what that release can do.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::{Tally, keep};

/// The most distinct versions that are kept.
const MAX_VERSIONS: usize = 64;

/// A version of NCCL or RCCL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NcclVersion {
    /// `NCCL` or `RCCL`.
    pub library: String,
    /// As printed, such as `2.28.9+cuda13.0`.
    pub text: String,
    /// As `ncclGetVersion` gives it, such as 22809.
    pub code: u32,
    /// CUDA or HIP that it was built with, such as `13.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_with: Option<String>,
}

impl NcclVersion {
    /// `NCCL version 2.28.9+cuda13.0` and nothing else.
    fn read(mut at: Cursor<'_>) -> Option<NcclVersion> {
        let library = at.one_of(&["NCCL", "RCCL"])?;
        // RCCL has a colon from 2.20 on.
        at.one_of(&[" version : ", " version "])?;
        let text = at.text()?;
        let mut at = Cursor::new(text, false);
        let major: u32 = at.number()?;
        let minor = at.field(".")?;
        let patch = at.field(".")?;
        if major > 99 || minor > 99 || patch > 99 || text.contains(char::is_whitespace) {
            return None;
        }
        let built_with = text
            .split_once("+cuda")
            .or_else(|| text.split_once("+hip"))
            .map(|(_, toolkit)| toolkit)
            // A build whose macros were not expanded says CUDA_MAJOR.CUDA_MINOR.
            .filter(|toolkit| toolkit.starts_with(|c: char| c.is_ascii_digit()));
        Some(NcclVersion {
            library: library.to_owned(),
            text: keep(text),
            code: code(major, minor, patch),
            built_with: built_with.map(keep),
        })
    }
}

/// NCCL_VERSION of nccl.h: the digits became more with 2.9.
fn code(major: u32, minor: u32, patch: u32) -> u32 {
    if major <= 2 && minor <= 8 {
        major * 1000 + minor * 100 + patch
    } else {
        major * 10_000 + minor * 100 + patch
    }
}

/// The versions read so far.
#[derive(Debug)]
pub(super) struct Versions {
    pub nccl: Tally<NcclVersion>,
    pub cuda_driver: Tally<String>,
}

impl Default for Versions {
    fn default() -> Self {
        Versions { nccl: Tally::new(MAX_VERSIONS), cuda_driver: Tally::new(MAX_VERSIONS) }
    }
}

impl Versions {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(&mut self, mut at: Cursor<'_>) -> Option<()> {
        if at.has("cudaDriverVersion ") {
            let version: u32 = at.number()?;
            at.end()?;
            self.cuda_driver.add(version.to_string());
            return Some(());
        }
        self.nccl.add(NcclVersion::read(at)?);
        Some(())
    }

    /// Reads a line without a source: NCCL_DEBUG=VERSION prints the version alone, rank 0 does so
    /// with NCCL_DEBUG_FILE, and a launcher may put its own prefix before it.
    pub(super) fn read_bare(&mut self, line: &str) -> Option<()> {
        let at = line.find("NCCL version ").or_else(|| line.find("RCCL version "))?;
        let prefix = line[..at].trim_end();
        if !(prefix.is_empty() || prefix.ends_with([':', '>', ']', '|'])) {
            return None;
        }
        self.nccl.add(NcclVersion::read(Cursor::new(&line[at..], false))?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_their_codes() {
        for (text, code, built_with) in [
            ("NCCL version 2.28.9+cuda13.0", 22_809, Some("13.0")),
            ("NCCL version 2.7.8+cuda10.2", 2708, Some("10.2")),
            ("NCCL version 2.18.3-1", 21_803, None),
            ("NCCL version 2.26.6+cudaCUDA_MAJOR.CUDA_MINOR", 22_606, None),
            ("RCCL version 2.18.6+hip6.0", 21_806, Some("6.0")),
            ("RCCL version : 2.30.4-HEAD:2b22ab0", 23_004, None),
        ] {
            let version = NcclVersion::read(Cursor::new(text, false)).expect(text);
            assert_eq!((version.code, version.built_with.as_deref()), (code, built_with), "{text}");
        }
    }

    #[test]
    fn a_bare_line_is_one_only_where_nothing_else_is_said() {
        let mut versions = Versions::default();
        for line in [
            "NCCL version 2.28.9+cuda13.0",
            "[1,0]<stdout>:NCCL version 2.28.9+cuda13.0",
            "  NCCL version 2.28.9+cuda13.0 ",
        ] {
            assert!(versions.read_bare(line).is_some(), "{line}");
        }
        for line in [
            "NCCL EP version 0.1.0+cuda13.3",
            "NCCL version 2.4 or newer is needed",
            "NCCL version 2.4.8 is old",
            "we use NCCL version 2.28.9",
            "NCCL version 2.400.8",
            "NCCL version ",
        ] {
            assert_eq!(versions.read_bare(line), None, "{line}");
        }
        assert_eq!(versions.nccl.finish(&mut 0).into_values().collect::<Vec<_>>(), [3]);
    }
}
