//! `RAS …` lines that say that a peer did not answer in time.
//! Not RAS's reports (`busbw_library_logs` reads no socket), and not its diagnostics (`diagnostics`).
//!
//! Formats: strings of libnccl 2.30.7 to 2.32.3 (src/ras/): seconds are whole until 2.30, `%g` from 2.31 on.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::keep;

/// The most distinct events that are kept.
pub(super) const MAX_RAS_EVENTS: usize = 256;

/// A wait of RAS that took too long.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RasTimeout {
    /// NCCL's words, such as `keep-alive timeout error`.
    pub what: String,
    /// The peer's address, such as `10.0.0.2<44123>`; of a collection of the whole job, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The limit that was passed, seconds, as printed.
    pub limit_s: String,
    /// Responses that did not come, of a collection of the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<u32>,
}

impl RasTimeout {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(mut at: Cursor<'_>) -> Option<RasTimeout> {
        at.literal("RAS ")?;
        if at.has("collective ") {
            // `RAS collective 10.0.0.1<5>:7 timeout error (5s) -- giving up on 3 missing responses`.
            at.until(" timeout ")?;
            let what = at.one_of(&["error", "warning"])?;
            at.literal(" (")?;
            let limit_s = seconds(&mut at)?;
            at.literal(" -- ")?;
            at.has("giving up on ");
            let missing = Some(at.number()?);
            let what = format!("collective timeout {what}");
            return Some(RasTimeout { what, peer: None, limit_s, missing });
        }
        let what = at.one_of(&[
            "keep-alive timeout error",
            "keep-alive timeout warning",
            "connect retry timeout",
            "connect timeout warning",
            "peer connect timeout warning",
            "send stuck timeout error",
            "termination stuck timeout error",
            "init timeout error",
        ])?;
        at.literal(" (")?;
        let limit_s = seconds(&mut at)?;
        at.one_of(&[" on incoming", " on"])?;
        at.one_of(&[" socket connection with ", " socket connection from "])?;
        let peer = Some(keep(at.word()?));
        at.end()?;
        Some(RasTimeout { what: what.to_owned(), peer, limit_s, missing: None })
    }
}

/// `5s)`, `0.5s)`.
fn seconds(at: &mut Cursor<'_>) -> Option<String> {
    let limit = at.until("s)")?;
    limit.parse::<f64>().ok().map(|_| keep(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_broken_seconds() {
        let read = |text| RasTimeout::read(Cursor::new(text, false));
        for (text, what, peer, limit, missing) in [
            (
                "RAS keep-alive timeout error (20s) on socket connection with 10.0.0.2<44123>",
                "keep-alive timeout error",
                Some("10.0.0.2<44123>"),
                "20",
                None,
            ),
            (
                "RAS init timeout error (2.5s) on incoming socket connection from 10.0.0.2<44123>",
                "init timeout error",
                Some("10.0.0.2<44123>"),
                "2.5",
                None,
            ),
            (
                "RAS init timeout error (5s) on socket connection with 10.0.0.2<1> (experiencingDelays 0, startRetryTime 1.00s, socket status 3)",
                "init timeout error",
                Some("10.0.0.2<1>"),
                "5",
                None,
            ),
            (
                "RAS collective 10.0.0.1<5>:7 timeout error (5s) -- giving up on 3 missing responses",
                "collective timeout error",
                None,
                "5",
                Some(3),
            ),
            (
                "RAS collective 10.0.0.1<5>:7 timeout warning (5s) -- 3 responses missing",
                "collective timeout warning",
                None,
                "5",
                Some(3),
            ),
        ] {
            let event = read(text).expect(text);
            assert_eq!((event.what.as_str(), event.peer.as_deref()), (what, peer), "{text}");
            assert_eq!((event.limit_s.as_str(), event.missing), (limit, missing), "{text}");
        }
        // An idle connection is closed on purpose.
        for text in [
            "RAS idle timeout (60s) on socket connection with 10.0.0.2<1>",
            "RAS handling collReq from 10.0.0.2<1> (root 10.0.0.2<1>:1, timeout 5s, type 1)",
            "RAS keep-alive timeout error (xs) on socket connection with 10.0.0.2<1>",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
