//! Options about where ranks are started, and by whom: `--launcher`, `-H` and what belongs to them.
//! Not starting them (`launcher`), and not what a launcher tells its processes (`busbw_job::launched`).

use std::{ffi::OsString, path::PathBuf};

use busbw_core::exit::{Exit, ExitError};
use busbw_job::launchers::{LauncherName, Placement};
use clap::{
    Args, Command as Grammar,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

use busbw_job::hosts::Hosts;

use super::{job_words, kubernetes::KubernetesArguments};

/// `--launcher`'s names, as the help lists them.
fn launcher_names() -> impl TypedValueParser<Value = LauncherName> {
    let names = LauncherName::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|word| {
        let named = LauncherName::ALL.iter().find(|(_, name, _)| **name == *word);
        named.map_or(LauncherName::Local, |(launcher, ..)| *launcher)
    })
}

/// Where ranks are started.
#[derive(Debug, Clone, Default, Args)]
pub struct LaunchingArguments {
    /// Launcher that starts a process on each slot of -H [default: with -H ssh, or local if that is this machine]
    #[arg(long, value_name = "NAME", value_parser = launcher_names(), help_heading = "Ranks")]
    pub launcher: Option<LauncherName>,
    /// Hosts and processes: hostA:8,hostB:8 [default: this host]
    ///
    /// Hosts, and how many processes on each: hostA:8,hostB:8; also user@host; an IPv6 address in brackets [default:
    /// this host]
    #[arg(
        short = 'H',
        long = "hosts",
        value_name = "HOSTS",
        conflicts_with = "hostfile",
        help_heading = "Ranks"
    )]
    pub hosts: Option<Hosts>,
    /// The same from a file, a host a line: `hostA slots=8`, `hostA:8`, or the name alone for one process [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Ranks")]
    pub hostfile: Option<PathBuf>,
    /// Processes in all [default: as many as -H has slots; without -H the launcher decides]
    #[arg(long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Ranks")]
    pub processes: Option<u32>,
    /// Program of the launcher with its own options, such as 'ssh -p 2222' or 'mpirun --oversubscribe' [default: its name]
    #[arg(long = "launcher-command", value_name = "WORDS", help_heading = "Ranks")]
    pub command: Option<String>,
    /// Print the launcher's command, or the manifest, instead of running it
    #[arg(long = "dry-run", help_heading = "Ranks")]
    pub dry_run: bool,
    /// Ask nothing before pods are made, or another host's RDMA links are filled by pairs
    #[arg(long, hide_short_help = true, help_heading = "Ranks")]
    pub yes: bool,
    /// Pods of a cluster.
    #[command(flatten)]
    pub kubernetes: KubernetesArguments,
}

impl LaunchingArguments {
    /// What was asked, for a job whose command line is `args`.
    ///
    /// # Errors
    /// Options of one launcher with another.
    pub fn placement(&self, args: &[OsString]) -> Result<Placement, ExitError> {
        let pods = self.kubernetes.pods(self.launcher);
        Ok(Placement {
            launcher: self.launcher,
            hosts: self.hosts.clone(),
            hostfile: self.hostfile.clone(),
            processes: self.processes,
            command: self.command.clone(),
            dry_run: self.dry_run,
            pods: pods.map_err(|why| ExitError::new(Exit::Usage, why))?,
            words: job_words(args),
        })
    }

    /// Whether anything was asked.
    pub fn is_asked(&self) -> bool {
        self.launcher.is_some()
            || self.hosts.is_some()
            || self.hostfile.is_some()
            || self.processes.is_some()
            || self.command.is_some()
            || self.dry_run
            || self.kubernetes.first_given().is_some()
    }
}

/// The words of [`LaunchingArguments`] among others.
pub(super) struct LaunchingWords(Grammar);

impl LaunchingWords {
    /// As the options are defined.
    pub(super) fn new() -> LaunchingWords {
        LaunchingWords(LaunchingArguments::augment_args(Grammar::new("")))
    }

    /// Whether the word behind this one is its value: `--np 4`, not `--np=4`, `-Ha:1`. None for other words.
    pub(super) fn takes_next(&self, word: &str) -> Option<bool> {
        let found = self.0.get_arguments().find(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let is_long = long.is_some_and(|long| word.split('=').next() == Some(long.as_str()));
            is_long || short.is_some_and(|s| word.starts_with(&s) && !word.starts_with("--"))
        })?;
        let whole = word.contains('=') || (!word.starts_with("--") && word.len() > 2);
        Some(found.get_action().takes_values() && !whole)
    }
}

/// This command line without the words of [`LaunchingArguments`]: the arguments of every process of the launcher.
pub(super) fn without_launching(words: Vec<OsString>) -> Vec<OsString> {
    let launching = LaunchingWords::new();
    let mut left = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            left.push(word);
            left.extend(words);
            break;
        }
        match word.to_str().and_then(|word| launching.takes_next(word)) {
            None => left.push(word),
            Some(true) => drop(words.next()),
            Some(false) => {}
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_launcher_are_its_own() {
        let left = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            let left = without_launching(words);
            left.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let job = "all_reduce -b 8 -e 64M --json";
        for launching in [
            "-H a:8,b:8 --launcher ssh",
            "-Ha:8,b:8 --launcher=mpirun --dry-run",
            "--hosts a:8 --np 4 --launcher-command=x",
            "--hostfile=f --launcher slurm",
            "--launcher kubernetes --nodes 2 --image i --yes --env A=1 --deadline 5m",
        ] {
            assert_eq!(left(&format!("all_reduce {launching} -b 8 -e 64M --json")), job);
            assert_eq!(left(&format!("{job} {launching}")), job);
        }
        assert_eq!(left("all_reduce -- -H a:8"), "all_reduce -- -H a:8");
    }
}
