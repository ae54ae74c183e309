//! The releases of nccl-tests whose printed form a table can have.
//! Not the form itself (`busbw-render`), and not what `import` reads: that is every release.

use serde::{Deserialize, Serialize};

/// A release of nccl-tests, by its printed form (`--nccl-tests-version`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NcclTestsRelease {
    /// 2.19.6 of 2026-07-09: held against output of the compiled program.
    #[default]
    #[serde(rename = "2.19.6")]
    V2_19_6,
    /// 2.20.0: known from published output alone (docs/nccl_tests.md).
    #[serde(rename = "2.20.0")]
    V2_20_0,
}

impl NcclTestsRelease {
    /// All, the oldest first.
    pub const ALL: [NcclTestsRelease; 2] = [NcclTestsRelease::V2_19_6, NcclTestsRelease::V2_20_0];

    /// The release as a word.
    pub fn name(self) -> &'static str {
        match self {
            NcclTestsRelease::V2_19_6 => "2.19.6",
            NcclTestsRelease::V2_20_0 => "2.20.0",
        }
    }

    /// The release of that name.
    pub fn from_name(name: &str) -> Option<NcclTestsRelease> {
        NcclTestsRelease::ALL.into_iter().find(|release| release.name() == name)
    }

    /// What stands behind `# nccl-tests version `. 2.20.0 names the commit that it was built from; here it is
    /// the release's own, as in every published output.
    pub fn printed(self) -> &'static str {
        match self {
            NcclTestsRelease::V2_19_6 => "2.19.6",
            NcclTestsRelease::V2_20_0 => "2.20.0 (b4d5bee)",
        }
    }

    /// Whether it is what records have that say nothing.
    pub(super) fn is_default(&self) -> bool {
        *self == NcclTestsRelease::default()
    }
}
