//! busbw: how fast GPUs really talk, how fast the hardware allows, what stands between the two.
//! Not a library for others: these are the program's commands, and `run` is their map.
#![forbid(unsafe_code)]

mod algorithms_command;
mod check;
mod compare;
mod completions_command;
mod consent;
mod copy_command;
mod doctor_command;
mod explain_command;
mod fabric_source;
mod hang_evidence;
mod host_resources;
mod import_command;
/// Ranks started by us somewhere else.
pub mod launcher;
mod lint_command;
mod list_command;
mod man_command;
mod network_load;
/// What was asked.
pub mod options;
mod output_file;
mod plan;
mod plugin;
mod ready_machines;
mod references_command;
mod report_command;
mod schema_command;
mod schemas;
mod show;
mod sources;
mod survey;
/// One job under several environments.
pub mod sweep;
mod topo;
mod topo_command;
mod trace_classes;
/// One job over several transports.
pub mod transports;
mod tune;
mod watch;
mod within_job;

use std::{ffi::OsString, io::Write, process::ExitCode};

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use busbw_job::launchers;
pub use busbw_runner::embedded::Libraries;
use busbw_runner::{backend, embedded, launch, request::Request};
use network_load::Load;
use options::{Command, Environment};

/// The program: reads the command line, runs, says what went wrong, and exits. It carries busbw's plugins.
pub fn main(plugins: Libraries) -> ExitCode {
    embedded::provide(plugins);
    let exit = run(std::env::args_os()).unwrap_or_else(|error| {
        if let Some(usage) = error.downcast_ref::<clap::Error>() {
            // Help and version go to stdout with 0, mistakes to stderr with 2.
            let _ = usage.print();
            return if usage.exit_code() == 0 { Exit::Ok } else { Exit::Usage };
        }
        launch::print_error(&error)
    });
    ExitCode::from(exit.code())
}

/// From words to an exit code. Benchmarks go through options, plan, launch, backend, measure, record
/// and render; the other commands start at a record or a text.
fn run(args: impl IntoIterator<Item = OsString>) -> Result<Exit> {
    let args: Vec<OsString> = args.into_iter().collect();
    match options::parse(args.clone())? {
        Command::Bench { benchmark, style, program, mut arguments } => {
            let mut environment = Environment::read(|name| std::env::var(name).ok());
            arguments.complete(&environment).map_err(ExitError::from)?;
            if let Some(exit) =
                launcher::run(benchmark, &mut arguments, &environment, &program, &args)?
            {
                return Ok(exit);
            }
            if let (Some(launched), Some(word)) = (&mut environment.launched, &arguments.interface)
            {
                launched.interface = Some(word.clone());
            }
            let host_resources = host_resources::host_resources(&arguments);
            let planned = options::plan(
                benchmark,
                style,
                &program,
                &arguments,
                &environment,
                &host_resources,
            )
            .map_err(ExitError::from);
            let shares_gpus = arguments.share_gpus;
            let remarked = |mut request: Request| {
                request.remarks.extend(shares_gpus.then(host_resources::sharing));
                request.remarks.extend(lint_command::look_at_environment());
                request.summary = explain_command::of_this_run();
                request
            };
            match &environment.launched {
                None => launch::run(remarked(planned?), environment.alone.as_deref(), &args),
                Some(launched) if launched.rank == 0 => {
                    // busbw's own launchers have asked.
                    if let (false, Ok(request)) = (environment.relayed, &planned) {
                        let load = Load::of_launched(launched, request.plan.ranks());
                        network_load::ask(benchmark, &arguments, load)?;
                    }
                    launch::lead(launched, planned.map(remarked), &args)
                }
                Some(launched) => launch::worker(launched, planned, &args),
            }
        }
        Command::Algorithms(arguments) => algorithms_command::run(&arguments),
        Command::Text(text) => {
            busbw_render::answer::answer(|out, _| out.write_all(text.as_bytes()))?;
            Ok(Exit::Ok)
        }
        Command::Show(arguments) => show::run(&arguments),
        Command::Lint(arguments) => lint_command::run(&arguments),
        Command::Doctor(arguments) => doctor_command::run(&arguments, &args),
        Command::Import(arguments) => import_command::run(&arguments),
        Command::References(arguments) => references_command::run(&arguments),
        Command::Schema(arguments) => schema_command::run(&arguments),
        Command::Completions(arguments) => completions_command::run(&arguments),
        Command::Man(arguments) => man_command::run(&arguments),
        Command::List(arguments) => list_command::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Explain(arguments) => explain_command::run(&arguments),
        Command::Report(arguments) => report_command::run(&arguments),
        Command::Plugin(arguments) => plugin::run(&arguments),
        Command::Topo(arguments) => topo_command::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments, &args),
        Command::Transports(arguments) => transports::run(&arguments, &args),
        Command::Tune(arguments) => tune::run(&arguments, &args),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Check(arguments) => check::run(&arguments, &args),
        Command::Fingerprint { rank } => doctor_command::fingerprint(rank),
        Command::Survey => survey::run(&args),
        Command::ProfilerMask { address, mask } => watch::set_back(&address, mask),
        Command::WatchFiles { sources, follows } => watch::send(&sources, follows),
        Command::CopyTo(folder) => copy_command::run(&folder),
        Command::Agent => launchers::agent(),
        Command::PluginRule { name, asked } => plugin::rule(&name, &asked),
        Command::PluginPartner { asked } => plugin::partner(&asked),
        Command::LogFilter => backend::mpi::log_filter(),
        Command::Tied(words) => launchers::tied(&words),
        Command::Rank { .. } => launch::rank(),
    }
}
