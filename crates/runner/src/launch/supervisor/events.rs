//! The supervisor's events, and what it does about them: ranks that join, report or leave, a reader of stdout that
//! pauses, signals.
//! Not the exits of processes (`loss`, `workers`), and not timeouts (`timeouts`).

use std::time::{Duration, Instant};

use anyhow::Result;
use busbw_core::{
    exit::Exit,
    record::{Run, Status},
};
use busbw_job::world::HubEvent;
use rustix::process::WaitStatus;

use super::{LOSS_DELAY, Launch, PendingLoss, counting::larger, sharing};
use crate::{
    measure::Report,
    outputs::{Flow, Outputs},
    signals,
};
use busbw_job::rendezvous::WorkerEvent;
use busbw_store as store;

/// An event that wakes the supervisor.
pub(super) enum Event {
    Hub(HubEvent),
    Child { process: usize, status: WaitStatus },
    Worker { process: usize, event: WorkerEvent },
    Signal(i32),
}

impl From<HubEvent> for Event {
    fn from(event: HubEvent) -> Event {
        Event::Hub(event)
    }
}

impl Launch<'_> {
    pub(super) fn on_event(&mut self, event: Event, outputs: &mut Outputs) -> Result<()> {
        match event {
            Event::Hub(event) => self.on_hub(event, outputs)?,
            Event::Child { process, status } => self.on_child(process, status),
            Event::Worker { process, event } => self.on_worker(process, event, outputs),
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
                        outputs.remark(&remark);
                        run.remarks.push(remark);
                    }
                    let flow = outputs.begin(run)?;
                    self.handle_flow(flow);
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
            // The exit of its process tells more, but one of several threads can end alone.
            HubEvent::Left { rank, done: false } => {
                let text = format!(
                    "{} closed its connection to the supervisor {}",
                    self.describe_process_of(rank),
                    self.progress_of(rank)
                );
                if self.loss.is_none() {
                    self.loss = Some(PendingLoss { due: Instant::now() + 2 * LOSS_DELAY, text });
                }
            }
        }
        Ok(())
    }

    fn on_report(&mut self, bytes: &[u8], outputs: &mut Outputs) -> Result<()> {
        match Report::from_bytes(bytes) {
            Ok(Report::Row(mut row)) => {
                self.write_waiting_row(outputs)?;
                if row.group == self.plan.colour(0) {
                    row.counters = self.counters.after_row();
                    self.ask_other_hosts(Some(row));
                } else {
                    let flow = outputs.row(*row)?;
                    self.handle_flow(flow);
                }
            }
            Ok(Report::Progress { index, bytes }) => {
                self.progress = (index, bytes);
                self.write_waiting_row(outputs)?;
                outputs.progress(bytes, self.launch);
                self.counters.before_row();
                self.ask_other_hosts(None);
            }
            Ok(Report::Within { share }) => outputs.progress_within(share),
            Ok(Report::Pass { index, bytes, pass, passes }) => {
                if pass == 0 {
                    self.progress = (index, bytes);
                    self.write_waiting_row(outputs)?;
                    self.counters.before_row();
                    self.ask_other_hosts(None);
                }
                outputs.progress_of_passes(index, bytes, pass, passes);
            }
            Ok(Report::Measured(table)) => {
                let (name, ranks) = (table.collective.name(), table.ranks);
                self.measured.push(table.clone());
                let kept = store::algorithms::keep(&self.describe.run.machine, table);
                outputs.remark(&match kept {
                    Ok(()) => format!("measured once which algorithms are fastest for {name} on {ranks} ranks of this machine; `busbw algorithms` prints them"),
                    Err(error) => format!("{error:#}; the next run measures them again"),
                });
            }
            Ok(Report::Library(said)) => {
                let flow = outputs.library(said)?;
                self.handle_flow(flow);
            }
            Ok(Report::Finished { peak_bytes, gpu_memory }) => {
                self.peak = self.peak.max(peak_bytes);
                self.gpu_memory = larger(self.gpu_memory, gpu_memory);
            }
            Err(_) => {
                self.end(Status::Failed, Exit::Internal, "cannot parse a rank's report".to_owned())
            }
        }
        Ok(())
    }

    /// Acknowledges the reports of ranks whose rows have been written: writing must not overlap the next batch,
    /// and rows must not pile up while the reader of stdout pauses.
    pub(super) fn on_reader(&mut self, outputs: &mut Outputs) -> Result<()> {
        if self.other_hosts_are_missing() {
            return Ok(());
        }
        self.write_waiting_row(outputs)?;
        if self.held.is_empty() {
            return Ok(());
        }
        let flow = outputs.settle(Duration::ZERO)?;
        self.handle_flow(flow);
        if flow != Flow::Held {
            self.held.drain(..).for_each(|rank| self.hub.taken(rank));
        }
        Ok(())
    }

    /// Writes the row that waited for other hosts' counters, with those that have come.
    pub(super) fn write_waiting_row(&mut self, outputs: &mut Outputs) -> Result<()> {
        if let Some(row) = self.row_of_all_hosts() {
            let flow = outputs.row(row)?;
            self.handle_flow(flow);
        }
        Ok(())
    }

    fn handle_flow(&mut self, flow: Flow) {
        if flow == Flow::ReaderGone {
            self.end_quietly(Status::ReaderGone, Exit::Ok);
        }
    }

    fn on_signal(&mut self, signal: i32) {
        if self.ending.is_some() {
            // The second Ctrl-C: kill at once.
            self.kill_at = Some(Instant::now());
        }
        let when = match (self.begun, self.progress) {
            (false, _) => " while ranks were starting: nothing was measured",
            (true, (0, _)) if self.launch == 0 => " while the first row was measured",
            _ => "",
        };
        let text = format!("interrupted by {}{when}", signals::signal_name(signal));
        self.end(Status::Interrupted, Exit::Interrupted, text);
    }
}
