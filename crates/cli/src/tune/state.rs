//! The file of a tuning under way: saved after every trial, so that an interrupted one goes on where it was.
//! Not its result (`busbw_tune::tuned`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use busbw_core::{
    exit::{Exit, ExitError},
    finding::Finding,
};
use busbw_runner::outputs;
use busbw_store as store;
use busbw_tune::{
    Assignment, Search,
    catalogue::Waived,
    tuned::{Part, SCHEMA, Tuned, TunedLaunch},
};
use serde::{Deserialize, Serialize};

use super::{basis::Basis, by_call::Way};
use crate::options::TuneArguments;

/// The file's name in a folder of the user's.
const FILE: &str = "tune.json";

/// A tuning under way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    tune_schema: u32,
    pub(super) busbw: String,
    pub(super) started: String,
    /// The command line without the program, secrets masked.
    pub(super) args: Vec<String>,
    pub(super) backend: String,
    pub(super) ranks: usize,
    pub(super) nccl: Option<String>,
    /// Seconds of the first launch.
    pub(super) first_s: f64,
    pub(super) is_ladder: bool,
    pub(super) parts: Vec<Part>,
    pub(super) before: Vec<Finding>,
    pub(super) variables_left_out: Vec<Waived>,
    pub(super) rungs_left_out: Vec<Waived>,
    /// The search for an environment.
    pub(super) search: Search,
    /// The search for the best of each call within that environment.
    pub(super) by_call: Option<Search>,
    /// How its calls are told; absent in files of earlier versions.
    #[serde(default)]
    pub(super) way: Option<Way>,
    /// The file of what is best by call.
    pub(super) tuner_file: String,
    /// The comparison of environment and file with the defaults.
    pub(super) with_file: Option<Search>,
    pub(super) file_settings: Vec<Assignment>,
    pub(super) remains: Vec<String>,
    /// Nodes of the first communicator, where NCCL's log says so.
    pub(super) nodes: Option<u32>,
    pub(super) interrupted: bool,
    /// What it depends on; absent in files of earlier versions.
    #[serde(default)]
    pub(super) basis: Option<Basis>,
}

impl State {
    /// A tuning that begins with `search`.
    pub(super) fn new(search: Search, args: Vec<String>, is_ladder: bool) -> State {
        State {
            tune_schema: SCHEMA,
            busbw: env!("CARGO_PKG_VERSION").to_owned(),
            started: store::local_time::now(),
            args,
            backend: String::new(),
            ranks: 0,
            nccl: None,
            first_s: 0.0,
            is_ladder,
            parts: Vec::new(),
            before: Vec::new(),
            variables_left_out: Vec::new(),
            rungs_left_out: Vec::new(),
            search,
            by_call: None,
            way: None,
            tuner_file: String::new(),
            with_file: None,
            file_settings: Vec::new(),
            remains: Vec::new(),
            nodes: None,
            interrupted: false,
            basis: None,
        }
    }

    /// Reads one that was interrupted.
    ///
    /// # Errors
    /// The file cannot be read, is none, or is of another busbw's form.
    pub(super) fn read(path: &Path) -> Result<State> {
        let refused = |why: String| {
            let text = format!("--resume {}: {why}", path.display());
            ExitError::new(Exit::Usage, text)
        };
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        let state: State = serde_json::from_str(&text)
            .map_err(|error| refused(format!("it is no tuning under way: {error}")))?;
        if state.tune_schema != SCHEMA {
            let theirs = state.tune_schema;
            return Err(
                refused(format!("it has form {theirs}, and this busbw reads {SCHEMA}")).into()
            );
        }
        if state.args.iter().any(|word| word.contains("***")) {
            let why = "its command line had a secret, which is not kept: begin anew";
            return Err(refused(why.to_owned()).into());
        }
        Ok(state)
    }

    /// Writes it to `path`, which only this user can read.
    ///
    /// # Errors
    /// The path cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).context("cannot write the tuning as JSON")?;
        store::write_private(path, (text + "\n").as_bytes())
            .with_context(|| format!("cannot write the tuning to {}", path.display()))
    }

    /// The result.
    pub(super) fn tuned(&self) -> Tuned {
        let of = |search: &Search| -> Vec<TunedLaunch> {
            search.history().iter().map(TunedLaunch::from).collect()
        };
        let history_by_call = self.by_call.as_ref().map(of).unwrap_or_default();
        let history_with_file = self.with_file.as_ref().map(of).unwrap_or_default();
        let history = of(&self.search);
        let all = history.iter().chain(&history_by_call).chain(&history_with_file);
        let took_s = all.map(|one| one.took_s).sum();
        let idle = self.search.idle().iter().map(|name| Waived {
            name: name.clone(),
            reason: "it changes nothing of what was kept before it".to_owned(),
        });
        Tuned {
            tune_schema: SCHEMA,
            busbw: self.busbw.clone(),
            started: self.started.clone(),
            args: self.args.clone(),
            is_ladder: self.is_ladder,
            backend: self.backend.clone(),
            ranks: self.ranks,
            nccl: self.nccl.clone(),
            took_s,
            interrupted: self.interrupted,
            parts: self.parts.clone(),
            before: self.before.clone(),
            variables_left_out: self.variables_left_out.clone(),
            rungs_left_out: idle.chain(self.rungs_left_out.iter().cloned()).collect(),
            outcome: self.search.outcome(),
            by_call: self.by_call.as_ref().and_then(Search::outcome),
            tuner_file: self.tuner_file.lines().map(str::to_owned).collect(),
            with_file: self.with_file.as_ref().and_then(Search::outcome),
            file_settings: self.file_settings.clone(),
            remains: self.remains.clone(),
            history,
            history_by_call,
            history_with_file,
        }
    }
}

/// Where the state of tuning `program` is kept: the user's folder, the file that is resumed, or the data folder.
///
/// # Errors
/// There is no data folder.
pub(super) fn path(arguments: &TuneArguments, program: &str) -> Result<PathBuf> {
    match (&arguments.resume, &arguments.record) {
        (Some(file), _) => Ok(file.clone()),
        (None, Some(folder)) => {
            let path = folder.join(FILE);
            if path.exists() {
                let text = format!(
                    "--record {}: it has a tuning already, {}: name another folder, or --resume that file",
                    folder.display(),
                    path.display()
                );
                return Err(ExitError::new(Exit::Usage, text).into());
            }
            Ok(path)
        }
        (None, None) => store::new_result_path(&outputs::run_id(&format!("tune-{program}"))),
    }
}
