//! The stages of a check on real hosts: launches of this program with a record each, as a sweep's are.
//! Not their order and their time (`busbw_analysis::check::conduct`).

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_analysis::{
    check::{
        CollectiveLaunch, Failure, NamedTransport, PairsLaunch, Stages, Survey, TransportLaunch,
        Unable,
    },
    explain::Hardware,
};
use busbw_core::{
    exit::{Exit, ExitError},
    messages::Messages,
    plan::BufferMemory,
};
use tempfile::TempDir;

use super::{hosts, records, transports::Networks};
use crate::{
    consent::Consent,
    launcher,
    options::{CheckingArguments, words_of_pairs},
    survey,
    sweep::{
        Environment, Interruption, Launch, Prepared,
        launch::{self, Started},
    },
    transports::JobHost,
    within_job::Leader,
};

/// The collective's size where the user names none: so many bytes that bandwidth shows, and a slow network still moves
/// some in a second.
const GPU_SIZE: &str = "256M";
const HOST_SIZE: &str = "8M";
/// The largest message of pairs where processors move the bytes.
const HOST_PAIR_BYTES: u64 = 256 << 10;
/// Seconds of a row, as a share of the time.
const ROW_SHARE: f64 = 1.0 / 30.0;
/// The least and the most of that.
const ROW_TIME_S: [f64; 2] = [0.5, 10.0];
/// Seconds that one wait may last, as a share of the time: a hanging collective must show in two launches.
const WAIT_SHARE: f64 = 1.0 / 6.0;
/// The least and the most of that.
const WAIT_S: [f64; 2] = [10.0, 120.0];
/// A launch is ended so long before the end of the time: its processes on other hosts need some to end.
const END_GRACE: Duration = Duration::from_secs(1);

/// The hosts of a check.
pub(super) struct Machines<'a> {
    begun: Instant,
    /// The launcher's job that this process leads.
    leader: Option<&'a Leader>,
    interruption: Interruption,
    consent: Consent,
    hardware: Hardware,
    collective: Vec<OsString>,
    pairs: Vec<OsString>,
    prepared: Prepared,
    /// Of the hosts that were read, where there are several.
    networks: Option<Networks>,
    folder: PathBuf,
    /// Is removed with this.
    _temporary: Option<TempDir>,
    /// Whether a launch of pairs measures latency and bandwidth.
    has_both_tests: bool,
    launches: usize,
    hosts: Vec<String>,
    ranks: Option<usize>,
}

impl<'a> Machines<'a> {
    /// Parses the collective's options.
    ///
    /// # Errors
    /// An option cannot be used, here or in every launch, or there is no folder for records.
    pub(super) fn new(
        arguments: &CheckingArguments,
        hardware: Hardware,
        leader: Option<&'a Leader>,
        interruption: Interruption,
        begun: Instant,
    ) -> Result<Machines<'a>> {
        if arguments.yes {
            launcher::agree();
        }
        // Planned once, so that a mistake in its options is reported before anything is read or loaded.
        let prepared = Prepared::alone(&arguments.benchmark, arguments.bench.clone())?;
        let on_gpus = prepared.plan().backend.spec().buffers == BufferMemory::Gpu;
        let row_s = (ROW_SHARE * arguments.within).clamp(ROW_TIME_S[0], ROW_TIME_S[1]);
        let wait_s = (WAIT_SHARE * arguments.within).clamp(WAIT_S[0], WAIT_S[1]);
        let mut collective = prepared.words.clone();
        if !prepared.names_sizes() {
            let size = if on_gpus { GPU_SIZE } else { HOST_SIZE };
            collective.extend(["-b", size, "-e", size].map(OsString::from));
        }
        if !prepared.names_row_time() {
            collective.extend(["--row-time".into(), format!("{row_s:.3}").into()]);
        }
        let mut pairs = vec![OsString::from("pairs")];
        pairs.extend(words_of_pairs(&arguments.bench));
        if !on_gpus {
            // Latencies between processors differ from launch to launch: no second launch settles that.
            let size = prepared.largest_size().map_or(HOST_PAIR_BYTES, |b| b.min(HOST_PAIR_BYTES));
            pairs.extend(["--only", "bw", "-e", &size.to_string()].map(OsString::from));
        }
        if !prepared.has_patience() {
            let wait = OsString::from(format!("{wait_s:.0}"));
            collective.extend(["-T".into(), wait.clone()]);
            pairs.extend(["-T".into(), wait]);
        }
        let (folder, temporary) = folder(arguments)?;
        Ok(Machines {
            begun,
            leader,
            interruption,
            consent: Consent {
                given: arguments.shared || arguments.yes,
                option: "--shared or --yes measures",
                within_s: arguments.within,
            },
            hardware,
            collective,
            pairs,
            prepared,
            networks: None,
            folder,
            _temporary: temporary,
            has_both_tests: on_gpus,
            launches: 0,
            hosts: Vec::new(),
            ranks: None,
        })
    }

    /// The hosts that answered.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Ranks of the collective.
    pub(super) fn ranks(&self) -> Option<usize> {
        self.ranks
    }

    /// Starts a launch in this process's environment, which ends within `limit_s`.
    fn launch(&mut self, name: &str, words: &[OsString], limit_s: f64) -> Result<Launch, Failure> {
        let plain = Environment {
            name: name.to_owned(),
            variables: Vec::new(),
            options: Vec::new(),
            instead: None,
        };
        self.launch_in(&plain, words, limit_s)
    }

    /// The same with variables of its own.
    fn launch_in(
        &mut self,
        environment: &Environment,
        words: &[OsString],
        limit_s: f64,
    ) -> Result<Launch, Failure> {
        self.launches += 1;
        // A transport's name has a colon, which some file systems refuse.
        let name = environment.name.replace(':', "-");
        let path = self.folder.join(format!("{:02}-{name}.jsonl", self.launches));
        let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(Duration::MAX);
        let until = Instant::now().checked_add(limit.saturating_sub(END_GRACE));
        let started = Started { leader: self.leader, interruption: &self.interruption, until };
        let launch = launch::run(words, environment, &path, &started)
            .map_err(|error| Failure::Tool(format!("{error:#}")))?;
        if let Some(record) = &launch.record {
            if self.hosts.is_empty() {
                self.hosts = records::hosts(record);
            }
            self.ranks = Some(record.run.plan.ranks());
        }
        Ok(launch)
    }
}

