//! The kernels on one GPU: loaded there, launched on its streams, what they found read back.
//! Not what they compute (`pattern.cu`).

use std::{ffi::CString, sync::Arc};

use model::{
    DataType,
    pattern::{Content, Mismatch, Pattern},
};

use super::{BLOCK, Findings, PTX, Parameters, blocks, fill_kernel, verify_kernel};
use crate::gpu::{Argument, Context, GpuError, Memory, Module, Span, Stream};

/// The kernels on one GPU, with room for what they find.
#[derive(Debug)]
pub struct Kernels {
    module: Module,
    findings: Memory,
    multiprocessors: u32,
}

impl Kernels {
    /// Has the driver compile them for the context's GPU.
    ///
    /// # Errors
    /// [`GpuError`]: among others when the driver is older than the PTX.
    pub fn load(context: &Arc<Context>) -> Result<Kernels, GpuError> {
        // The text has no zero in it; if it had, the driver would refuse what is left.
        let ptx = CString::new(PTX).unwrap_or_default();
        let module = Module::load(context, &ptx)?;
        let findings = Memory::allocate(context, size_of::<Findings>())?;
        let facts = context.runtime().facts(context.ordinal() as usize)?;
        Ok(Kernels { module, findings, multiprocessors: facts.multiprocessors.unwrap_or(1) })
    }

    /// Fills `elements` elements from the start of a span. Enqueued, not waited for.
    ///
    /// # Errors
    /// [`GpuError`]: among others when the span is too small.
    pub fn fill(
        &self,
        stream: &Stream,
        span: Span,
        elements: usize,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), GpuError> {
        let name = fill_kernel(pattern.datatype, content);
        let parameters = Parameters::new(pattern, content);
        self.launch(stream, name, span, elements, pattern.datatype, &parameters, None)
    }

    /// Forgets what was found. Enqueued.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn forget(&self) -> Result<(), GpuError> {
        let context = self.findings.context();
        context.write(&Findings::NONE.to_bytes(), self.findings.span())
    }

    /// Compares `elements` elements from the start of a span with what they must be. `at` is the
    /// index of the first of them in the memory that findings speak of; floats may be `tolerance`
    /// numbers of their type off. Enqueued; [`Kernels::found`] tells.
    ///
    /// # Errors
    /// [`GpuError`]: among others when the span is too small.
    #[allow(clippy::too_many_arguments)]
    pub fn verify(
        &self,
        stream: &Stream,
        span: Span,
        elements: usize,
        pattern: &Pattern,
        content: Content,
        at: u64,
        tolerance: u32,
    ) -> Result<(), GpuError> {
        let name = verify_kernel(pattern.datatype, content);
        let parameters = Parameters { base: at, tolerance, ..Parameters::new(pattern, content) };
        let findings = Some(self.findings.span());
        self.launch(stream, name, span, elements, pattern.datatype, &parameters, findings)
    }

    /// What was found since [`Kernels::forget`]; waits for nothing: the stream must be done.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn found(&self) -> Result<Mismatch, GpuError> {
        let mut bytes = [0; size_of::<Findings>()];
        self.findings.context().read(self.findings.span(), &mut bytes)?;
        Ok(Findings::from_bytes(&bytes).mismatch())
    }

    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        stream: &Stream,
        kernel: &str,
        span: Span,
        elements: usize,
        datatype: DataType,
        parameters: &Parameters,
        findings: Option<Span>,
    ) -> Result<(), GpuError> {
        let bytes = elements.saturating_mul(datatype.bytes());
        let Some(span) = span.part(0, bytes) else {
            return Err(GpuError::of_ours("launching a kernel", "its memory is too small"));
        };
        let blocks = blocks(elements as u64, datatype, self.multiprocessors);
        if blocks == 0 {
            return Ok(());
        }
        let name = CString::new(kernel).unwrap_or_default();
        let function = self.module.function(&name)?;
        let mut arguments = vec![
            Argument::span(span),
            Argument::word(elements as u64),
            Argument::bytes(parameters.to_bytes().to_vec()),
        ];
        arguments.extend(findings.map(Argument::span));
        // SAFETY: these are the parameters of the kernels in pattern.cu; they touch `elements`
        // elements of the span, which holds them, and the findings.
        unsafe { self.module.launch(function, stream, blocks, BLOCK, &mut arguments) }
    }
}
