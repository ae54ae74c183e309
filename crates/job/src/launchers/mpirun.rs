//! Open MPI's mpirun and Hydra's (MPICH, Intel MPI), distinguished by their `--version`.
//! Not the MPI library: a run on GPUs needs only the launcher.

use std::process::{Command as Program, Stdio};

use anyhow::Result;
use busbw_core::exit::Exit;

use super::{Launcher, RunningJob, command::Command, job::Job, lines};
use crate::launchers::local_program;
use busbw_core::exit::ExitError;

/// mpirun.
pub(super) struct Mpirun;

/// Names of the program.
const NAMES: [&str; 4] = ["mpirun", "mpirun.openmpi", "mpiexec.hydra", "mpiexec"];

/// Which mpirun it is, hence which options it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flavour {
    OpenMpi,
    Hydra,
}

impl Launcher for Mpirun {
    fn dry_run(&self, job: &Job) -> Result<String> {
        Ok(lines(&[command(job)?]))
    }

    fn start(&self, job: &Job) -> Result<Box<dyn RunningJob>> {
        local_program::start(&command(job)?)
    }
}

fn command(job: &Job) -> Result<Command> {
    if let Some(user) = job.hosts.0.iter().find_map(|host| host.user.as_ref()) {
        let text = format!(
            "mpirun takes no user name with a host: leave out {user}@, and set User {user} in ~/.ssh/config"
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let (words, flavour) = find(job)?;
    let command = Command::new(words).with(options(job, flavour)).with(job.busbw());
    Ok(Command { environment: job.private_variables.clone(), ..command })
}

/// The program with its own options, and which mpirun it is.
fn find(job: &Job) -> Result<(Vec<String>, Flavour)> {
    let named = job.command.first().map(String::as_str);
    let names: Vec<&str> = named.map_or(NAMES.to_vec(), |name| vec![name]);
    for name in &names {
        let output = Program::new(name).arg("--version").stdin(Stdio::null()).output();
        let Ok(output) = output else { continue };
        let version = [output.stdout, output.stderr].concat();
        if let Some(flavour) = flavour(&String::from_utf8_lossy(&version)) {
            let own = job.command.get(1..).unwrap_or_default().iter().cloned();
            let words = std::iter::once((*name).to_owned()).chain(own).collect();
            return Ok((words, flavour));
        }
    }
    let text = format!(
        "no {} on this machine reports with --version that it is Open MPI's or Hydra's: install one, or name it with --launcher-command; --launcher ssh needs neither",
        names.join(", ")
    );
    Err(ExitError::new(Exit::Impossible, text).into())
}

/// From the output of `--version`.
fn flavour(version: &str) -> Option<Flavour> {
    let has = |word: &str| version.to_ascii_lowercase().contains(word);
    if has("open mpi") || has("openrte") || has("prrte") {
        return Some(Flavour::OpenMpi);
    }
    (has("hydra") || has("intel(r) mpi")).then_some(Flavour::Hydra)
}

/// Options for hosts and variables. mpirun takes the variables' values from its own environment.
fn options(job: &Job, flavour: Flavour) -> Vec<String> {
    let mut words = Vec::new();
    let hosts: Vec<String> =
        job.hosts.0.iter().map(|host| format!("{}:{}", host.bracketed(), host.slots)).collect();
    if let Some(count) = job.processes {
        words.extend(["-n".to_owned(), count.to_string()]);
    }
    let passed = job.variables.iter().map(|(name, _)| name.as_str());
    let passed = passed.chain(job.private_variables.iter().map(|(name, _)| *name));
    match flavour {
        Flavour::OpenMpi => {
            if !hosts.is_empty() {
                // Host by host, whatever mpirun's default mapping is.
                let place = ["--map-by", "slot", "-H"].map(str::to_owned);
                words.extend(place.into_iter().chain([hosts.join(",")]));
            }
            words.extend(passed.flat_map(|name| ["-x".to_owned(), name.to_owned()]));
            let coordinator = job.coordinator_variables().into_iter();
            words.extend(
                coordinator.flat_map(|(name, value)| ["-x".to_owned(), format!("{name}={value}")]),
            );
        }
        Flavour::Hydra => {
            if !hosts.is_empty() {
                words.extend(["-hosts".to_owned(), hosts.join(",")]);
            }
            words.extend(["-genvlist".to_owned(), passed.collect::<Vec<_>>().join(",")]);
            let coordinator = job.coordinator_variables().into_iter();
            words.extend(
                coordinator.flat_map(|(name, value)| ["-genv".to_owned(), name.to_owned(), value]),
            );
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_it_is() {
        let open =
            "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/";
        assert_eq!(flavour(open), Some(Flavour::OpenMpi));
        assert_eq!(flavour("HYDRA build details:\n    Version: 4.0.2"), Some(Flavour::Hydra));
        let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.9";
        assert_eq!(flavour(intel), Some(Flavour::Hydra));
        assert_eq!(flavour("mpirun: command not found"), None);
    }
}
