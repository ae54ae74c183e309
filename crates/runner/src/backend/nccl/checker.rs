//! Filling a rank's buffers with the pattern and comparing results with it: by kernels on the GPU,
//! or, where no kernel can be loaded, on the host with the same functions.
//! Not what must be where (`busbw_core::layout`).

use std::sync::Arc;

use busbw_core::{
    DataType, ReduceOp,
    layout::{Shape, Stretch},
    pattern::{self, Content, Mismatch, POISON, Pattern},
    plan::{CheckedBy, Placement},
};
use busbw_ffi::{
    gpu::{Context, GpuError, Span, Vendor},
    kernels::Kernels,
};

use super::operations::Regions;
use crate::backend::nccl::gpu_rank::GpuRank;

/// Bytes that are copied to the host and compared at a time.
const COMPARE_CHUNK_BYTES: usize = 64 << 20;

/// How far a float average may be off, in representable numbers of the type: nccl-tests allows as
/// many (verifiable/verifiable.cu:1320-1330), since NCCL chooses who divides when.
const AVERAGE_TOLERANCE_ULP: u32 = 2;

/// Fills and verifies a rank's data.
pub(super) struct Checker {
    /// The kernels, where the GPU fills or verifies.
    kernels: Option<Kernels>,
    fills: Who,
    verifies: Who,
}

/// Which side does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Gpu,
    Host,
}

impl Checker {
    /// For a GPU of `vendor`. No kernel is loaded if there are no checks.
    pub(super) fn new(
        context: &Arc<Context>,
        vendor: Vendor,
        by: CheckedBy,
        checks: bool,
    ) -> Result<Checker, GpuError> {
        let (fills, verifies) = match (vendor, by) {
            // PTX is NVIDIA's.
            (Vendor::Amd, _) => (Who::Host, Who::Host),
            (_, CheckedBy::Gpu) => (Who::Gpu, Who::Gpu),
            (_, CheckedBy::HostFills) => (Who::Host, Who::Gpu),
            (_, CheckedBy::HostVerifies) => (Who::Gpu, Who::Host),
        };
        let needed = checks && [fills, verifies].contains(&Who::Gpu);
        let kernels = if needed { Some(Kernels::load(context)?) } else { None };
        Ok(Checker { kernels, fills, verifies })
    }

    /// Writes the input of an operation, and poison to where its result goes.
    pub(super) fn fill(
        &self,
        gpu_rank: &GpuRank,
        shape: &Shape<'_>,
        pattern: &Pattern,
        regions: Regions,
    ) -> Result<(), GpuError> {
        let element = shape.element_bytes;
        let poisoned = shape.counts.send.max(shape.counts.recv) * element;
        gpu_rank.stream.set(part(regions.whole, 0, poisoned)?, POISON)?;
        let rank = gpu_rank.communicator.rank();
        let (elements, input) = (shape.send_elements(rank), shape.input(rank));
        self.put(gpu_rank, regions.send, elements, pattern, input)
    }

    /// Writes `elements` elements of a content to the beginning of a span.
    pub(super) fn put(
        &self,
        gpu_rank: &GpuRank,
        span: Span,
        elements: usize,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), GpuError> {
        let element = pattern.datatype.bytes();
        match self.kernels.as_ref().filter(|_| self.fills == Who::Gpu) {
            Some(kernels) => kernels.fill(&gpu_rank.stream, span, elements, pattern, content),
            None => {
                gpu_rank.settle()?;
                in_chunks(elements, element, |at, len| {
                    let mut bytes = vec![0; len * element];
                    pattern::fill(&mut bytes, pattern, from(content, at as u64));
                    let to = part(span, at * element, bytes.len())?;
                    gpu_rank.stream.write(&bytes, to)
                })
            }
        }
    }

