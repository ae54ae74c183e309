//! Which net plugin is requested, as the command line names it and as a rank's process needs it.
//! Not loading it (`native::net`).

use std::{fmt, str::FromStr};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::plugin::embedded;

/// The name of busbw's own plugin on the command line.
pub const OWN_PLUGIN: &str = "busbw";

/// The variable that makes busbw's plugin behave as NCCL's own sockets do.
pub const REFERENCE: &str = "BUSBW_NET_REFERENCE";
/// NCCL's variable for the plugin to load.
const NCCL_NET_PLUGIN: &str = "NCCL_NET_PLUGIN";

/// NCCL's own sockets, as busbw's plugin imitates them: threads, and sockets a thread; `None` is
/// NCCL's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference(Option<(u32, u32)>);

impl FromStr for Reference {
    type Err = String;

    fn from_str(word: &str) -> Result<Reference, String> {
        let wrong =
            || format!("'{word}' is not socket or socket:THREADSxSOCKETS, such as socket:4x4");
        let Some(numbers) = word.strip_prefix("socket") else { return Err(wrong()) };
        if numbers.is_empty() {
            return Ok(Reference(None));
        }
        let (threads, sockets) =
            numbers.strip_prefix(':').and_then(|both| both.split_once('x')).ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (threads, sockets) = (number(threads)?, number(sockets)?);
        // MAX_THREADS and MAX_SOCKETS of NCCL's src/transport/net_socket.cc.
        if !(1..=16).contains(&threads) || sockets == 0 || threads * sockets > 64 {
            return Err(format!("'{word}': NCCL takes 1 to 16 threads, and at most 64 sockets"));
        }
        Ok(Reference(Some((threads, sockets))))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("socket"),
            Some((threads, sockets)) => write!(f, "socket:{threads}x{sockets}"),
        }
    }
}

/// The requested plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// [`OWN_PLUGIN`], or a value as NCCL_NET_PLUGIN takes it.
    pub word: String,
    /// What busbw's own plugin imitates.
    pub reference: Option<Reference>,
}

impl Wanted {
    /// The file to load. busbw's own plugin is written to the cache first, if it is not there.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn file(&self) -> Result<String> {
        match self.word.as_str() {
            OWN_PLUGIN => Ok(embedded::path()?.to_string_lossy().into_owned()),
            word => Ok(word.to_owned()),
        }
    }

    /// The variables for a process of ranks whose NCCL loads the plugin.
    ///
    /// # Errors
    /// As [`Wanted::file`].
    pub(crate) fn for_nccl(&self) -> Result<Vec<(&'static str, String)>> {
        let mut variables = vec![(NCCL_NET_PLUGIN, self.file()?)];
        variables.extend(self.for_plugin());
        Ok(variables)
    }

    /// Variables that the plugin reads.
    pub(crate) fn for_plugin(&self) -> Option<(&'static str, String)> {
        self.reference.map(|reference| (REFERENCE, reference.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_read_as_they_are_written() {
        for word in ["socket", "socket:1x1", "socket:4x4", "socket:16x4"] {
            assert_eq!(word.parse::<Reference>().unwrap().to_string(), word);
        }
        for word in
            ["", "sockets", "socket:", "socket:4", "socket:0x4", "socket:17x1", "socket:16x5"]
        {
            assert!(word.parse::<Reference>().is_err(), "{word}");
        }
    }
}
