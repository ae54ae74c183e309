//! A graph: operations captured once and launched as one.
//! Not the capture (`stream`).

use std::sync::Arc;

use super::{
    context::Context,
    runtime::{GpuError, call},
    stream::Stream,
    table::Handle,
};

/// A captured graph, not launchable yet.
#[derive(Debug)]
pub struct Captured {
    context: Arc<Context>,
    graph: Handle,
}

/// An instantiated graph.
#[derive(Debug)]
pub struct Graph {
    captured: Captured,
    executable: Handle,
}

// SAFETY: a graph may be launched from any thread.
unsafe impl Send for Graph {}

impl Captured {
    pub(super) fn new(context: &Arc<Context>, graph: Handle) -> Captured {
        Captured { context: Arc::clone(context), graph }
    }

    /// Instantiates it, which makes it launchable.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn instantiate(self) -> Result<Graph, GpuError> {
        self.context.enter()?;
        let mut executable = std::ptr::null_mut();
        call!(self.context.runtime, graph_instantiate(&mut executable, self.graph, 0))
            .map_err(|e| e.on(self.context.ordinal()))?;
        Ok(Graph { captured: self, executable })
    }
}

impl Graph {
    /// Launches it on a stream of its GPU.
    ///
    /// # Errors
    /// The GPU's driver refuses the call.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        let context = &self.captured.context;
        call!(context.runtime, graph_launch(self.executable, stream.handle()))
            .map_err(|e| e.on(context.ordinal()))
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            let _ = call!(self.context.runtime, graph_destroy(self.graph));
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let context = &self.captured.context;
        if context.enter().is_ok() {
            let _ = call!(context.runtime, graph_exec_destroy(self.executable));
        }
    }
}
