//! The kernels on one GPU: loaded when they are needed, launched on its streams, their results
//! read.
//! Not what they compute (`pattern.cu`).

use std::{
    collections::HashMap,
    ffi::CString,
    sync::{Arc, Mutex, PoisonError},
};

use busbw_core::{
    DataType,
    pattern::{Content, Mismatch, Pattern},
};

use super::{BLOCK, Kernel, Parameters, WrongElements, blocks, kernel};
use crate::gpu::{Argument, Context, Function, GpuError, Memory, Module, Span, Stream};

/// The kernels on one GPU, with memory for their results.
#[derive(Debug)]
pub struct Kernels {
    /// By the kernel's name: a run needs few of them, and compiling each takes time.
    loaded: Mutex<HashMap<&'static str, (Module, Function)>>,
    found: Memory,
    multiprocessors: u32,
}

impl Kernels {
    /// Makes the driver compile the first of them for the context's GPU; the others are compiled
    /// when they are first used.
    ///
    /// # Errors
    /// The driver is older than the PTX, or refuses it.
    pub fn load(context: &Arc<Context>) -> Result<Kernels, GpuError> {
        let found = Memory::allocate(context, size_of::<WrongElements>())?;
        let facts = context.runtime().facts(context.ordinal() as usize)?;
        let multiprocessors = facts.multiprocessors.unwrap_or(1);
        let kernels = Kernels { loaded: Mutex::default(), found, multiprocessors };
        kernels.with(kernel(DataType::Float, Content::Poison), |_, _| Ok(()))?;
        Ok(kernels)
    }

    /// Returns a kernel, loaded if it was not.
    fn with<T>(
        &self,
        kernel: &'static Kernel,
        then: impl FnOnce(&Module, Function) -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((module, function)) = loaded.get(kernel.name) {
            return then(module, *function);
        }
        // The texts have no zero in them; if one had, the driver would refuse what is left.
        let module =
            Module::load(self.found.context(), &CString::new(kernel.ptx()).unwrap_or_default())?;
        let function = module.function(&CString::new(kernel.name).unwrap_or_default())?;
        let (module, function) = loaded.entry(kernel.name).or_insert((module, function));
        then(module, *function)
    }

    /// Fills `elements` elements from the start of a span. Enqueued, not waited for.
    ///
    /// # Errors
    /// The span is too small, or the driver refuses the launch.
    pub fn fill(
        &self,
        stream: &Stream,
        span: Span,
        elements: usize,
        pattern: &Pattern,
        content: Content,
    ) -> Result<(), GpuError> {
        let kernel = kernel(pattern.datatype, content);
        let parameters = Parameters::new(pattern, content);
        self.launch(stream, kernel, span, elements, pattern.datatype, &parameters, None)
    }

    /// Clears the results, after everything that was enqueued on `stream`, and waits for that.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn forget(&self, stream: &Stream) -> Result<(), GpuError> {
        stream.write(&WrongElements::NONE.to_bytes(), self.found.span())
    }

    /// Compares `elements` elements from the start of a span with their expected content. `at` is
    /// the index of the first of them that results count from; floats may be `tolerance`
    /// representable numbers off. Enqueued; [`Kernels::found`] returns the result.
    ///
    /// # Errors
    /// The span is too small, or the driver refuses the launch.
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
        let kernel = kernel(pattern.datatype, content);
        let parameters = Parameters { base: at, tolerance, ..Parameters::new(pattern, content) };
        let found = Some(self.found.span());
        self.launch(stream, kernel, span, elements, pattern.datatype, &parameters, found)
    }

    /// The results since [`Kernels::forget`]. It does not wait: the stream must have completed.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn found(&self) -> Result<Mismatch, GpuError> {
        let mut bytes = [0; size_of::<WrongElements>()];
        self.found.context().read(self.found.span(), &mut bytes)?;
        Ok(WrongElements::from_bytes(&bytes).mismatch())
    }

    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Kernel,
        span: Span,
        elements: usize,
        datatype: DataType,
        parameters: &Parameters,
        found: Option<Span>,
    ) -> Result<(), GpuError> {
        let bytes = elements.saturating_mul(datatype.bytes());
        let Some(span) = span.part(0, bytes) else {
            return Err(GpuError::of_ours("launching a kernel", "its memory is too small"));
        };
        let blocks = blocks(elements as u64, datatype, self.multiprocessors);
        if blocks == 0 {
            return Ok(());
        }
        let mut arguments = [
            Argument::span(span),
            Argument::word(elements as u64),
            Argument::bytes(parameters.to_bytes().to_vec()),
            found.map_or(Argument::word(0), Argument::span),
        ];
        self.with(kernel, |module, function| {
            // SAFETY: these are the parameters of the kernels in pattern.cu; they touch `elements`
            // elements of the span, which holds them, and the result's, if there is one.
            unsafe { module.launch(function, stream, blocks, BLOCK, &mut arguments) }
        })
    }
}
