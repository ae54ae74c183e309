//! Verification of messages: sent messages are filled with a pattern, and every received byte is
//! compared.
//! Not timing.

use busbw_core::{
    fault::Phase,
    messages::Messages,
    pattern::{Content, Mismatch, Pattern, derive_seed},
    plan::Sweep,
};

use super::{Task, channel};
use crate::measure::messages::iteration::End;
use crate::{
    backend::{Found, Part, Side},
    measure::{RunError, Session, checks::WrongElements},
};

impl Session<'_> {
    /// Runs `-c` iterations with fresh data each and verifies every byte; ends at the first wrong
    /// one.
    pub(super) fn check_messages(
        &mut self,
        task: &Task,
        seed: u64,
        wrong_elements: &mut WrongElements,
    ) -> Result<(), RunError> {
        let apart = self.apart(task);
        for number in 1..=u64::from(self.plan.checks(task.iterations)) {
            let seed = derive_seed(seed, u64::MAX - number);
            self.fill_messages(task, seed, apart)?;
            self.world.barrier(self.deadline())?;
            self.enter(Phase::Verify);
            let (test, end) = (task.test, task.end);
            if task.paired {
                end.talk(test, channel(self.backend)?, apart)?;
            }
            channel(self.backend)?.quiesce()?;
            let found = self.verify_messages(task, seed, apart, Phase::Verify)?;
            self.collect(&found, &format!("check {number}"), wrong_elements)?;
            if wrong_elements.wrong_anywhere > 0 {
                break;
            }
        }
        Ok(())
    }

    /// How many messages of a window have a part of the buffers of their own. Where several share
    /// one, the last of them is verified.
    pub(super) fn apart(&self, task: &Task) -> usize {
        let window = if task.test.is_latency() { 1 } else { task.end.window as usize };
        let room = self.plan.data_bytes() / task.bytes.max(1);
        room.clamp(1, window)
    }

    fn pattern(&self, task: &Task, seed: u64) -> Pattern {
        let Sweep { datatype, op, .. } = task.sweep;
        Pattern { seed, datatype, op, ranks: self.plan.ranks() }
    }

    /// Whether our end receives messages that can be verified. The end that begins fetches what it reads.
    fn receives(&self, task: &Task) -> bool {
        let fetches = self.plan.fetches();
        let receives = match task.test {
            Messages::Bandwidth | Messages::MultiBandwidth => task.end.begins == fetches,
            Messages::Latency | Messages::MultiLatency => task.end.begins || !fetches,
            Messages::BiBandwidth => true,
        };
        task.paired && receives
    }

    /// Fills the `apart` messages that we send, and writes poison where we receive.
    pub(in crate::measure) fn fill_messages(
        &mut self,
        task: &Task,
        seed: u64,
        apart: usize,
    ) -> Result<(), RunError> {
        let (pattern, me) = (self.pattern(task, seed), self.world.rank());
        let whole = |side| End { bytes: task.bytes * apart, ..task.end }.message(side);
        let channel = channel(self.backend)?;
        channel.fill(whole(Side::Send), &pattern, Content::Copied { source: me, first: 0 })?;
        channel.fill(whole(Side::Recv), &pattern, Content::Poison)?;
        Ok(())
    }

    /// Compares `apart` received messages with what our peer sent.
    pub(in crate::measure) fn verify_messages(
        &mut self,
        task: &Task,
        seed: u64,
        apart: usize,
        phase: Phase,
    ) -> Result<Vec<Found>, RunError> {
        if !self.receives(task) {
            return Ok(Vec::new());
        }
        let (pattern, rank) = (self.pattern(task, seed), self.world.rank());
        let corruption = self.corruption(phase);
        let whole = End { bytes: task.bytes * apart, ..task.end }.message(Side::Recv);
        let source = task.end.peer;
        let channel = channel(self.backend)?;
        if let Some((_, element)) = corruption.filter(|_| whole.bytes > 0) {
            let offset = element as usize * task.sweep.datatype.bytes() % whole.bytes;
            channel.corrupt(Part { offset, bytes: 1, ..whole })?;
        }
        let mismatch: Mismatch =
            channel.verify(whole, &pattern, Content::Copied { source, first: 0 })?;
        Ok(vec![Found { rank, mismatch }])
    }
}
