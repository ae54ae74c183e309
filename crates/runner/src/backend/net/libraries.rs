//! Which net plugin is requested, as the command line names it and as a rank's process needs it.
//! Not loading it (`busbw_ffi::net`).

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::embedded::{self, Plugin};

/// The name of busbw's own plugin on the command line.
pub const OWN_PLUGIN: &str = "busbw";

/// NCCL's variable for the plugin to load.
const NCCL_NET_PLUGIN: &str = "NCCL_NET_PLUGIN";

/// The requested plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// [`OWN_PLUGIN`], or a value as NCCL_NET_PLUGIN takes it.
    pub word: String,
}

impl Wanted {
    /// The file to load. busbw's own plugin is written to the cache first, if it is not there.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn file(&self) -> Result<String> {
        match self.word.as_str() {
            OWN_PLUGIN => Ok(embedded::path(Plugin::Net)?.to_string_lossy().into_owned()),
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