    /// Compares the result of an operation.
    pub(super) fn verify(
        &self,
        gpu_rank: &GpuRank,
        shape: &Shape<'_>,
        pattern: &Pattern,
        regions: Regions,
        placement: Placement,
    ) -> Result<Mismatch, GpuError> {
        let counts = shape.counts;
        let in_place = placement == Placement::InPlace;
        let mut stretches = shape.output(gpu_rank.communicator.rank(), in_place);
        // The poison behind the result must still be poison; in place that part was the input.
        let filled = if in_place { counts.recv } else { counts.recv.max(counts.send) };
        let behind =
            Stretch { at: counts.recv, len: filled - counts.recv, content: Content::Poison };
        stretches.push(behind);
        self.compare_stretches(gpu_rank, regions.recv, &stretches, pattern)
    }

    /// Compares the first `elements` elements of a span with a content.
    pub(super) fn compare(
        &self,
        gpu_rank: &GpuRank,
        span: Span,
        elements: usize,
        pattern: &Pattern,
        content: Content,
    ) -> Result<Mismatch, GpuError> {
        self.compare_stretches(
            gpu_rank,
            span,
            &[Stretch { at: 0, len: elements, content }],
            pattern,
        )
    }

    fn compare_stretches(
        &self,
        gpu_rank: &GpuRank,
        whole: Span,
        stretches: &[Stretch],
        pattern: &Pattern,
    ) -> Result<Mismatch, GpuError> {
        let element = pattern.datatype.bytes();
        let stretches = stretches.iter().filter(|stretch| stretch.len > 0);
        match self.kernels.as_ref().filter(|_| self.verifies == Who::Gpu) {
            Some(kernels) => {
                kernels.forget(&gpu_rank.stream)?;
                for &Stretch { at, len, content } in stretches {
                    let span = part(whole, at * element, len * element)?;
                    let tolerance = tolerance(pattern, content);
                    let at = at as u64;
                    kernels.verify(&gpu_rank.stream, span, len, pattern, content, at, tolerance)?;
                }
                gpu_rank.settle()?;
                kernels.found()
            }
            None => {
                gpu_rank.settle()?;
                let mut found = Mismatch::default();
                for &Stretch { at, len, content } in stretches {
                    in_chunks(len, element, |within, len| {
                        let mut bytes = vec![0; len * element];
                        let span = part(whole, (at + within) * element, bytes.len())?;
                        gpu_rank.communicator.context().read(span, &mut bytes)?;
                        let content = from(content, within as u64);
                        let here = pattern::verify_within(
                            &bytes,
                            pattern,
                            content,
                            tolerance(pattern, content),
                        );
                        found.add(here, (at + within) as u64);
                        Ok(())
                    })?;
                }
                Ok(found)
            }
        }
    }
}

/// The tolerance of a result, in representable numbers of the type.
fn tolerance(pattern: &Pattern, content: Content) -> u32 {
    let averaged = pattern.op == ReduceOp::Avg && matches!(content, Content::Reduced { .. });
    let integer = matches!(
        pattern.datatype,
        DataType::Int8
            | DataType::Uint8
            | DataType::Int32
            | DataType::Uint32
            | DataType::Int64
            | DataType::Uint64
    );
    if averaged && !integer { AVERAGE_TOLERANCE_ULP } else { 0 }
}

/// The same content from its element `by` on.
fn from(content: Content, by: u64) -> Content {
    match content {
        Content::Copied { source, first } => Content::Copied { source, first: first + by },
        Content::Contribution { rank, first } => Content::Contribution { rank, first: first + by },
        Content::Reduced { first } => Content::Reduced { first: first + by },
        Content::Poison => Content::Poison,
    }
}

fn part(span: Span, offset: usize, bytes: usize) -> Result<Span, GpuError> {
    span.part(offset, bytes)
        .ok_or_else(|| GpuError::of_ours("preparing a check", "it would go beyond its buffer"))
}

/// Calls `handle` with the first element and the length of every chunk of `elements`.
fn in_chunks(
    elements: usize,
    element: usize,
    handle: impl FnMut(usize, usize) -> Result<(), GpuError>,
) -> Result<(), GpuError> {
    let mut handle = handle;
    let most = COMPARE_CHUNK_BYTES / element.max(1);
    (0..elements).step_by(most).try_for_each(|at| handle(at, most.min(elements - at)))
}
