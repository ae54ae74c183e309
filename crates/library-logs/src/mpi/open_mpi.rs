//! Open MPI's log lines: the PML of a process, and the BTL to each peer.
//! Not which PMLs have BTLs, and not other lines.
//!
//! Sources: ompi/mca/pml/base/pml_base_select.c, ompi/mca/bml/r2/bml_r2.c,
//! opal/mca/base/mca_base_components_*.c and mca_base_framework.c of 4.1.

/// The content of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMpiMessage<'a> {
    /// The PML.
    Pml(&'a str),
    /// One of the BTLs for messages to a rank of MPI_COMM_WORLD.
    Btl {
        /// The BTL.
        name: &'a str,
        /// The rank.
        peer: u32,
    },
}

/// Parses a line; `None` if nothing of it is kept.
pub(super) fn message(line: &str) -> Option<OpenMpiMessage<'_>> {
    let text = text(line)?;
    if let Some(rest) = text.strip_prefix("select: component ") {
        return name(rest.strip_suffix(" selected")?).map(OpenMpiMessage::Pml);
    }
    let (btl, rest) = text.strip_prefix("mca: bml: Using ")?.split_once(" btl for send to [[")?;
    // "[[job family,job],rank] on node host".
    let (process, _) = rest.split_once("] on node ")?;
    let (_, peer) = process.split_once("],")?;
    Some(OpenMpiMessage::Btl { name: name(btl)?, peer: peer.parse().ok()? })
}

/// Whether it is printed only because of OMPI_MCA_pml_base_verbose or OMPI_MCA_btl_base_verbose. A
/// component that cannot be opened is a message for the user ("mca: base: component_find: …").
pub(super) fn is_chatter(line: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "mca: base: components_register: ",
        "mca: base: components_open: ",
        "mca: base: close: ",
        "mca: bml: ",
        "select: ",
        "selected ",
        "check:select: ",
    ];
    text(line).is_some_and(|text| BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)))
}

/// The text after `[host:process] `.
fn text(line: &str) -> Option<&str> {
    let (process, text) = line.strip_prefix('[')?.split_once("] ")?;
    let (_, number) = process.rsplit_once(':')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.trim_end())
}

/// A component's name, and nothing else.
fn name(word: &str) -> Option<&str> {
    let of_one = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!word.is_empty() && word.len() <= 64 && word.bytes().all(of_one)).then_some(word)
}
