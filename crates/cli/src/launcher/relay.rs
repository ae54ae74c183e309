//! The outputs of a run whose ranks are on other hosts: it reads the run's record as it grows, and writes everything
//! that a local run would write.
//! Not the supervisor: that is process 0 of the job.

use std::{
    ffi::OsString,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use busbw_core::{
    exit::Exit,
    record::{End, LibraryFacts, Line, Status},
};

use super::process_0::{Next, Process0};
use crate::{explain_command::of_this_run, options::BenchArguments};
use busbw_core::environment::SWEPT;
use busbw_core::exit::ExitError;
use busbw_core::printable::Printable;
use busbw_job::launchers::{JobEnd, Launcher, Loss, job::Job};
use busbw_runner::{
    launch,
    outputs::{self, Ended, Files, Flow, Outputs},
    request::RecordPlace,
    signals::Guard,
};
use busbw_store as store;

/// Ends the run as Ctrl-C does.
type Stop = Arc<dyn Fn() + Send + Sync>;

/// How long deleting a job in a cluster may take after Ctrl-C, and after a second one.
const CLUSTER_EXIT_TIMEOUTS: [Duration; 2] = [Duration::from_secs(45), Duration::from_secs(3)];

/// How often a paused reader of stdout is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Starts the job with `launcher`, and writes its outputs.
///
/// # Errors
/// What cannot be opened or started.
pub(super) fn run(
    launcher: &dyn Launcher,
    job: &Job,
    arguments: &BenchArguments,
    record: &RecordPlace,
    program: &str,
    args: &[OsString],
) -> Result<Exit> {
    let guard = match job.pods {
        Some(_) => Guard::watch_within(CLUSTER_EXIT_TIMEOUTS)?,
        None => Guard::watch()?,
    };
    if std::env::var_os(SWEPT).is_some() {
        launch::end_with_parent();
    }
    let id = outputs::run_id(program);
    let mut reader = Reader {
        files: Some(Files::open(record, arguments.json_report.as_deref(), &id)?),
        outputs: None,
        end: None,
        lost: None,
        reader_gone: false,
    };
    let mut started = launcher.start(job)?;
    let interruption = Mutex::new(started.interruption());
    let stop: Stop =
        Arc::new(move || interruption.lock().unwrap_or_else(PoisonError::into_inner)());
    let told = Arc::clone(&stop);
    guard.relay(move |_| told());
    let mut process_0 = Process0::of(started.as_mut())?;
    loop {
        match process_0.next(started.as_mut())? {
            Next::Line(line) => {
                let flow = reader.take(&line, &id, args, arguments, guard.is_signalled())?;
                if let Some(end) = &reader.end {
                    process_0.has_ended(end.exit);
                }
                reader.mind(flow, &guard, &stop)?;
            }
            Next::End => break,
            Next::News(lines) => lines.iter().for_each(|line| reader.say(line)),
            Next::Lost(loss) => {
                reader.lose(loss);
                started.abandon();
                break;
            }
        }
    }
    // Agents say themselves what may be left.
    let has_agents = started.carrier().silence.is_some();
    let news = started.news();
    news.iter().for_each(|line| reader.say(line));
    let how = started.end();
    let left = reader.lost.as_ref().and_then(|_| process_0.end_leftover());
    let left = left.filter(|_| !has_agents);
    for left in how.left.iter().chain(&left) {
        reader.say(left);
    }
    reader.finish(&how, &guard)
}

/// The end of a run that was interrupted before it. Pods that are deleted get SIGTERM one by one: process 0 may see another
/// rank end before its own signal arrives, and then calls that rank lost.
fn of_interrupted(end: End) -> End {
    match (end.status, end.exit) {
        (Status::Failed, Exit::RankLost) => End {
            status: Status::Interrupted,
            exit: Exit::Interrupted,
            message: Some("interrupted".to_owned()),
            ..end
        },
        _ => end,
    }
}

/// The state of the outputs.
struct Reader {
    files: Option<Files>,
    outputs: Option<Outputs>,
    end: Option<End>,
    /// What ended the run from outside, with its exit code.
    lost: Option<(String, Exit)>,
    /// Whether the reader of stdout is gone.
    reader_gone: bool,
}

impl Reader {
    /// Handles one line of process 0's stdout. A line that is no record's goes to stderr.
    fn take(
        &mut self,
        line: &[u8],
        id: &str,
        args: &[OsString],
        arguments: &BenchArguments,
        is_signalled: bool,
    ) -> Result<Flow> {
        let flow = match (store::line::from_text(line), &mut self.outputs) {
            (Ok(Line::Run(mut run)), None) => {
                let Some(files) = self.files.take() else { return Ok(Flow::Continue) };
                run.id = id.to_owned();
                run.args = args.iter().map(|arg| store::masked(&arg.to_string_lossy())).collect();
                let outputs = Outputs::relayed(
                    files,
                    &run.plan,
                    arguments.output(),
                    arguments.talk(),
                    of_this_run(),
                )?;
                self.outputs.insert(outputs).begin(*run)?
            }
            (Ok(Line::Library(facts)), Some(outputs)) => {
                outputs.library(LibraryFacts::Nccl(facts))?
            }
            (Ok(Line::Mpi(facts)), Some(outputs)) => outputs.library(LibraryFacts::Mpi(facts))?,
            (Ok(Line::Net(facts)), Some(outputs)) => outputs.library(LibraryFacts::Net(facts))?,
            (Ok(Line::Paths(stats)), Some(outputs)) => {
                outputs.library(LibraryFacts::Paths(stats))?
            }
            (Ok(Line::Verbs(facts)), Some(outputs)) => {
                outputs.library(LibraryFacts::Verbs(facts))?
            }
            (Ok(Line::Row(row)), Some(outputs)) => outputs.row(*row)?,
            (Ok(Line::End(end)), Some(_)) => {
                self.end = Some(if is_signalled { of_interrupted(*end) } else { *end });
                Flow::Continue
            }
            _ => {
                // Without a stderr there is nobody to tell.
                let _ = io::stderr().write_all(line);
                Flow::Continue
            }
        };
        Ok(flow)
    }

    /// Waits while the reader of stdout pauses, so that rows do not pile up; ends the run when the reader is gone.
    fn mind(&mut self, mut flow: Flow, guard: &Guard, stop: &Stop) -> Result<()> {
        while let (Flow::Held, Some(outputs)) = (flow, &mut self.outputs)
            && !guard.is_signalled()
        {
            flow = outputs.settle(LOOK)?;
        }
        if flow == Flow::ReaderGone && !std::mem::replace(&mut self.reader_gone, true) {
            stop();
        }
        Ok(())
    }

    /// The run cannot go on: why is printed before anything is ended, which may take a while.
    fn lose(&mut self, loss: Loss) {
        let Loss { text: what, exit, may_be_stopped } = loss;
        let text = match (&self.end, may_be_stopped) {
            (Some(_), true) => format!("{what}; it is ended now"),
            (None, true) => format!(
                "{what}; the run is ended. `ps -o stat= -p` and its number print T for a stopped process"
            ),
            (_, false) => what,
        };
        match &mut self.outputs {
            Some(outputs) if self.end.is_none() => outputs.say_early(&text),
            _ => self.say(&text),
        }
        self.lost = Some((text, exit));
    }

    fn say(&self, text: &str) {
        match &self.outputs {
            Some(outputs) => outputs.say(text),
            // Without a stderr there is nobody to tell.
            None => drop(writeln!(Printable::new(io::stderr(), false), "busbw: {text}")),
        }
    }

    /// Writes the last lines; returns the exit code.
    fn finish(self, how: &JobEnd, guard: &Guard) -> Result<Exit> {
        let Some(mut outputs) = self.outputs else {
            if let Some((_, exit)) = self.lost.filter(|_| !guard.is_signalled()) {
                return Ok(exit);
            }
            // What ends one process before the run ends the others by a signal.
            if let Some(why) = how.why.as_ref().filter(|_| !guard.is_signalled()) {
                return Err(ExitError::new(why.exit, why.text.clone()).into());
            }
            // If process 0 is busbw, it has printed why.
            let exit = if guard.is_signalled() { Exit::Interrupted } else { how.exit() };
            return match exit {
                // Exit code 0 without a run: the program was not busbw.
                Exit::Library | Exit::Ok => {
                    let text = format!("{} before the run began", how.text);
                    Err(ExitError::new(Exit::Library, text).into())
                }
                exit => Ok(exit),
            };
        };
        let from_outside = how.why.clone();
        let lost = |loss: Loss| {
            let message = Some(loss.text);
            Ended { status: Status::Failed, exit: loss.exit, message, ..Ended::complete() }
        };
        let is_ours = guard.is_signalled();
        let ended = match (self.end, from_outside) {
            _ if self.reader_gone => Ended { status: Status::ReaderGone, ..Ended::complete() },
            // What ends a pod from outside ends process 0 by a signal, which it takes for the user's.
            (Some(End { status: Status::Interrupted, .. }), Some(loss)) if !is_ours => lost(loss),
            (Some(end), from_outside) => {
                outputs.was_told();
                Ended {
                    status: end.status,
                    exit: end.exit,
                    message: match (from_outside, end.exit) {
                        (Some(loss), exit) if exit != Exit::Ok => Some(match end.message {
                            Some(said) => format!("{said}; {}", loss.text),
                            None => loss.text,
                        }),
                        _ => end.message,
                    },
                    peak_rank_bytes: end.peak_rank_bytes,
                    gpu_memory: end.gpu_memory,
                }
            }
            (None, _) if self.lost.is_some() => {
                let (message, exit) = self.lost.unzip();
                let exit = exit.unwrap_or(Exit::RankLost);
                Ended { status: Status::Failed, exit, message, ..Ended::complete() }
            }
            (None, _) if is_ours => Ended {
                status: Status::Interrupted,
                exit: Exit::Interrupted,
                message: Some("interrupted".to_owned()),
                ..Ended::complete()
            },
            (None, Some(loss)) => lost(loss),
            (None, None) => lost(Loss {
                text: format!("process 0 of the run is gone: {}", how.text),
                exit: Exit::RankLost,
                may_be_stopped: false,
            }),
        };
        outputs.end(&ended, || guard.is_signalled())
    }
}
