//! One line of a record as text, both ways. Everybody goes through these two functions: what serde makes of the
//! record is large, and is compiled once.
//! Not whole records (`reader`, `writer`).

use busbw_core::record::Line;
use serde::Deserialize;

/// A line of JSON, which ends with a line feed.
///
/// # Errors
/// The line holds what JSON cannot, which no line of ours does.
pub fn to_text(line: &Line) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

/// The line that a text holds.
///
/// # Errors
/// The text is no line of a record.
pub fn from_text(text: &[u8]) -> serde_json::Result<Line> {
    // The kind is read first: serde's own reading of a tagged enum would compile every type a second time, for
    // the copy that it makes of a line before it knows the kind.
    let Tag { kind } = serde_json::from_slice(text)?;
    Ok(match kind {
        Kind::Run => Line::Run(serde_json::from_slice(text)?),
        Kind::Library => Line::Library(serde_json::from_slice(text)?),
        Kind::Mpi => Line::Mpi(serde_json::from_slice(text)?),
        Kind::Net => Line::Net(serde_json::from_slice(text)?),
        Kind::Paths => Line::Paths(serde_json::from_slice(text)?),
        Kind::Verbs => Line::Verbs(serde_json::from_slice(text)?),
        Kind::Row => Line::Row(serde_json::from_slice(text)?),
        Kind::End => Line::End(serde_json::from_slice(text)?),
    })
}

#[derive(Deserialize)]
struct Tag {
    kind: Kind,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Run,
    Library,
    Mpi,
    Net,
    Paths,
    Verbs,
    Row,
    End,
}
