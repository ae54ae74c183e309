//! One rank of a communicator: created, checked, aborted, destroyed.
//! Not its operations (`operation`).

use std::{ffi::c_int, sync::Arc};

use super::{
    config::{Config, RawConfig},
    library::{Nccl, NcclError, call},
    table::{Handle, RawId},
};
use crate::gpu::Context;

/// The unique id by which the ranks of a communicator find each other: 128 bytes that one rank
/// creates and distributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniqueId(pub [u8; 128]);

impl UniqueId {
    /// Creates one. The process that creates it must live until every rank has joined.
    ///
    /// # Errors
    /// There is no network interface to listen on.
    pub fn make(nccl: &Nccl) -> Result<UniqueId, NcclError> {
        let mut id = RawId([0; 128]);
        call!(nccl, unique_id(&mut id))?;
        Ok(UniqueId(id.0))
    }

    /// From the bytes that another rank distributed.
    pub fn from_bytes(bytes: &[u8]) -> Option<UniqueId> {
        bytes.try_into().ok().map(UniqueId)
    }
}

/// The state of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// No operation has failed.
    Well,
    /// An enqueued operation has failed.
    Failed(NcclError),
}

/// ncclInProgress: an asynchronous call is not done yet.
const IN_PROGRESS: c_int = 7;

/// One rank of a communicator.
#[derive(Debug)]
pub struct Communicator {
    pub(super) nccl: &'static Nccl,
    pub(super) context: Arc<Context>,
    pub(super) handle: Handle,
    rank: usize,
    ranks: usize,
}

// SAFETY: a communicator may be used from any one thread at a time.
unsafe impl Send for Communicator {}

impl Communicator {
    /// Joins the ranks of this thread, as (GPU, rank): all of them in one group, so that none waits
    /// for a later one. Returns when every rank of the communicator has joined.
    ///
    /// # Errors
    /// NCCL refuses the call.
    pub fn join(
        nccl: &'static Nccl,
        id: UniqueId,
        ranks: usize,
        mine: &[(Arc<Context>, usize)],
        config: &Config,
    ) -> Result<Vec<Communicator>, NcclError> {
        let mut raw = RawConfig::new(config, nccl.version().0);
        let mut handles = vec![std::ptr::null_mut(); mine.len()];
        nccl.group_start()?;
        let mut joined = Ok(());
        for ((context, rank), handle) in mine.iter().zip(&mut handles) {
            joined = joined.and_then(|()| {
                context.enter().map_err(|error| NcclError {
                    call: "ncclCommInitRankConfig",
                    code: -1,
                    text: error.to_string(),
                    last: String::new(),
                })?;
                let (ranks, rank) = (ranks as c_int, *rank as c_int);
                call!(nccl, init_rank_config(handle, ranks, RawId(id.0), rank, raw.as_mut_ptr()))
            });
        }
        // The group must end, even after an error.
        let ended = nccl.group_end();
        joined.and(ended)?;
        Ok(mine
            .iter()
            .zip(handles)
            .map(|((context, rank), handle)| Communicator {
                nccl,
                context: Arc::clone(context),
                handle,
                rank: *rank,
                ranks,
            })
            .collect())
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The context of its GPU.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Whether an enqueued operation has failed.
    ///
    /// # Errors
    /// NCCL cannot report the state.
    pub fn progress(&self) -> Result<Progress, NcclError> {
        let mut code = 0;
        call!(self.nccl, async_error(self.handle, &mut code))?;
        Ok(match code {
            0 | IN_PROGRESS => Progress::Well,
            code => Progress::Failed(self.nccl.error("an enqueued operation", code)),
        })
    }

    /// Aborts it: enqueued operations end, and no more can be enqueued.
    pub fn abort(&mut self) {
        let handle = std::mem::replace(&mut self.handle, std::ptr::null_mut());
        if !handle.is_null() {
            let _ = call!(self.nccl, abort(handle));
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.handle.is_null() && self.context.enter().is_ok() {
            let _ = call!(self.nccl, destroy(self.handle));
        }
    }
}
