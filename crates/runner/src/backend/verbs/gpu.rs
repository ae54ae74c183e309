//! The GPU whose memory a rank sends from and receives into: the nearest to its port, or the one that was asked for.
//! Not its memory (`buffers`), and not the port.

use std::sync::Arc;

use busbw_core::{exit::Exit, plan::VerbsOptions, record::BufferGpu};
use busbw_ffi::{
    gpu::{Context, Export, Facts},
    search::Environment,
};
use busbw_host::machine::{self, Root};

use crate::backend::buffer_gpus::Gpus;

/// A rank's GPU.
pub(super) struct OwnGpu {
    pub(super) context: Arc<Context>,
    facts: Facts,
    why: String,
}

impl OwnGpu {
    /// That of the rank with number `local` on its host, whose ranks take `ports` in turn.
    ///
    /// # Errors
    /// There is no driver, no such GPU, or no context on it: why, and the exit code.
    pub(super) fn take(
        options: &VerbsOptions,
        ports: &[&str],
        local: usize,
    ) -> Result<OwnGpu, (Exit, String)> {
        let impossible = |why: String| (Exit::Impossible, format!("memory of GPUs: {why}"));
        let gpus = Gpus::find(&Environment::of_process()).map_err(impossible)?;
        let all = (0..gpus.count).map(|ordinal| gpus.take(ordinal));
        let mut all = all.collect::<Result<Vec<_>, _>>().map_err(impossible)?;
        let (at, why) = match options.gpu.map(usize::from) {
            Some(asked) if asked < all.len() => (asked, "asked for".to_owned()),
            Some(asked) => {
                return Err(impossible(format!(
                    "there is no GPU {asked}: this process sees {} (--use_cuda, CUDA_VISIBLE_DEVICES)",
                    all.len()
                )));
            }
            None => {
                let addresses: Vec<&str> =
                    all.iter().map(|gpu| gpu.facts.address.as_str()).collect();
                let nearest = machine::nearest_gpu(&Root::system(), ports, &addresses, local);
                let none = || impossible("this process sees no GPU".to_owned());
                let (at, proximity) = nearest.ok_or_else(none)?;
                let port = ports.get(local % ports.len().max(1)).copied().unwrap_or_default();
                (at, format!("the nearest to {port}, {proximity}"))
            }
        };
        let gpu = all.swap_remove(at);
        let context =
            Context::take(gpu.runtime, at).map_err(|error| impossible(error.to_string()))?;
        Ok(OwnGpu { context: Arc::new(context), facts: gpu.facts, why })
    }

    /// As the record has it, with the memory of both buffers exported so.
    pub(super) fn facts(&self, [send, recv]: [Export; 2]) -> BufferGpu {
        let export = match send == recv {
            true => send.name().to_owned(),
            false => format!("{} to send, {} to receive", send.name(), recv.name()),
        };
        BufferGpu {
            ordinal: usize::try_from(self.facts.ordinal).unwrap_or(0),
            address: self.facts.address.clone(),
            name: self.facts.name.clone(),
            export,
            why: self.why.clone(),
        }
    }
}
