//! Timeouts of the supervisor: ranks that do not join, that stay stopped, or that do not exit.
//! Not a rank's own deadline (-T), which the rank reports.

use std::time::Instant;

use busbw_core::{exit::Exit, record::Status};

use busbw_job::heartbeat::STOPPED_TIMEOUT;

use super::{JOIN_TIMEOUT, Launch, SUSPENDED_THRESHOLD};

impl Launch<'_> {
    /// Ends the run, or kills ranks, whose timeouts have expired.
    pub(super) fn on_time(&mut self) {
        let now = Instant::now();
        let slept = now.duration_since(std::mem::replace(&mut self.last_check, now));
        if slept >= SUSPENDED_THRESHOLD {
            // Ctrl-Z stops this process together with the ranks: that time does not count.
            self.join_deadline += slept;
            for since in self.processes.iter_mut().filter_map(|p| p.stopped.as_mut()) {
                *since = now;
            }
        }
        self.check_stopped_workers(now);
        if self.late.as_ref().is_some_and(|late| now >= late.due) {
            self.end_for_missed_deadlines();
        }
        if self.loss.as_ref().is_some_and(|loss| now >= loss.due)
            && let Some(loss) = self.loss.take()
        {
            self.end(Status::Failed, Exit::RankLost, loss.text);
        }
        if !self.begun && now >= self.join_deadline {
            let missing = (0..self.plan.rank_threads())
                .filter(|rank_thread| self.facts[*rank_thread].is_none());
            let text = format!(
                "{} did not join within {} s",
                self.describe_ranks(missing),
                JOIN_TIMEOUT.as_secs()
            );
            self.end(Status::Failed, Exit::Timeout, text);
        }
        let stopped = self.processes.iter().position(|p| {
            p.running && p.stopped.is_some_and(|since| now.duration_since(since) >= STOPPED_TIMEOUT)
        });
        if let Some(process) = stopped {
            let has = if self.holds_one(process) { "has" } else { "have" };
            let text = format!(
                "{} {has} been stopped for {} s {}; the other ranks were ended. Continue a stopped process with kill -CONT",
                self.describe_process(process),
                STOPPED_TIMEOUT.as_secs(),
                self.progress_of_process(process)
            );
            self.end(Status::Failed, Exit::RankLost, text);
        }
        let Some(kill_at) = self.kill_at else { return };
        let exit = self.ending.as_ref().map_or(Exit::Internal, |ending| ending.exit);
        // A stopped process cannot exit by itself: it is killed at once.
        for process in self.processes.iter_mut().filter(|p| p.running) {
            if now >= kill_at || process.stopped.is_some() {
                process.kill(exit);
            }
        }
    }
}
