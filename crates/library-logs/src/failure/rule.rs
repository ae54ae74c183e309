//! A rule: the words that mark an incident or a detail of one, and how the rest of the line is read.
//! Not the rules themselves (`nccl`, `pytorch`, `launcher`, `system`, `harmless`), and not the search.

use super::{incident::Incident, kind::Kind, line::Line};

/// Reads what a marked line tells into its incident, which has the line's origin already; `after` is the text
/// behind the words. False: this line is not such an incident after all.
pub(super) type Read = fn(&mut Incident, &Line<'_>, after: &str) -> bool;

/// Words that mark an incident.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub needle: &'static str,
    pub kind: Kind,
    pub read: Read,
    /// The lines that follow tell more: the incident stays open for its details.
    pub opens: bool,
    /// It may be a message of NCCL at level INFO. Other rules pass over those: they are no failures.
    pub in_info: bool,
}

/// A line that needs no reading.
pub(super) const fn rule(needle: &'static str, kind: Kind) -> Rule {
    Rule { needle, kind, read: |_, _, _| true, opens: false, in_info: false }
}

impl Rule {
    pub(super) const fn read(self, read: Read) -> Rule {
        Rule { read, ..self }
    }

    pub(super) const fn opens(self) -> Rule {
        Rule { opens: true, ..self }
    }

    pub(super) const fn in_info(self) -> Rule {
        Rule { in_info: true, ..self }
    }
}

/// Words that mark a detail of the open incident: one of these kinds.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub needle: &'static str,
    pub of: &'static [Kind],
    pub read: fn(&mut Incident, after: &str),
}

/// The first word of a text, without the signs that end it.
pub(super) fn word(text: &str) -> Option<String> {
    let word = text.split_whitespace().next()?;
    Some(word.trim_end_matches(['.', ',', ';', ':', '"', '\''])).filter(|w| !w.is_empty()).map(keep)
}

/// The part of a text that is kept: at most 512 bytes.
pub(super) fn keep(text: &str) -> String {
    text[..text.floor_char_boundary(512)].trim().to_owned()
}
