//! Which ranks a message is about, and where they were last.
//! Not why the message is said.

use busbw_core::fault::Phase;

use super::Job;
use busbw_job::naming;

impl Job<'_> {
    /// "rank 1 (process 4242 on node7)"; all ranks of the process that holds this driver.
    pub(super) fn name(&self, driver: usize) -> String {
        self.name_process(self.plan.process(driver))
    }

    /// Whether a process holds one rank only.
    pub(super) fn holds_one(&self, process: usize) -> bool {
        self.ranks_of(process).len() == 1
    }

    fn ranks_of(&self, process: usize) -> Vec<usize> {
        let drivers = self.plan.rank_threads_of(process);
        drivers.flat_map(|driver| self.plan.ranks_of(driver)).collect()
    }

    /// The same for a process.
    pub(super) fn name_process(&self, process: usize) -> String {
        let ranks = naming::ranks(&self.ranks_of(process));
        let ours = &self.describe.run.machine.host;
        let (pid, host) = self.processes.get(process).map_or((0, ours), |p| (p.pid, &p.host));
        format!("{ranks} (process {pid} on {host})")
    }

    /// "ranks 3, 4 on node7, rank 9 on node8": all ranks of these drivers.
    pub(super) fn name_all(&self, drivers: impl Iterator<Item = usize>) -> String {
        naming::placed(drivers.flat_map(|driver| {
            let host = self.processes.get(self.plan.process(driver)).map_or("?", |p| &p.host);
            self.plan.ranks_of(driver).map(move |rank| (rank, host))
        }))
    }

    /// Where the drivers of a process were last; which of their ranks, where they were not all at one
    /// place.
    pub(super) fn places(&self, process: usize) -> String {
        let mut places: Vec<(String, Vec<usize>)> = Vec::new();
        for driver in self.plan.rank_threads_of(process) {
            let place = self.place(driver);
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, ranks)) => ranks.extend(self.plan.ranks_of(driver)),
                None => places.push((place, self.plan.ranks_of(driver).collect())),
            }
        }
        match places.as_slice() {
            [(place, _)] => place.clone(),
            several => several
                .iter()
                .map(|(place, ranks)| format!("{place} ({})", naming::list(ranks)))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// Where a driver was last.
    pub(super) fn place(&self, driver: usize) -> String {
        if self.apart && self.plan.process(driver) > 0 {
            // It notes that in its own memory.
            return match (self.begun, self.progress) {
                (false, _) => "before the first row".to_owned(),
                (true, (row, bytes)) => format!("about row {row} ({bytes} bytes)"),
            };
        }
        let (step, row) = self.control.progress(driver);
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
