//! Reads the hosts of a job before it runs: every process of its launcher describes its host, process 0 gathers.
//! Not what a host says (`busbw_host::survey`), and not what follows from it.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use busbw_core::{
    exit::{Exit, ExitError},
    hidden_commands::SURVEY,
    printable::Printable,
};
use busbw_ffi::{nvml, search};
use busbw_host::{doctor::Node, machine, survey::Survey};
use busbw_job::launchers::{self, Loss, Placement, RunningJob, job::Job};
use busbw_runner::launch;

use crate::{options, sweep::Interruption, within_job::Leader};

/// How long the hosts of a job may take to describe themselves.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is looked whether the job can still answer.
const LOOK: Duration = Duration::from_millis(200);

/// The program's part in each process: process 0, or the only one, prints all surveys as one line of JSON.
///
/// # Errors
/// A process gives no survey, or stdout cannot be written.
pub fn run(args: &[OsString]) -> Result<Exit> {
    let launched = options::Environment::read(|name| std::env::var(name).ok()).launched;
    let Some(launched) = launched else {
        return print(&[here(0, None, true)]);
    };
    let gpu = launched.local_rank.and_then(|place| u32::try_from(place).ok());
    let whole = launched.local_rank.is_none_or(|place| place == 0);
    let ours = here(launched.rank, gpu, whole);
    let text = serde_json::to_string(&ours).context("cannot serialise a survey")?;
    launch::gather_from_all(&launched, args, text, |texts| {
        let read = |(process, text): (usize, &String)| {
            serde_json::from_str(text).with_context(|| format!("process {process} gave no survey"))
        };
        print(&texts.iter().enumerate().map(read).collect::<Result<Vec<Survey>>>()?)
    })
}

/// This machine, as process `rank` sees it.
pub fn here(rank: usize, gpu: Option<u32>, whole: bool) -> Survey {
    let driver = nvml::driver().map_err(|why| why.to_string());
    let environment = search::Environment::of_process();
    let node = Node::read(machine::Root::system(), environment, driver);
    Survey::take(&node, rank, gpu, whole)
}

fn print(surveys: &[Survey]) -> Result<Exit> {
    let line = serde_json::to_string(surveys).context("cannot serialise the surveys")?;
    writeln!(std::io::stdout(), "{line}").context("cannot write to stdout")?;
    Ok(Exit::Ok)
}

/// How long the hosts of that job may take to describe themselves: pods may wait for nodes and images.
pub fn patience(placement: &Placement) -> Duration {
    TIMEOUT + placement.pods.as_ref().map_or(Duration::ZERO, |pods| pods.wait)
}

/// Surveys the hosts of the job that `placement` describes, through its launcher, within `limit`: one survey a
/// process, in their order.
///
/// # Errors
/// The launcher cannot start the job, a process gives no survey, or `limit` passes.
pub fn hosts(placement: &Placement, limit: Duration) -> Result<Vec<Survey>> {
    let job = Job::of(&Placement { words: vec![SURVEY.into()], ..placement.clone() })?;
    let Some(launcher) = launchers::launcher(job.launcher(placement.launcher)?) else {
        return Ok(vec![here(0, Some(0), true)]);
    };
    let begun = Instant::now();
    // Pods outlive this process: whoever interrupts it waits until they are deleted.
    let interruption = match job.pods {
        Some(_) => Interruption::watch()?,
        None => Interruption::default(),
    };
    let mut job = launcher.start(&job)?;
    let answer = match reading(job.stdout()) {
        Some(text) => within(job.as_mut(), &text, limit, &interruption),
        None => Ok(None),
    };
    if !matches!(answer, Ok(Some(_))) {
        job.abandon();
    }
    let end = job.end();
    if let Some(left) = &end.left {
        // Without a stderr there is nobody to tell.
        let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {left}");
    }
    let Some(text) = answer.map_err(|loss| ExitError::new(loss.exit, loss.text))? else {
        let text = format!(
            "the hosts of the job gave no survey within {} s: {}; start it on fewer hosts to find the one that does not answer",
            begun.elapsed().as_secs(),
            end.text
        );
        return Err(ExitError::new(Exit::Timeout, text).into());
    };
    surveys(&text).map_err(|why| {
        let text = format!("the survey of the job's hosts failed: {why}; {}", end.text);
        let exit = if end.exit() == Exit::Ok { Exit::Library } else { end.exit() };
        ExitError::new(exit, text).into()
    })
}

