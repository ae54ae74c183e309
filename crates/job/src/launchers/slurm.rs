//! srun: within an allocation, or asking for one itself.
//! Not the allocation: what srun's options leave open, Slurm decides.

use anyhow::Result;
use busbw_core::exit::Exit;

use super::{Launcher, RunningJob, command::Command, job::Job, lines};
use crate::launchers::local_program;
use busbw_core::exit::ExitError;

/// The srun launcher.
pub(super) struct Slurm;

impl Launcher for Slurm {
    fn dry_run(&self, job: &Job) -> Result<String> {
        Ok(lines(&[command(job)?]))
    }

    fn start(&self, job: &Job) -> Result<Box<dyn RunningJob>> {
        local_program::start(&command(job)?)
    }
}

fn command(job: &Job) -> Result<Command> {
    if let Some(user) = job.hosts.0.iter().find_map(|host| host.user.as_ref()) {
        let text = format!("srun starts everything as the user that calls it: leave out {user}@");
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let program =
        if job.command.is_empty() { vec!["srun".to_owned()] } else { job.command.clone() };
    // Slurm's own default may be less (SLURM_EXPORT_ENV); the secret goes through the environment.
    let coordinator =
        job.coordinator_variables().into_iter().map(|(name, value)| format!(",{name}={value}"));
    // Without it the first SIGINT only prints the tasks' status, and a second is followed by SIGKILL.
    let mut words = vec!["--disable-status".to_owned()];
    words.push(format!("--export=ALL{}", coordinator.collect::<String>()));
    if let Some(count) = job.processes {
        words.push(format!("--ntasks={count}"));
    }
    if !job.hosts.0.is_empty() {
        // Slurm sorts a list of nodes; with this distribution it assigns tasks in the list's order.
        let places = job.hosts.0.iter();
        let places = places.flat_map(|host| std::iter::repeat_n(host.name.as_str(), host.slots));
        words.extend([
            format!("--nodes={}", job.hosts.0.len()),
            "--distribution=arbitrary".to_owned(),
            format!("--nodelist={}", places.collect::<Vec<_>>().join(",")),
        ]);
    }
    let command = Command::new(program).with(words).with(job.busbw());
    Ok(Command { environment: job.private_variables.clone(), ..command })
}
