//! The `verbs` backend: messages over RDMA devices, by perftest's loops, from the host's memory or a GPU's; no NCCL.
//! Not libibverbs (`busbw_verbs`), not which device (`busbw_host`), and not who starts the ranks.

mod buffers;
mod channel;
mod connection_manager;
mod exchange;
mod factory;
mod foreign_traffic;
mod gpu;
mod join;
mod libraries;
mod no_collectives;
mod pair;
mod ping_pong;
mod port;
mod signals;
mod wait;

use std::{collections::BTreeMap, sync::Arc};

use busbw_core::{
    algorithm::Table,
    plan::{Case, Plan, VerbsOptions},
    record::{LibraryFacts, VerbsFacts},
};
use busbw_job::world::World;
use busbw_verbs::Device;

use self::{
    buffers::Buffers, connection_manager::Connected, gpu::OwnGpu, no_collectives::NoCollectives,
    pair::Pair, port::OpenPort,
};
use super::{Backend, Channel, Prepared, Reason, RunError};

pub(super) use factory::VerbsFactory;
pub use libraries::Wanted;

/// The backend as one rank holds it.
pub struct Verbs<'p> {
    plan: &'p Plan,
    options: VerbsOptions,
    world_rank: usize,
    /// The connections, by the other end's world rank.
    pairs: BTreeMap<usize, Pair>,
    buffers: Buffers,
    device: Arc<Device>,
    /// Largest message of the port, in bytes.
    most: usize,
    /// Largest payload of a packet, in bytes.
    mtu: u32,
    facts: Option<VerbsFacts>,
    /// What the connection manager has connected.
    _connected: Option<Connected>,
    /// Polls without a yield.
    polls: u32,
    /// Whether the supervisor has aborted the run.
    stopped: Box<dyn Fn() -> bool + 'p>,
}

impl Backend for Verbs<'_> {
    fn supported(&self, _: &Case) -> Result<(), Reason> {
        Err(Reason("RDMA moves messages between pairs of ranks, no collectives".to_owned()))
    }

    fn init(&mut self, _: &mut dyn World) -> Result<Vec<Table>, RunError> {
        Ok(Vec::new())
    }

    fn is_known_at_once(&self) -> bool {
        true
    }

    fn library(&mut self) -> Option<LibraryFacts> {
        self.facts.take().map(|facts| LibraryFacts::Verbs(facts.into()))
    }

    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        Ok(self)
    }

    fn prepare<'a>(&'a mut self, _: &'a Case) -> Box<dyn Prepared + 'a> {
        Box::new(NoCollectives)
    }
}
