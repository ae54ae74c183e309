//! The `host` backend: this machine's memory, by busbw's own collectives. Always available.
//! Not the collectives themselves: those are in `busbw-shm`.

mod channel;
mod factory;

use std::time::Duration;

use busbw_core::{
    Collective,
    algorithm::{Choice, Table},
    plan::{Case, Placement, Plan, Sweep},
};
use busbw_job::world::World;
use busbw_shm::{Buffer, Call, Communicator, Exchange, Messages, Region};

use self::channel::HostChannel;
pub(super) use self::factory::HostFactory;
use super::{
    Backend, BackendError, CaseFacts, Channel, Prepared, Reason, defined,
    in_memory::{Bytes, InMemory, RankMemory},
};
use crate::backend::RunError;

/// The backend as one rank holds it.
#[derive(Debug)]
pub struct Host<'p> {
    plan: &'p Plan,
    world_rank: usize,
    communicator: Communicator,
    channel: Option<HostChannel>,
    /// The collectives whose algorithm table for this machine is missing or incomplete.
    untuned: Vec<Collective>,
}

impl<'p> Host<'p> {
    /// World rank `world_rank`, over its communicator, with the algorithm tables that earlier runs
    /// measured on this host; `messages` where messages are measured.
    pub fn new(
        plan: &'p Plan,
        world_rank: usize,
        mut communicator: Communicator,
        messages: Option<Messages>,
        tables: &[Table],
    ) -> Host<'p> {
        communicator.set_timeout(plan.timeout_s.map(Duration::from_secs));
        let ranks = communicator.size();
        let mut untuned = Vec::new();
        for collective in plan.collectives() {
            let needed = Communicator::tunes_to(collective, ranks, plan.buffer_bytes());
            let fitting = |t: &&Table| {
                (t.collective, t.ranks) == (collective, ranks) && t.measured_to >= needed
            };
            match tables.iter().find(fitting) {
                Some(table) => communicator.set_table(table.clone()),
                None if tunable(collective, ranks) && !untuned.contains(&collective) => {
                    untuned.push(collective);
                }
                None => {}
            }
        }
        let channel = messages.map(|mut messages| {
            messages.set_timeout(plan.timeout_s.map(Duration::from_secs));
            HostChannel(messages)
        });
        Host { plan, world_rank, communicator, channel, untuned }
    }
}

/// Whether a collective has several algorithms for this number of ranks.
fn tunable(collective: Collective, ranks: usize) -> bool {
    collective.moves_data() && collective.allows(ranks)
}

impl Backend for Host<'_> {
    fn supported(&self, case: &Case) -> Result<(), Reason> {
        defined(case.collective, self.communicator.size())
    }

    fn init(&mut self, _: &mut dyn World) -> Result<Vec<Table>, RunError> {
        self.communicator.touch().map_err(BackendError::from)?;
        let mut measured = Vec::new();
        for collective in std::mem::take(&mut self.untuned) {
            let table = self
                .communicator
                .tune(collective, self.plan.buffer_bytes())
                .map_err(BackendError::from)?;
            self.communicator.set_table(table.clone());
            measured.push(table);
        }
        // The smallest buffers hold none of these sizes.
        measured.retain(|table| table.measured_to > 0);
        Ok(measured)
    }

    fn channel(&mut self) -> Result<&mut dyn Channel, Reason> {
        match &mut self.channel {
            Some(channel) => Ok(channel),
            None => Err(Reason("no memory for messages was created".to_owned())),
        }
    }

    fn prepare<'a>(&'a mut self, case: &'a Case) -> Box<dyn Prepared + 'a> {
        let communicator = &mut self.communicator;
        let (me, ranks) = (communicator.rank(), communicator.size());
        let (count, datatype) = (case.counts.param, case.sweep.datatype);
        let exchange =
            Exchange::of(case.collective, &self.plan.traffic, count, datatype, me, ranks);
        let choice = communicator.choice(&call(case, (NOWHERE, NOWHERE), &exchange));
        let memory = SharedBuffers { communicator, choice, exchange };
        Box::new(InMemory::new(self.plan, case, (me, ranks), self.world_rank, memory))
    }
}

/// One rank's part of the shared buffers, and the operation of a case.
struct SharedBuffers<'a> {
    communicator: &'a mut Communicator,
    /// The algorithm of the operations: the same for all, since they are equally large.
    choice: Choice,
    exchange: Exchange,
}

/// The start of the send buffer, for a call that ignores the region.
const NOWHERE: Region = Region { buffer: Buffer::Send, offset: 0, stride: 0 };

/// The `Call` of an operation that sends from and receives to `regions`.
fn call<'a>(case: &Case, (send, recv): (Region, Region), exchange: &'a Exchange) -> Call<'a> {
    let Sweep { datatype, op, root } = case.sweep;
    let (collective, count) = (case.collective, case.counts.param);
    Call { collective, datatype, op, root, count, send, recv, exchange }
}

impl RankMemory for SharedBuffers<'_> {
    #[inline]
    fn run(
        &mut self,
        case: &Case,
        _: Placement,
        send: Region,
        recv: Region,
    ) -> Result<(), BackendError> {
        let call = call(case, (send, recv), &self.exchange);
        self.communicator.run_by(self.choice, &call)?;
        Ok(())
    }

    fn write(&mut self, at: Bytes, fill: impl FnOnce(&mut [u8])) -> Result<(), BackendError> {
        fill(self.communicator.own(at.0, at.1.start, at.1.len()));
        Ok(())
    }

    fn look<T>(&mut self, at: Bytes, look: impl FnOnce(&[u8]) -> T) -> Result<T, BackendError> {
        Ok(look(self.communicator.own(at.0, at.1.start, at.1.len())))
    }

    fn facts(&self, case: &Case) -> CaseFacts {
        let moves = case.collective.moves_data();
        CaseFacts { algorithm: moves.then(|| self.choice.to_string()), predicted_us: None }
    }
}
