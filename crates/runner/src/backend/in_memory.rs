//! Results in memory of this process, compared with the exact ones: shared by the backends on the
//! host.
//! Not where a rank's buffers are (each backend's own), and not memory of GPUs (`nccl`).

use busbw_core::{
    collective::Counts,
    layout::{Shape, Stretch},
    pattern::{self, Content, Mismatch, Pattern},
    plan::Placement,
};

/// Number of elements from the beginning of a result that `fill` wrote before: the result itself
/// and, out of place, what lies behind it.
pub(super) fn filled(counts: &Counts, placement: Placement) -> usize {
    match placement {
        Placement::InPlace => counts.recv,
        Placement::OutOfPlace => counts.recv.max(counts.send),
    }
}

/// Compares rank `rank`'s result, [`filled`] elements long, with the exact one. Poison behind it
/// must still be poison; in place that part was the input.
pub(super) fn verify(
    memory: &[u8],
    shape: &Shape<'_>,
    pattern: &Pattern,
    rank: usize,
    placement: Placement,
) -> Mismatch {
    let (element, counts) = (shape.element_bytes, &shape.counts);
    let mut stretches = shape.output(rank, placement == Placement::InPlace);
    let behind = filled(counts, placement) - counts.recv;
    stretches.push(Stretch { at: counts.recv, len: behind, content: Content::Poison });
    let mut found = Mismatch::default();
    for stretch in stretches.iter().filter(|stretch| stretch.len > 0) {
        let bytes = &memory[stretch.at * element..(stretch.at + stretch.len) * element];
        found.add(pattern::verify(bytes, pattern, stretch.content), stretch.at as u64);
    }
    found
}
