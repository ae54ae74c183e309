//! What follows from time alone: ranks that do not join, that stay stopped, or that do not end.
//! Not what a rank's own deadline (-T) finds: it says so itself.

use std::time::Instant;

use busbw_core::{exit::Exit, record::Status};

use super::{ASLEEP, JOIN, Job, STOPPED};

impl Job<'_> {
    /// What follows from time alone.
    pub(super) fn on_time(&mut self) {
        let now = Instant::now();
        let slept = now.duration_since(std::mem::replace(&mut self.looked, now));
        if slept >= ASLEEP {
            // Ctrl-Z stops us together with the ranks; none of that time counts against them.
            self.join_by += slept;
            for since in self.processes.iter_mut().filter_map(|p| p.stopped.as_mut()) {
                *since = now;
            }
        }
        self.look_at_guests(now);
        if self.late.as_ref().is_some_and(|late| now >= late.due) {
            self.end_for_lateness();
        }
        if self.loss.as_ref().is_some_and(|loss| now >= loss.due)
            && let Some(loss) = self.loss.take()
        {
            self.end(Status::Failed, Exit::RankLost, loss.text);
        }
        if !self.begun && now >= self.join_by {
            let missing =
                (0..self.plan.rank_threads()).filter(|driver| self.facts[*driver].is_none());
            let text =
                format!("{} did not join within {} s", self.name_all(missing), JOIN.as_secs());
            self.end(Status::Failed, Exit::Timeout, text);
        }
        let stopped = self.processes.iter().position(|p| {
            p.running && p.stopped.is_some_and(|since| now.duration_since(since) >= STOPPED)
        });
        if let Some(process) = stopped {
            let has = if self.holds_one(process) { "has" } else { "have" };
            let text = format!(
                "{} {has} been stopped for {} s {}; the other ranks were stopped as well. kill -CONT lets a stopped process go on",
                self.name_process(process),
                STOPPED.as_secs(),
                self.places(process)
            );
            self.end(Status::Failed, Exit::RankLost, text);
        }
        let Some(kill_at) = self.kill_at else { return };
        let exit = self.ending.as_ref().map_or(Exit::Internal, |ending| ending.exit);
        // A stopped process cannot end by itself: there is nothing to wait for.
        for process in self.processes.iter_mut().filter(|p| p.running) {
            if now >= kill_at || process.stopped.is_some() {
                process.kill(exit);
            }
        }
    }
}
