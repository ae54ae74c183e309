//! Recognises a text by its content: topology XML, graphs XML, or the matrix of nvidia-smi.
//! Not machine files, which the caller tries first or last by its own rules.

use thiserror::Error;

use super::{Graphs, Matrix, System, elements, graphs, smi, xml};

/// Why a text is of no known format, or damaged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// The content of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A host.
    System(System),
    /// NCCL's rings and trees.
    Graphs(Graphs),
    /// nvidia-smi's matrices, at least one.
    Matrices(Vec<Matrix>),
}

/// Reads a text.
///
/// # Errors
/// Why it cannot be used, in one line.
pub fn recognise(text: &str) -> Result<Input, Refused> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.trim_start().starts_with('<') {
        return smi::matrices(text).map(Input::Matrices);
    }
    // A declaration must be the very beginning; some files have blanks before it.
    let declared = text.trim_start().starts_with("<?");
    let document = elements::parse(if declared { text.trim_start() } else { text })?;
    let root = elements::Element(document.root_element());
    match root.name() {
        "system" => xml::system(root).map(Input::System),
        "graphs" => graphs::graphs(root).map(Input::Graphs),
        other => Err(Refused(format!(
            "its XML begins with <{other}>; NCCL's topology begins with <system>, its graphs with <graphs>"
        ))),
    }
}
