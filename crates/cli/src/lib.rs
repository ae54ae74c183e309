//! busbw: how fast GPUs really talk, how fast the hardware allows, what stands between the two.
//! Not a library for others: this is the program, and `run` is its map.
#![forbid(unsafe_code)]

mod algorithms_command;
mod answer;
/// Who moves the bytes.
pub mod backend;
mod columns;
mod compare;
/// What devices count meanwhile.
pub mod counters;
/// The preflight of a node.
pub mod doctor;
mod doctor_command;
/// What a measurement says.
pub mod explain;
mod explain_command;
mod figure;
/// What others wrote.
pub mod import;
mod import_command;
/// Where ranks run, and what becomes of them.
pub mod launch;
/// Ranks started by us somewhere else.
pub mod launcher;
/// Mistakes in NCCL_* and UCX_* settings.
pub mod lint;
mod lint_command;
mod list_command;
mod local_time;
/// What this machine is.
pub mod machine;
/// A machine that a word of the command line names.
pub mod machine_argument;
/// One rank's measurement.
pub mod measure;
mod nearest;
/// What was asked.
pub mod options;
mod output_file;
mod outputs;
mod plugin;
mod printable;
mod quantity;
/// What others measured.
pub mod references;
mod references_command;
/// From a record to what is read.
pub mod render;
mod report;
mod report_command;
mod show;
/// Where records live.
pub mod store;
/// One job under several environments.
pub mod sweep;
/// The tree of devices of a host, and what it allows.
pub mod topo;
mod topo_command;
/// One job over several transports.
pub mod transports;

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Result;
use model::exit::Exit;
use options::{Command, Environment};
use printable::Printable;
use thiserror::Error;

/// An error that knows its exit code; others exit with 1.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct Refusal {
    exit: Exit,
    text: String,
}

impl Refusal {
    /// An error with an exit code.
    pub fn new(exit: Exit, text: impl Into<String>) -> Refusal {
        Refusal { exit, text: text.into() }
    }

    /// The exit code's meaning.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

/// The program: reads the command line, runs, says what went wrong, and exits.
pub fn main() -> ExitCode {
    let exit = run(std::env::args_os()).unwrap_or_else(|error| {
        if let Some(usage) = error.downcast_ref::<clap::Error>() {
            // Help and version go to stdout with 0, mistakes to stderr with 2.
            let _ = usage.print();
            return if usage.exit_code() == 0 { Exit::Ok } else { Exit::Usage };
        }
        complain(&error)
    });
    ExitCode::from(exit.code())
}

/// Says what went wrong, and how the program ends for it.
fn complain(error: &anyhow::Error) -> Exit {
    // A closed stderr must not turn an exit code into a panic's.
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {error:#}");
    error.downcast_ref::<Refusal>().map_or(Exit::Internal, |refusal| refusal.exit)
}

/// From words to an exit code. Benchmarks go through options, plan, launch, backend, measure, record
/// and render; the other commands start at a record or a text.
fn run(args: impl IntoIterator<Item = OsString>) -> Result<Exit> {
    let args: Vec<OsString> = args.into_iter().collect();
    match options::parse(args.clone())? {
        Command::Bench { benchmark, style, program, mut arguments } => {
            let mut environment = Environment::read(|name| std::env::var(name).ok());
            if let Some(exit) = launcher::run(&mut arguments, &environment, &program, &args)? {
                return Ok(exit);
            }
            if let (Some(launched), Some(word)) = (&mut environment.launched, &arguments.interface)
            {
                launched.interface = Some(word.clone());
            }
            let surroundings = launch::surroundings(&arguments);
            let planned =
                options::plan(benchmark, style, &program, &arguments, &environment, &surroundings);
            match &environment.launched {
                None => {
                    let request = planned.map_err(|e| Refusal::new(e.exit, e.to_string()))?;
                    launch::run(request, environment.alone.as_deref(), &args)
                }
                Some(launched) if launched.rank == 0 => launch::lead(launched, planned, &args),
                Some(launched) => launch::guest(launched, planned, &args),
            }
        }
        Command::Algorithms(arguments) => algorithms_command::run(&arguments),
        Command::Text(text) => {
            answer::answer(|out, _| out.write_all(text.as_bytes()))?;
            Ok(Exit::Ok)
        }
        Command::Show(arguments) => show::run(&arguments),
        Command::Lint(arguments) => lint_command::run(&arguments),
        Command::Doctor(arguments) => doctor_command::run(&arguments, &args),
        Command::Import(arguments) => import_command::run(&arguments),
        Command::References(arguments) => references_command::run(&arguments),
        Command::List(arguments) => list_command::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Explain(arguments) => explain_command::run(&arguments),
        Command::Report(arguments) => report_command::run(&arguments),
        Command::Plugin(arguments) => plugin::run(&arguments),
        Command::Topo(arguments) => topo_command::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments, &args),
        Command::Transports(arguments) => transports::run(&arguments, &args),
        Command::Fingerprint { rank } => doctor_command::fingerprint(rank),
        Command::Agent => launcher::agent(),
        Command::PluginRule { name, asked } => plugin::rule(&name, &asked),
        Command::PluginPartner { asked } => plugin::partner(&asked),
        Command::LogFilter => backend::mpi::log_filter(),
        Command::Tied(words) => launcher::tied(&words),
        Command::Rank { .. } => launch::rank(),
    }
}
