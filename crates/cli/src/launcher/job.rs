//! What is to be started: which program with which words, on which hosts, with which variables.
//! Not how: that is each launcher's.

use std::{ffi::OsString, fs, path::PathBuf};

use anyhow::{Context, Result};
use model::exit::Exit;

use super::{quoting, variables};
use crate::{
    Refusal, launch, machine,
    options::{HOSTS, Host, Hosts, LauncherName, LaunchingArguments, RELAYED, job_words},
    sweep::SWEPT,
};

/// Ports for processes to meet at: below those that the kernel gives away by itself (32768 and up).
const PORTS: std::ops::Range<u32> = 20000..30000;

/// What only processes of a job know (`options::Launched`).
pub(super) const SECRET: &str = "BUSBW_JOB_SECRET";

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    /// Our own program file.
    pub(super) program: PathBuf,
    /// The words of every process.
    pub(super) words: Vec<OsString>,
    /// Places to fill, in this order; none where the launcher is to know them.
    pub(super) hosts: Hosts,
    /// Processes in all, where that was said.
    pub(super) processes: Option<usize>,
    /// The launcher's program and its own options, where they were given.
    pub(super) command: Vec<String>,
    /// Variables for every process.
    pub(super) variables: Vec<(String, String)>,
    /// Variables that no process is to have, whatever its host sets: those that a sweep takes away.
    pub(super) unset: Vec<String>,
    /// More of them, for processes that we start and not for who types the same command; never on a command
    /// line, which everybody on a machine can read.
    pub(super) ours: Vec<(&'static str, String)>,
    /// Where processes on several hosts meet, where the user says it.
    pub(super) master: [Option<String>; 2],
}

impl Job {
    /// What was asked.
    ///
    /// # Errors
    /// A host file that cannot be read, or places that are not there.
    pub(super) fn of(launching: &LaunchingArguments, args: &[OsString]) -> Result<Job> {
        let wrong = |text: String| Refusal::new(Exit::Usage, text);
        let mut hosts = match (&launching.hosts, &launching.hostfile) {
            (Some(hosts), _) => hosts.clone(),
            (None, Some(path)) => fs::read_to_string(path)
                .map_err(|error| error.to_string())
                .and_then(|text| Hosts::from_file(&text))
                .map_err(|why| wrong(format!("--hostfile {}: {why}", path.display())))?,
            (None, None) => Hosts::default(),
        };
        let mut processes = launching.processes.map(|count| count as usize);
        if !hosts.0.is_empty() {
            if let Some(count) = processes {
                hosts = hosts.first(count).map_err(wrong)?;
            }
            processes = Some(hosts.0.iter().map(|host| host.places).sum());
        }
        let command = quoting::split(launching.command.as_deref().unwrap_or_default())
            .map_err(|why| wrong(format!("--launcher-command: {why}")))?;
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let secret = match variable(SECRET) {
            None if !launching.dry_run => Some(launch::token()?),
            theirs => theirs,
        };
        let swept: Vec<String> =
            variable(SWEPT).iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
        let is_set = |name: &String| std::env::var_os(name).is_some();
        let relayed = (!launching.dry_run).then(|| (RELAYED, "1".to_owned()));
        let place = |host: &Host| format!("{}:{}", host.bracketed(), host.places);
        let places: Vec<String> = hosts.0.iter().map(place).collect();
        let places = (!launching.dry_run && !places.is_empty()).then(|| (HOSTS, places.join(",")));
        Ok(Job {
            program: std::env::current_exe().context("cannot find busbw's own program file")?,
            words: job_words(args),
            hosts,
            processes,
            command,
            variables: variables::that_matter(launch::environment_variables(), &swept),
            unset: swept.into_iter().filter(|name| !is_set(name)).collect(),
            ours: secret
                .map(|secret| (SECRET, secret))
                .into_iter()
                .chain(relayed)
                .chain(places)
                .collect(),
            master: [variable("MASTER_ADDR"), variable("MASTER_PORT")],
        })
    }

    /// Who starts it: whom the user named, or who can.
    ///
    /// # Errors
    /// When nothing says where processes are to be started.
    pub(super) fn launcher(&self, launching: &LaunchingArguments) -> Result<LauncherName> {
        let host_name = machine::host_name();
        let here = self.hosts.0.iter().all(|host| host.is_here(&host_name));
        let wrong = |text: &str| Err(Refusal::new(Exit::Usage, text).into());
        match launching.launcher {
            Some(LauncherName::Ssh) if self.hosts.0.is_empty() => {
                wrong("--launcher ssh needs hosts: -H hostA:8,hostB:8, or --hostfile FILE")
            }
            Some(LauncherName::Local) if !here => wrong(
                "--launcher local starts ranks on this machine, and -H names others: use --launcher ssh, mpirun or slurm",
            ),
            Some(name) => Ok(name),
            None if !self.command.is_empty() => {
                wrong("--launcher-command needs --launcher ssh, mpirun or slurm")
            }
            None if here => Ok(LauncherName::Local),
            None => Ok(LauncherName::Ssh),
        }
    }

    /// Our program and the words of the job, behind `env` where a variable is to be taken away.
    pub(super) fn busbw(&self) -> impl Iterator<Item = OsString> {
        let without = self.unset.iter().flat_map(|name| ["-u".into(), name.into()]);
        let env = (!self.unset.is_empty()).then(|| OsString::from("env"));
        let program = self.program.clone().into_os_string();
        env.into_iter().chain(without).chain([program]).chain(self.words.iter().cloned())
    }

    /// Where processes on several hosts meet: the variables that are not set yet.
    pub(super) fn meeting(&self) -> Vec<(&'static str, String)> {
        if self.hosts.0.len() < 2 {
            return Vec::new();
        }
        let place = std::process::id() % (PORTS.end - PORTS.start);
        let values = [self.hosts.0[0].name.clone(), (PORTS.start + place).to_string()];
        let names = ["MASTER_ADDR", "MASTER_PORT"];
        let unset = names.into_iter().zip(values).zip(&self.master);
        unset.filter(|(_, set)| set.is_none()).map(|(variable, _)| variable).collect()
    }
}