impl Stages for Machines<'_> {
    fn elapsed_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn is_interrupted(&self) -> bool {
        self.interruption.is_interrupted()
    }

    fn survey(&mut self, limit_s: f64) -> Result<Survey, Unable> {
        let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(Duration::MAX);
        let processes = match (self.leader, self.prepared.placement()) {
            (Some(leader), _) => survey::of_job(leader, limit),
            (None, Some(placement)) => survey::hosts(&placement, limit),
            (None, None) => Ok(vec![survey::here(0, None, true)]),
        };
        let processes =
            processes.map_err(|error| Unable(format!("the hosts cannot be read: {error:#}")))?;
        let survey = hosts::survey(&processes);
        self.hosts = survey.hosts.iter().map(|host| host.host.clone()).collect();
        self.networks = Networks::of(JobHost::all(processes), &self.prepared);
        Ok(survey)
    }

    fn may_load(&mut self, survey: Option<&Survey>) -> Result<(), String> {
        self.consent.ask(survey.map_or(&[], |survey| &survey.in_use))
    }

    fn collective(&mut self, limit_s: f64) -> CollectiveLaunch {
        let begun = Instant::now();
        let words = self.collective.clone();
        let launch = self.launch("collective", &words, limit_s);
        let outcome = launch.and_then(|launch| records::figures(&launch, &self.hardware));
        CollectiveLaunch { outcome, took_s: begun.elapsed().as_secs_f64() }
    }

    fn pairs(&mut self, only: Option<Messages>, limit_s: f64) -> PairsLaunch {
        let begun = Instant::now();
        let mut words = self.pairs.clone();
        if let Some(test) = only.filter(|_| self.has_both_tests) {
            words.extend(["--only", test.name()].map(OsString::from));
        }
        let launch = self.launch("pairs", &words, limit_s);
        let outcome = launch.and_then(|launch| records::looks(&launch));
        PairsLaunch { outcome, took_s: begun.elapsed().as_secs_f64() }
    }

    fn transports(&self) -> Vec<NamedTransport> {
        self.networks.as_ref().map_or(Vec::new(), Networks::named)
    }

    fn transport(&mut self, name: &str, limit_s: f64) -> TransportLaunch {
        let begun = Instant::now();
        let mut words = self.collective.clone();
        let environment = self.networks.as_ref().and_then(|all| all.environment(name));
        let launch = match environment {
            Some(environment) => {
                words.extend(environment.options.iter().map(OsString::from));
                self.launch_in(&environment, &words, limit_s)
            }
            None => Err(Failure::Tool(format!("there is no transport {name}"))),
        };
        let outcome = launch.and_then(|launch| match &self.networks {
            Some(networks) => networks.figures(name, &launch, &self.hardware),
            None => Err(Failure::Tool("the hosts were not read".to_owned())),
        });
        TransportLaunch { outcome, took_s: begun.elapsed().as_secs_f64() }
    }
}

/// Where the records of launches are written: the user's folder, or one that goes with this process.
fn folder(arguments: &CheckingArguments) -> Result<(PathBuf, Option<TempDir>)> {
    if let Some(folder) = &arguments.record {
        fs::create_dir_all(folder).map_err(|error| {
            let text = format!("--record {}: it must be a folder: {error}", folder.display());
            ExitError::new(Exit::Usage, text)
        })?;
        return Ok((folder.clone(), None));
    }
    let temporary = TempDir::new().context("cannot make a folder for records of launches")?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}
