//! Which net plugin is asked for, as the command line says it and as a rank's process needs it.
//! Not loading it (`busbw_ffi::net`).

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::embedded;

/// The word for busbw's own plugin.
pub const OURS: &str = "busbw";

/// What makes NCCL load a plugin.
const NCCL_NET_PLUGIN: &str = "NCCL_NET_PLUGIN";

/// The plugin that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// [`OURS`], or what NCCL_NET_PLUGIN would be.
    pub word: String,
}

impl Wanted {
    /// What the loader is asked for; ours is written out first, if it is not there.
    ///
    /// # Errors
    /// A cache that cannot be written.
    pub fn file(&self) -> Result<String> {
        match self.word.as_str() {
            OURS => Ok(embedded::path()?.to_string_lossy().into_owned()),
            word => Ok(word.to_owned()),
        }
    }

    /// The variable that a process of ranks needs whose NCCL is to load it.
    ///
    /// # Errors
    /// As [`Wanted::file`].
    pub(crate) fn for_nccl(&self) -> Result<(&'static str, String)> {
        Ok((NCCL_NET_PLUGIN, self.file()?))
    }
}
