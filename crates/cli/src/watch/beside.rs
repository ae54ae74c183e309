//! What a job's speeds are held against: an earlier run, and what the hardware allows.
//! Not the speeds, and not the limits themselves (`busbw_analysis::explain`).

use anyhow::Result;
use busbw_analysis::explain::{Hardware, explained};
use busbw_core::{
    exit::{Exit, ExitError},
    record::Figures,
};
use busbw_logs::{
    import,
    measurement::{Known, Measurement, Row, Test},
};
use busbw_watch::{Group, Job, Speed, View};

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
            for speed in &mut view.speeds {
                speed.earlier = self.runs.iter().find_map(|run| earlier(run, group, speed));
                let limit = |hardware| limit(job, group, speed, hardware);
                speed.limit = self.hardware.as_ref().and_then(limit);
            }
        }
    }
}

/// The busbw of a run with the same collective and ranks at the nearest size, GB/s; none where that is twice as far.
fn earlier(run: &Measurement, group: &Group, speed: &Speed) -> Option<f64> {
    let same = run.collective() == Some(speed.collective?)
        && run.rank_count() == Some(group.ranks as usize);
    let distance = |size: u64| (size.max(1) as f64 / speed.most.max(1) as f64).ln().abs();
    let nearest = |row: &&Row| distance(row.size) <= std::f64::consts::LN_2 + 1e-9;
    let row = run.rows.iter().filter(|_| same).filter(nearest);
    let row = row.min_by(|a, b| distance(a.size).total_cmp(&distance(b.size)))?;
    run.halves(row).filter_map(|(_, figures)| figures.busbw).reduce(f64::max)
}

/// The limit of a class of calls, GB/s, as `busbw explain` finds it for a run of such a row.
fn limit(job: &Job, group: &Group, speed: &Speed, hardware: &Hardware) -> Option<f64> {
    let figures = Figures {
        time_us: speed.time_us,
        algbw: speed.algbw,
        busbw: speed.busbw,
        ..Figures::default()
    };
    let row = Row { size: speed.most, out_of_place: Some(figures), ..Row::default() };
    let mut hosts: Vec<usize> = group.members.iter().map(|member| member.peer).collect();
    let host = |peer: &usize| job.peers[*peer].process.host.clone();
    hosts.sort_by_key(host);
    hosts.dedup_by_key(|peer| host(peer));
    let nodes = if group.nodes > 0 { group.nodes as usize } else { hosts.len() };
    let run = Measurement {
        test: Test { collective: Some(Known::stated(speed.collective?)), ..Test::default() },
        ranks: Some(Known::stated(group.ranks as usize)),
        hosts: Some(nodes),
        rows: vec![row],
        copies: 1,
        ..Measurement::default()
    };
    let (_, explanations) = explained(vec![run], hardware);
    Some(explanations.into_iter().next()?.limit?.busbw)
}
