//! What a job's speeds are held against: an earlier run, and what the hardware allows.
//! Not the speeds, and not how either is found (`busbw_analysis::job_speeds`).

use anyhow::Result;
use busbw_analysis::{
    explain::Hardware,
    job_speeds::{earlier, limit},
};
use busbw_core::exit::{Exit, ExitError};
use busbw_logs::{import, measurement::Measurement};
use busbw_watch::{Job, View};

use crate::{options::WatchArguments, sources};

/// Both, as far as they were named.
pub(super) struct Beside {
    hardware: Option<Hardware>,
    runs: Vec<Measurement>,
}

impl Beside {
    /// Reads `--machine` and `--against`.
    ///
    /// # Errors
    /// Either cannot be read.
    pub(super) fn read(arguments: &WatchArguments) -> Result<Self> {
        let usage = |text: String| ExitError::new(Exit::Usage, text);
        let hardware = arguments
            .machine
            .as_deref()
            .map(|word| Hardware::read(Some(word), None))
            .transpose()
            .map_err(|error| usage(error.to_string()))?;
        let mut runs = Vec::new();
        if let Some(word) = &arguments.against {
            let path = sources::find_one(word)?;
            let read = import::read_path(&path).map_err(|error| usage(error.to_string()))?;
            runs = read.measurements;
            if runs.is_empty() {
                return Err(usage(format!("--against {}: it has no rows", path.display())).into());
            }
        }
        Ok(Self { hardware, runs })
    }

    /// Puts limits and the earlier run's figures beside the speeds.
    pub(super) fn fill(&self, job: &Job, view: &mut View) {
        for (group, view) in job.groups.iter().zip(&mut view.groups) {
            let hosts = job.hosts_of(group);
            for speed in &mut view.speeds {
                speed.earlier = self.runs.iter().find_map(|run| earlier(run, group.ranks, speed));
                let limit = |hardware| limit(group.ranks, hosts, speed, hardware);
                speed.limit = self.hardware.as_ref().and_then(limit);
            }
        }
    }
}
