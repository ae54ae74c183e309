//! Describes ranks in messages: their numbers, process and host, and the phase that they were in.
//! Not the messages.

use busbw_core::fault::Phase;

use super::Launch;
use busbw_job::naming;

impl Launch<'_> {
    /// "rank 1 (process 4242 on node7)": all ranks of the process of this rank thread.
    pub(super) fn describe_process_of(&self, rank_thread: usize) -> String {
        self.describe_process(self.plan.process(rank_thread))
    }

    /// Whether a process runs one rank only.
    pub(super) fn holds_one(&self, process: usize) -> bool {
        self.ranks_of(process).len() == 1
    }

    fn ranks_of(&self, process: usize) -> Vec<usize> {
        let rank_threads = self.plan.rank_threads_of(process);
        rank_threads.flat_map(|rank_thread| self.plan.ranks_of(rank_thread)).collect()
    }

    /// "ranks 1, 5 (process 4242 on node7)": all ranks of a process.
    pub(super) fn describe_process(&self, process: usize) -> String {
        let ranks = naming::ranks(&self.ranks_of(process));
        let ours = &self.describe.run.machine.host;
        let (pid, host) = self.processes.get(process).map_or((0, ours), |p| (p.pid, &p.host));
        format!("{ranks} (process {pid} on {host})")
    }

    /// "ranks 3, 4 on node7, rank 9 on node8": all ranks of these rank threads.
    pub(super) fn describe_ranks(&self, rank_threads: impl Iterator<Item = usize>) -> String {
        naming::placed(rank_threads.flat_map(|rank_thread| {
            let host = self.processes.get(self.plan.process(rank_thread)).map_or("?", |p| &p.host);
            self.plan.ranks_of(rank_thread).map(move |rank| (rank, host))
        }))
    }

    /// The last phase of a process's rank threads; with their ranks, if the phases differ.
    pub(super) fn progress_of_process(&self, process: usize) -> String {
        let mut phases: Vec<(String, Vec<usize>)> = Vec::new();
        for rank_thread in self.plan.rank_threads_of(process) {
            let place = self.progress_of(rank_thread);
            match phases.iter_mut().find(|(known, _)| *known == place) {
                Some((_, ranks)) => ranks.extend(self.plan.ranks_of(rank_thread)),
                None => phases.push((place, self.plan.ranks_of(rank_thread).collect())),
            }
        }
        match phases.as_slice() {
            [(place, _)] => place.clone(),
            several => several
                .iter()
                .map(|(place, ranks)| format!("{place} ({})", naming::list(ranks)))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// The last phase and row of a rank thread.
    pub(super) fn progress_of(&self, rank_thread: usize) -> String {
        if self.apart && self.plan.process(rank_thread) > 0 {
            // It records its phase in its own control memory.
            return match (self.begun, self.progress) {
                (false, _) => "before the first row".to_owned(),
                (true, (row, bytes)) => format!("about row {row} ({bytes} bytes)"),
            };
        }
        let (step, row) = self.control.progress(rank_thread);
        let row = match self.progress {
            (index, bytes) if index == u64::from(row) => format!("{row} ({bytes} bytes)"),
            _ => row.to_string(),
        };
        let phase = (step as usize).checked_sub(1).and_then(|at| Phase::ALL.get(at));
        match phase {
            None => "before the first row".to_owned(),
            Some(Phase::Start) => "at the start".to_owned(),
            Some(Phase::Warmup) => format!("while warming up before row {row}"),
            Some(Phase::Timed) => format!("while timing row {row}"),
            Some(Phase::Verify) => format!("while verifying row {row}"),
            Some(Phase::End) => "at the end".to_owned(),
        }
    }
}
