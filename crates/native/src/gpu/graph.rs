//! A graph: operations captured once and launched as one.
//! Not the capture (`stream`).

use std::sync::Arc;

use super::{
    context::Context,
    runtime::{GpuError, call},
    stream::Stream,
    table::Handle,
};

/// A graph that can be launched.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    graph: Handle,
    executable: Handle,
}

// SAFETY: a graph may be launched from any thread.
unsafe impl Send for Graph {}

impl Graph {
    pub(super) fn instantiate(context: &Arc<Context>, graph: Handle) -> Result<Graph, GpuError> {
        let mut made = Graph { context: Arc::clone(context), graph, executable: graph };
        let mut executable = std::ptr::null_mut();
        let result = call!(context.runtime, graph_instantiate(&mut executable, graph, 0))
            .map_err(|e| e.on(context.ordinal()));
        made.executable = executable;
        result.map(|()| made)
    }

    /// Launches it on a stream of its GPU.
    ///
    /// # Errors
    /// [`GpuError`].
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        call!(self.context.runtime, graph_launch(self.executable, stream.handle()))
            .map_err(|e| e.on(self.context.ordinal()))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            if !self.executable.is_null() {
                let _ = call!(self.context.runtime, graph_exec_destroy(self.executable));
            }
            let _ = call!(self.context.runtime, graph_destroy(self.graph));
        }
    }
}