/// The surveys in what process 0 printed: its last line that is a list in JSON, after whatever a login prints.
///
/// # Errors
/// There is none, or it cannot be read: in words.
fn surveys(text: &str) -> Result<Vec<Survey>, String> {
    // Libraries print lines with a bracket, too: [host:pid].
    let lists = || text.lines().rev().filter(|line| line.starts_with('['));
    if let Some(surveys) = lists().find_map(|line| serde_json::from_str(line).ok()) {
        return Ok(surveys);
    }
    let Some(line) = lists().find(|line| line.starts_with("[{")) else {
        return Err(match text.trim_end().lines().next_back() {
            Some(last) => {
                let shown: String = last.chars().take(80).collect();
                format!("process 0 printed no survey but {} B that end with {shown:?}", text.len())
            }
            None => "process 0 printed nothing".to_owned(),
        });
    };
    let why = serde_json::from_str::<Vec<Survey>>(line).err();
    let why = why.map_or_else(String::new, |why| why.to_string());
    Err(format!("process 0 printed a survey of {} B that cannot be read: {why}", line.len()))
}

/// Surveys the hosts of the launcher's job that this process leads, within `limit`.
///
/// # Errors
/// A process gives no survey, or `limit` passes.
pub(crate) fn of_job(leader: &Leader, limit: Duration) -> Result<Vec<Survey>> {
    let begun = Instant::now();
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
    let mut command = Command::new(&program);
    command.arg(SURVEY).stdin(Stdio::null()).stdout(Stdio::piped());
    leader.order(&[SURVEY.into()], Vec::new(), &mut command)?;
    let child = command.spawn();
    let mut child = child.with_context(|| format!("cannot start {}", program.display()))?;
    let text = child.stdout.take().and_then(|stdout| read_within(stdout, limit));
    if text.is_none() {
        // The other processes' parts end with their connection to this one.
        let _ = child.kill();
    }
    let status = child.wait().context("cannot wait for the survey")?;
    leader.settle(begun.checked_add(limit))?;
    let Some(text) = text else {
        let text = format!(
            "the processes of this launcher's job gave no survey of their hosts within {} s; start it on fewer hosts to find the one that does not answer",
            limit.as_secs()
        );
        return Err(ExitError::new(Exit::Timeout, text).into());
    };
    surveys(&text).map_err(|why| {
        anyhow!("the survey of the job's hosts failed: {why}; it ended with {status}")
    })
}

/// What process 0 of a job prints until it ends; none if that takes longer than `limit`.
///
/// # Errors
/// Why the job cannot go on.
fn within(
    job: &mut dyn RunningJob,
    text: &Receiver<String>,
    limit: Duration,
    interruption: &Interruption,
) -> Result<Option<String>, Loss> {
    let by = Instant::now() + limit;
    loop {
        for line in job.news() {
            // Without a stderr there is nobody to tell.
            let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {line}");
        }
        if let Some(loss) = job.lost() {
            return Err(loss);
        }
        if interruption.is_interrupted() {
            let text = "interrupted while the hosts of the job were read".to_owned();
            return Err(Loss { text, exit: Exit::Interrupted, may_be_stopped: false });
        }
        match text.recv_timeout(LOOK.min(by.saturating_duration_since(Instant::now()))) {
            Ok(text) => return Ok(Some(text)),
            Err(RecvTimeoutError::Timeout) if Instant::now() < by => {}
            Err(_) => return Ok(None),
        }
    }
}

/// What process 0 prints until it ends; none if that takes longer than `limit`.
fn read_within(stdout: impl Read + Send + 'static, limit: Duration) -> Option<String> {
    reading(stdout)?.recv_timeout(limit).ok()
}

/// Reads until the end, in a thread of its own.
fn reading(mut stdout: impl Read + Send + 'static) -> Option<Receiver<String>> {
    let (sender, receiver) = mpsc::channel();
    // Left behind if the limit passes: it ends with the job's stdout.
    let reader = std::thread::Builder::new().name("survey".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    reader.ok()?;
    Some(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_survey_is_quoted() {
        assert_eq!(surveys("Welcome to a\n[]\n[a:12] UCX  WARN\n").map(|all| all.len()), Ok(0));
        assert_eq!(surveys(" \n"), Err("process 0 printed nothing".to_owned()));
        let quoted = surveys("Welcome\nno such file\n").unwrap_err();
        assert_eq!(quoted, "process 0 printed no survey but 21 B that end with \"no such file\"");
        let torn = surveys("[{\"fingerprint\":").unwrap_err();
        assert!(
            torn.starts_with("process 0 printed a survey of 16 B that cannot be read: EOF"),
            "{torn}"
        );
    }
}
