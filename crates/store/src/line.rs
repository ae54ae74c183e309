//! One line of a record as text, both ways. Everybody goes through these two functions: what serde makes of the
//! record is large, and is compiled once.
//! Not whole records (`reader`, `writer`).

use busbw_core::record::Line;

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
    serde_json::from_slice(text)
}
