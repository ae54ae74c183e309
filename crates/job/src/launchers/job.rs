//! A job to start: the program and its arguments, the hosts, the variables.
//! Not how it is started: that is each launcher's.

use std::{ffi::OsString, fs, path::PathBuf};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;

use super::{quoting, variables};
use crate::{
    hosts::{Host, Hosts},
    launchers::{LauncherName, Placement, kubernetes::Pods},
    rendezvous::token,
};
use busbw_core::environment::{self, HOSTS, JOB_SECRET, RELAYED, SWEPT};
use busbw_core::exit::ExitError;
use busbw_host::machine;

/// Ports for the coordinator: below the kernel's ephemeral ports (32768 and up).
const COORDINATOR_PORTS: std::ops::Range<u32> = 20000..30000;

/// A job.
#[derive(Debug)]
pub struct Job {
    /// The file of this program.
    pub program: PathBuf,
    /// The arguments of every process.
    pub words: Vec<OsString>,
    /// Hosts in the order in which they are filled; empty where the launcher knows them.
    pub hosts: Hosts,
    /// The number of processes, if given.
    pub processes: Option<usize>,
    /// The launcher's program and its own options, if given.
    pub command: Vec<String>,
    /// Variables for every process.
    pub variables: Vec<(String, String)>,
    /// Variables that no process is to have, whatever its host sets: a sweep has unset them.
    pub unset: Vec<String>,
    /// Variables that a sweep sets for this launch.
    pub swept: Vec<String>,
    /// Variables for the processes of this job only. They go through the environment: every user of a machine can
    /// read a command line.
    pub private_variables: Vec<(&'static str, String)>,
    /// MASTER_ADDR and MASTER_PORT, if the user has set them.
    pub master: [Option<String>; 2],
    /// The pods of a cluster; none with another launcher.
    pub pods: Option<Pods>,
}

impl Job {
    /// The job that the options describe.
    ///
    /// # Errors
    /// A host file that cannot be read, or fewer slots than processes.
    pub fn of(launching: &Placement) -> Result<Job> {
        let wrong = |text: String| ExitError::new(Exit::Usage, text);
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
            processes = Some(hosts.0.iter().map(|host| host.slots).sum());
        }
        if let Some(pods) = &launching.pods {
            if !hosts.0.is_empty() || processes.is_some() {
                let text = "--launcher kubernetes places one process a pod: --nodes N instead of -H, --hostfile and --np; --node-selector KEY=VALUE chooses nodes";
                return Err(wrong(text.to_owned()).into());
            }
            processes = Some(pods.nodes as usize);
        }
        let command = quoting::split(launching.command.as_deref().unwrap_or_default())
            .map_err(|why| wrong(format!("--launcher-command: {why}")))?;
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let secret = match variable(JOB_SECRET) {
            None if !launching.dry_run => Some(token()?),
            theirs => theirs,
        };
        let swept: Vec<String> =
            variable(SWEPT).iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
        let is_set = |name: &String| std::env::var_os(name).is_some();
        let relayed = (!launching.dry_run).then(|| (RELAYED, "1".to_owned()));
        let place = |host: &Host| format!("{}:{}", host.bracketed(), host.slots);
        let places: Vec<String> = hosts.0.iter().map(place).collect();
        let places = (!launching.dry_run && !places.is_empty()).then(|| (HOSTS, places.join(",")));
        Ok(Job {
            program: std::env::current_exe().context("cannot find busbw's own program file")?,
            words: launching.words.clone(),
            hosts,
            processes,
            command,
            variables: variables::that_matter(environment::all(), &swept),
            unset: swept.iter().filter(|name| !is_set(name)).cloned().collect(),
            swept,
            private_variables: secret
                .map(|secret| (JOB_SECRET, secret))
                .into_iter()
                .chain(relayed)
                .chain(places)
                .collect(),
            master: [variable("MASTER_ADDR"), variable("MASTER_PORT")],
            pods: launching.pods.clone(),
        })
    }

    /// The launcher: the one that was named, or one that can start the job.
    ///
    /// # Errors
    /// When no launcher can start processes on the hosts.
    pub fn launcher(&self, asked: Option<LauncherName>) -> Result<LauncherName> {
        let host_name = machine::host_name();
        let here = self.hosts.0.iter().all(|host| host.is_here(&host_name));
        let wrong = |text: &str| Err(ExitError::new(Exit::Usage, text).into());
        match asked {
            Some(LauncherName::Ssh) if self.hosts.0.is_empty() => {
                wrong("--launcher ssh needs hosts: -H hostA:8,hostB:8, or --hostfile FILE")
            }
            Some(LauncherName::Local) if !here => wrong(
                "--launcher local starts ranks on this machine, and -H names others: use --launcher ssh, mpirun or slurm",
            ),
            Some(name) => Ok(name),
            None if !self.command.is_empty() => {
                wrong("--launcher-command needs --launcher ssh, mpirun, slurm or kubernetes")
            }
            None if here => Ok(LauncherName::Local),
            None => Ok(LauncherName::Ssh),
        }
    }

    /// This program and the job's arguments, behind `env -u` where a variable is to be unset.
    pub fn busbw(&self) -> impl Iterator<Item = OsString> {
        let without = self.unset.iter().flat_map(|name| ["-u".into(), name.into()]);
        let env = (!self.unset.is_empty()).then(|| OsString::from("env"));
        let program = self.program.clone().into_os_string();
        env.into_iter().chain(without).chain([program]).chain(self.words.iter().cloned())
    }

    /// The coordinator's address: MASTER_ADDR and MASTER_PORT, where they are not set yet.
    pub fn coordinator_variables(&self) -> Vec<(&'static str, String)> {
        if self.hosts.0.len() < 2 {
            return Vec::new();
        }
        let place = std::process::id() % (COORDINATOR_PORTS.end - COORDINATOR_PORTS.start);
        let values = [self.hosts.0[0].name.clone(), (COORDINATOR_PORTS.start + place).to_string()];
        let names = ["MASTER_ADDR", "MASTER_PORT"];
        let unset = names.into_iter().zip(values).zip(&self.master);
        unset.filter(|(_, set)| set.is_none()).map(|(variable, _)| variable).collect()
    }
}
