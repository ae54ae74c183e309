//! Which ranks a message is about, and where they were last.
//! Not why the message is said.

use model::fault::Phase;

use super::Job;

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
        let drivers = self.plan.drivers_of(process);
        drivers.flat_map(|driver| self.plan.ranks_of(driver)).collect()
    }

    /// The same for a process.
    pub(super) fn name_process(&self, process: usize) -> String {
        let ranks = self.ranks_of(process);
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        let ours = &self.describe.run.machine.host;
        let (pid, host) = self.processes.get(process).map_or((0, ours), |p| (p.pid, &p.host));
        format!("{word} {} (process {pid} on {host})", list(&ranks))
    }

    /// Where the drivers of a process were last; which of their ranks, where they were not all at one
    /// place.
    pub(super) fn places(&self, process: usize) -> String {
        let mut places: Vec<(String, Vec<usize>)> = Vec::new();
        for driver in self.plan.drivers_of(process) {
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
                .map(|(place, ranks)| format!("{place} ({})", list(ranks)))
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
        let (step, row) = self.control.place(driver);
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

/// "0, 1, 2".
pub(super) fn list(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
