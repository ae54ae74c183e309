//! What the fuzz targets share: a source of choices, edits of a list, and the count of what parses.
//! Not a target, and not the grammars: each target knows its own.

/// Choices and edits for mutators.
pub mod draw;
/// How many inputs meant something.
pub mod share;
