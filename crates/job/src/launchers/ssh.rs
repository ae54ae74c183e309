//! The ssh launcher: on every host the same program, copied if it is missing, runs as an agent that starts the host's
//! processes and ends them when its connection closes. The hosts need nothing else.
//! Not what the agent does (`agent`).

mod agent;
mod agent_silence;
mod agent_stdout;
mod binary;
mod connection;
mod monitor;
mod orders;
mod remote_end;

pub use agent::run as agent;

use std::io::Read;

use anyhow::Result;
use busbw_core::exit::Exit;

use self::{binary::Binary, connection::Connection, monitor::HostMonitor, orders::Orders};
use super::{Carrier, JobEnd, Launcher, Loss, RunningJob, command::Command, job::Job, lines};
use crate::hosts::Host;
use busbw_core::exit::ExitError;

/// ssh.
pub(super) struct Ssh;

/// Options for ssh: no prompts, and a dead host shows within seconds. Options in --launcher-command come first, and
/// take precedence.
const OPTIONS: [&str; 6] = [
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=2",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    // A ControlMaster that outlives the run would keep this process's stderr open.
    "ControlMaster=no",
];

impl Launcher for Ssh {
    fn dry_run(&self, job: &Job) -> Result<String> {
        let binary = Binary::ours()?;
        let hosts = job.hosts.0.iter();
        let commands: Vec<Command> =
            hosts.map(|host| ssh(job, host, &binary.start_script())).collect();
        Ok(lines(&commands))
    }

    fn start(&self, job: &Job) -> Result<Box<dyn RunningJob>> {
        let binary = Binary::ours()?;
        monitor::raise_open_files(job.hosts.0.len());
        let connections = std::thread::scope(|scope| {
            let threads: Vec<_> = job
                .hosts
                .0
                .iter()
                .map(|host| {
                    let (command, binary) = (|script: &str| ssh(job, host, script), &binary);
                    scope.spawn(move || Connection::open(&host.name, command, binary))
                })
                .collect();
            let joined = threads.into_iter().map(|thread| {
                let vanished = || {
                    Err(ExitError::new(
                        Exit::Internal,
                        "a thread for ssh has ended without a result",
                    )
                    .into())
                };
                thread.join().unwrap_or_else(|_| vanished())
            });
            all_or_none(joined)
        })?;
        Ok(Box::new(HostMonitor::begin(connections, |all| Orders::of(job, all))?))
    }
}

/// Every host's connection; or all errors together, with the first one's exit code.
fn all_or_none(opened: impl Iterator<Item = Result<Connection>>) -> Result<Vec<Connection>> {
    let (mut connections, mut failed) = (Vec::new(), Vec::new());
    for one in opened {
        match one {
            Ok(connection) => connections.push(connection),
            Err(error) => failed.push(error),
        }
    }
    let Some(first) = failed.first() else { return Ok(connections) };
    let exit = first.downcast_ref::<ExitError>().map_or(Exit::Internal, ExitError::exit);
    let texts: Vec<String> = failed.iter().map(|error| format!("{error:#}")).collect();
    Err(ExitError::new(exit, texts.join("; and ")).into())
}

/// The command that runs `script` on a host.
fn ssh(job: &Job, host: &Host, script: &str) -> Command {
    let program = if job.command.is_empty() { vec!["ssh".to_owned()] } else { job.command.clone() };
    let options = OPTIONS.iter().flat_map(|option| ["-o", option]);
    let user = host.user.iter().flat_map(|user| ["-l", user]);
    // Any login shell only starts sh: the script has no newline and no single quote.
    let remote = format!("exec sh -c '{script}'");
    Command::new(program).with(["-T"]).with(options).with(user).with(["--", &host.name, &remote])
}

impl RunningJob for HostMonitor {
    fn stdout(&mut self) -> Box<dyn Read + Send> {
        self.take_stdout()
    }

    fn lost(&mut self) -> Option<Loss> {
        self.lost_part().map(Loss::silent)
    }

    fn carrier(&self) -> Carrier {
        self.carrier_of_process_0()
    }

    fn abandon(&mut self) {
        self.close();
    }

    fn interruption(&self) -> Box<dyn Fn() + Send> {
        self.interruption()
    }

    fn end(self: Box<Self>) -> JobEnd {
        self.finish()
    }
}
