//! `busbw watch`: how a running job's collectives are, by the files that busbw's profiler writes.
//! Not what they say (`busbw_watch`), and not writing them (`nccl-profiler-busbw`).
//!
//! files -> job -> view -> text, JSON, page, metrics

mod beside;
mod folder;
mod live;
mod metrics;
mod mirror;
mod profiling;
mod sending;
mod serve;
mod text;

pub(crate) use profiling::set_back;
pub(crate) use sending::send;

use std::{io::Write, time::Duration};

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use busbw_core::printable::Printable;
use busbw_render::answer::{answer, json_line};
use busbw_watch::{Job, State, View};

use self::{beside::Beside, folder::Folder, mirror::Mirror, profiling::Profiling};
use crate::{options::WatchArguments, output_file};

/// With `--enable-profiling --once` profilers record so many seconds.
const ENABLED_S: f64 = 10.0;
/// Where nothing else is said, a page that follows a job is about its last so many seconds.
const LAST_S: f64 = 60.0;

/// Runs the command.
///
/// # Errors
/// There are no files, they are of several jobs, what speeds are held against cannot be read, or an output cannot be written.
pub fn run(arguments: &WatchArguments) -> Result<Exit> {
    let mut watch = Watch::new(arguments)?;
    let profiling = watch.enable_profiling()?;
    if arguments.once {
        if let Some(profiling) = profiling {
            // Another second, until what was recorded last is written.
            let last = arguments.last.unwrap_or(ENABLED_S) + 1.0;
            std::thread::sleep(Duration::try_from_secs_f64(last).unwrap_or(Duration::MAX));
            profiling.end()?;
        }
        let (job, view) = watch.look()?;
        watch.metrics(&job, &view)?;
        answer(|out, colour| match arguments.json {
            true => json_line(out, &view),
            false => text::print(out, &view, colour),
        })?;
        return Ok(exit(view.state));
    }
    let ended = watch.follow()?;
    if let Some(profiling) = profiling {
        profiling.end()?;
    }
    Ok(ended)
}

/// The exit code of `--once`.
fn exit(state: State) -> Exit {
    match state {
        State::Fine => Exit::Ok,
        State::Late | State::Hangs => Exit::Internal,
        State::CannotTell => Exit::Impossible,
    }
}

/// A job that is looked at.
struct Watch<'a> {
    arguments: &'a WatchArguments,
    /// What copies the files of other hosts, with `-H`.
    mirror: Option<Mirror>,
    folder: Folder,
    beside: Beside,
    /// What was said of files on stderr.
    said: Vec<String>,
}

impl<'a> Watch<'a> {
    fn new(arguments: &'a WatchArguments) -> Result<Self> {
        let beside = Beside::read(arguments)?;
        let mirror = match &arguments.hosts {
            Some(hosts) => {
                let command = arguments.launcher_command.as_deref();
                Some(Mirror::of(hosts, command, &arguments.sources, !arguments.once)?)
            }
            None => None,
        };
        let folder = match &mirror {
            Some(mirror) => Folder::find(&[mirror.folder().to_owned()])?,
            None => Folder::find(&arguments.sources)?,
        };
        Ok(Self { arguments, mirror, folder, beside, said: Vec::new() })
    }

    /// Follows the job: for scrapers, as lines of JSON, or as a page.
    fn follow(&mut self) -> Result<Exit> {
        let json = self.arguments.json;
        if let Some(address) = &self.arguments.prometheus {
            return serve::serve(address, || {
                let (job, view) = self.look()?;
                self.metrics(&job, &view)?;
                Ok(metrics::text(&job, &view))
            });
        }
        live::follow(json, || {
            let (job, view) = self.look()?;
            self.metrics(&job, &view)?;
            Ok(view)
        })
    }

    /// Has the job's profilers record, where that is asked for.
    fn enable_profiling(&mut self) -> Result<Option<Profiling>> {
        let Some(what) = self.arguments.enable_profiling else { return Ok(None) };
        let address = self.arguments.ras.as_deref().unwrap_or("localhost");
        let (job, _) = self.look()?;
        Profiling::enable(&job, address, what).map(Some)
    }

    /// Reads what is new, and looks at it.
    fn look(&mut self) -> Result<(Job, View)> {
        let unsaid = match (self.arguments.once, self.arguments.enable_profiling) {
            (true, None) => None,
            (true, Some(_)) => Some(ENABLED_S),
            (false, _) => Some(LAST_S),
        };
        let last = self.arguments.last.or(unsaid);
        let last = last.map(|seconds| (seconds * 1e9) as u64);
        if let Some(mirror) = &mut self.mirror {
            mirror.take();
        }
        let (files, refused) = self.folder.read(last)?;
        let of_hosts = self.mirror.as_ref().map_or_else(Vec::new, Mirror::said);
        let is_partial = !of_hosts.is_empty();
        for why in of_hosts.into_iter().chain(refused) {
            if !self.said.contains(&why) {
                let _ = writeln!(Printable::new(std::io::stderr(), false), "busbw: {why}");
                self.said.push(why);
            }
        }
        let job = chosen(Job::of(files), self.arguments.pid)?;
        let mut view = View::of(&job);
        if is_partial && view.state == State::Fine {
            view.state = State::CannotTell;
        }
        self.beside.fill(&job, &mut view);
        Ok((job, view))
    }

    fn metrics(&self, job: &Job, view: &View) -> Result<()> {
        match &self.arguments.metrics {
            Some(file) => output_file::replace(file, &metrics::text(job, view)),
            None => Ok(()),
        }
    }
}

/// The job that is meant.
fn chosen(jobs: Vec<Job>, pid: Option<u32>) -> Result<Job> {
    let is = |job: &Job| pid.is_none_or(|pid| job.peers.iter().any(|one| one.process.pid == pid));
    let usage = |text: String| Err(ExitError::new(Exit::Usage, text).into());
    let (mut meant, others): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is);
    match (meant.len(), pid) {
        (1, _) => Ok(meant.remove(0)),
        (0, Some(pid)) => {
            usage(format!("--pid {pid}: no file is of that process; there are {}", pids(&others)))
        }
        (0, None) => usage(format!("no file of a profiler is here; {HOW}")),
        _ => usage(format!(
            "the files are of {} jobs, which share no communicator: name one by --pid: {}",
            meant.len(),
            pids(&meant)
        )),
    }
}

const HOW: &str = "start the job with NCCL_PROFILER_PLUGIN=$(busbw plugin path profiler)";

/// One process of each job.
fn pids(jobs: &[Job]) -> String {
    let of = |job: &Job| {
        let first = job.peers.first().map_or_else(String::new, |one| one.process.pid.to_string());
        format!("{first} (of {} processes)", job.peers.len())
    };
    jobs.iter().map(of).collect::<Vec<_>>().join(", ")
}
