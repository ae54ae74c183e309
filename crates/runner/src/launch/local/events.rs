//! What wakes the supervisor, and what it does about it: ranks that join, report or leave, a reader who
//! pauses, signals. Not the ends of processes (`loss`, `guests`) and not time (`patience`).

use std::time::{Duration, Instant};

use anyhow::Result;
use busbw_core::{
    exit::Exit,
    record::{Run, Status},
};
use busbw_job::world::HubEvent;
use rustix::process::WaitStatus;

use super::{Job, Loss, PATIENCE, counting::larger, sharing};
use crate::{
    measure::Report,
    outputs::{Flow, Outputs},
    signals,
};
use busbw_job::rendezvous::News;
use busbw_store as store;

/// What wakes the supervisor.
pub(super) enum Event {
    Hub(HubEvent),
    Child { process: usize, status: WaitStatus },
    Guest { process: usize, news: News },
    Signal(i32),
}

impl From<HubEvent> for Event {
    fn from(event: HubEvent) -> Event {
        Event::Hub(event)
    }
}

impl Job<'_> {
    pub(super) fn on_event(&mut self, event: Event, outputs: &mut Outputs) -> Result<()> {
        match event {
            Event::Hub(event) => self.on_hub(event, outputs)?,
            Event::Child { process, status } => self.on_child(process, status),
            Event::Guest { process, news } => self.on_guest(process, news, outputs),
            Event::Signal(signal) => self.on_signal(signal),
        }
        Ok(())
    }

    fn on_hub(&mut self, event: HubEvent, outputs: &mut Outputs) -> Result<()> {
        match event {
            HubEvent::Joined { rank, facts } => {
                self.facts[rank] = serde_json::from_slice(&facts).ok();
                if !self.begun && self.facts.iter().all(Option::is_some) {
                    self.begun = true;
                    let mut run = Run { counted: self.watch(), ..self.run() };
                    if let Some(remark) = sharing::remark(self.plan, &run.devices) {
                        outputs.say(&remark);
                        run.remarks.push(remark);
                    }
                    let flow = outputs.begin(run)?;
                    self.mind(flow);
                    if let Some(text) = self.disagreement() {
                        self.end(Status::Failed, Exit::Library, text);
                    }
                }
            }
            HubEvent::Report { rank, bytes } => {
                self.on_report(&bytes, outputs)?;
                self.held.push(rank);
            }
            HubEvent::Failed { rank, why } => self.on_failure(rank, &why),
            HubEvent::Left { done: true, .. } => {}
            // Its process's end says more; but one of several threads can be gone alone.
            HubEvent::Left { rank, done: false } => {
                let text = format!("{} broke off {}", self.name(rank), self.place(rank));
                if self.loss.is_none() {
                    self.loss = Some(Loss { due: Instant::now() + 2 * PATIENCE, text });
                }
            }
        }
        Ok(())
    }

    fn on_report(&mut self, bytes: &[u8], outputs: &mut Outputs) -> Result<()> {
        match serde_json::from_slice(bytes) {
            Ok(Report::Row(mut row)) => {
                if row.group == self.plan.colour(0) {
                    row.counters = self.counters.after_row();
                }
                let flow = outputs.row(*row)?;
                self.mind(flow);
            }
            Ok(Report::Progress { index, bytes }) => {
                self.progress = (index, bytes);
                outputs.progress(index, bytes, self.launch);
                self.counters.before_row();
            }
            Ok(Report::Pass { index, bytes, pass, passes }) => {
                if pass == 0 {
                    self.progress = (index, bytes);
                    self.counters.before_row();
                }
                outputs.progress_of_passes(bytes, pass, passes);
            }
            Ok(Report::Measured(table)) => {
                let (name, ranks) = (table.collective.name(), table.ranks);
                self.measured.push(table.clone());
                let kept = store::algorithms::keep(&self.describe.run.machine, table);
                outputs.say(&match kept {
                    Ok(()) => format!("measured which algorithms are fastest for {name} on {ranks} ranks of this machine, once; `busbw algorithms` shows them"),
                    Err(error) => format!("{error:#}; the next run measures them again"),
                });
            }
            Ok(Report::Library(said)) => {
                let flow = outputs.library(said)?;
                self.mind(flow);
            }
            Ok(Report::Finished { peak_bytes, gpu_memory }) => {
                self.peak = self.peak.max(peak_bytes);
                self.gpu_memory = larger(self.gpu_memory, gpu_memory);
            }
            Err(_) => {
                self.end(Status::Failed, Exit::Internal, "a rank's report is garbled".to_owned())
            }
        }
        Ok(())
    }

    /// Lets ranks go on whose rows have been written: writing must not fall into the next batch, nor
    /// rows pile up while nobody reads them.
    pub(super) fn on_reader(&mut self, outputs: &mut Outputs) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let flow = outputs.settle(Duration::ZERO)?;
        self.mind(flow);
        if flow != Flow::Held {
            self.held.drain(..).for_each(|rank| self.hub.taken(rank));
        }
        Ok(())
    }

    fn mind(&mut self, flow: Flow) {
        if flow == Flow::ReaderGone {
            self.end_quietly(Status::ReaderGone, Exit::Ok);
        }
    }

    fn on_signal(&mut self, signal: i32) {
        if self.ending.is_some() {
            // The second Ctrl-C: no more patience.
            self.kill_at = Some(Instant::now());
        }
        let text = format!("interrupted by {}", signals::signal_name(signal));
        self.end(Status::Interrupted, Exit::Interrupted, text);
    }
}
