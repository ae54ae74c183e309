//! Which transport of busbw's network the environment asks for: BUSBW_NET.
//! Not the transports, and not NCCL's own choice between networks (NCCL_NET).

use crate::failure::{Failure, Result};

/// The variable.
pub(crate) const VARIABLE: &str = "BUSBW_NET";

/// What carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP sockets.
    Sockets,
    /// Queue pairs of RDMA devices.
    Rdma,
}

/// The transport that the environment names; none where the variable is unset or empty: the plugin then chooses.
///
/// # Errors
/// INVALID_USAGE for a word that names no transport.
pub(crate) fn of_environment() -> Result<Option<Transport>> {
    named(std::env::var(VARIABLE).ok().as_deref())
}

fn named(word: Option<&str>) -> Result<Option<Transport>> {
    match word {
        None | Some("") => Ok(None),
        Some("sockets") => Ok(Some(Transport::Sockets)),
        Some("rdma") => Ok(Some(Transport::Rdma)),
        Some(word) => {
            Err(Failure::variable(VARIABLE, word, "a transport: \"sockets\" or \"rdma\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use nccl_plugin_abi::Status;

    use super::*;

    #[test]
    fn transports_that_exist_are_taken_and_others_refused() {
        assert_eq!(named(None).unwrap(), None);
        assert_eq!(named(Some("")).unwrap(), None);
        assert_eq!(named(Some("sockets")).unwrap(), Some(Transport::Sockets));
        assert_eq!(named(Some("rdma")).unwrap(), Some(Transport::Rdma));
        for word in ["RDMA", "Sockets", "socket", "1", "auto"] {
            let failure = named(Some(word)).unwrap_err();
            assert_eq!(failure.status, Status::INVALID_USAGE, "{word}");
            assert!(failure.text.starts_with(&format!("BUSBW_NET={word} is not ")), "{failure}");
            assert!(failure.text.contains("sockets"), "{failure}");
        }
    }
}
