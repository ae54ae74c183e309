//! `algSelection: …` (2.31 on, TUNING): what became of the set of algorithms that a call asked for (`ncclCollConfig_t`).
//! Not the choice itself: the line `… Bytes -> …` has it.
//!
//! Formats: strings of libnccl 2.31.2 and 2.32.3. Names of symmetric kernels begin with `SYMK_`.

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::keep;

/// The most distinct selections that are kept.
pub(super) const MAX_SELECTIONS: usize = 256;

/// What became of a set of algorithms that calls asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Selection {
    /// One of the set runs.
    Picked {
        /// Its name, such as `RING_SIMPLE` or `SYMK_LL`.
        algorithm: String,
    },
    /// None of the set can run: NCCL chose as if nothing had been asked for.
    FellBack {
        /// NCCL's name of the collective, such as `AllReduce`.
        collective: String,
        /// The set as the program gave it, where the line has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<String>,
    },
}

impl Selection {
    /// Reads a message; none of its business gives `None`.
    pub(super) fn read(mut at: Cursor<'_>) -> Option<Selection> {
        if at.has("config->algSelection \"") {
            let asked = Some(keep(at.until("\" cannot be honored for ")?));
            let collective = keep(at.until("; falling back to automatic selection")?);
            return Some(Selection::FellBack { collective, asked });
        }
        at.literal("algSelection: ")?;
        if at.has("selected set unavailable for ") {
            let collective = keep(at.until("; falling back to automatic selection")?);
            return Some(Selection::FellBack { collective, asked: None });
        }
        let algorithm = keep(at.until(" picked within the selected set")?);
        Some(Selection::Picked { algorithm })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_and_fallen_back() {
        let read = |text| Selection::read(Cursor::new(text, false));
        let picked = |name: &str| Some(Selection::Picked { algorithm: name.to_owned() });
        assert_eq!(read("algSelection: SYMK_LL picked within the selected set"), picked("SYMK_LL"));
        let fell = |asked: Option<&str>| {
            let (collective, asked) = ("AllReduce".to_owned(), asked.map(str::to_owned));
            Some(Selection::FellBack { collective, asked })
        };
        let unavailable = "algSelection: selected set unavailable for AllReduce; falling back to automatic selection";
        assert_eq!(read(unavailable), fell(None));
        let refused = "config->algSelection \"PAT_SIMPLE\" cannot be honored for AllReduce; falling back to automatic selection";
        assert_eq!(read(refused), fell(Some("PAT_SIMPLE")));
        for text in ["algSelection: ", "algSelection: RING_SIMPLE picked", "config->CTAPolicy=9"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
