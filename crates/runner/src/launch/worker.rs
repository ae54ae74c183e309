//! A process of a launcher that is not the first: finds the first one's door, holds ranks as it is told,
//! says nothing on stdout, and exits with the run's exit code.
//! Not the ranks' life (`rank`).

use std::{
    ffi::OsString,
    io::{self, Write},
    net::SocketAddr,
    os::fd::AsRawFd,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use busbw_core::{exit::Exit, plan::BackendChoice};
use busbw_shm::Control;
use rustix::process::{Pid, getppid};
use signal_hook::{iterator::Signals, low_level};

use crate::{
    launch::{
        invite::{Devices, Invite},
        rank,
    },
    request::Request,
    signals,
};
use busbw_core::exit::ExitError;
use busbw_host::machine;
use busbw_job::rendezvous::{
    Hello, ToDoor, ToGuest, is_parent,
    line::{Line, files},
    meeting::Meeting,
    patience,
    proof::{self, Side},
    token, watch_parent,
};
use busbw_job::{launched::Launched, open_files};

/// Between the first two attempts to find the door, and between later ones at most.
const AGAIN: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(300);
/// How long the first process may take to say what is meant; it has nothing else to do.
const ANSWER: Duration = Duration::from_secs(5);
/// How long one that was told to end by a signal waits for the first process's word.
const SIGNALLED: Duration = Duration::from_secs(6);

/// Takes part in the run of the process that `launched` describes, started with `args`; `planned` is what
/// they lead to on this machine.
///
/// # Errors
/// When there is no run to take part in.
pub fn run(
    launched: &Launched,
    planned: Result<Request, ExitError>,
    args: &[OsString],
) -> Result<Exit> {
    let parent = getppid();
    // Nothing that a library prints can land in the table.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).context("cannot turn stdout away")?;
    let mut hello = Hello::of_this(launched, args);
    let mut limit = patience(None);
    match &planned {
        Ok(request) => {
            hello.backend = request.plan.backend.name().to_owned();
            limit = patience(request.plan.timeout_s);
        }
        Err(bad) => hello.failure = Some((bad.exit(), bad.to_string())),
    }
    let meeting = Meeting::of(launched)?;
    let line = find(&meeting, &hello, limit, parent)?;
    let (mut invite, descriptors) = hear(&line, parent)?;
    let request = planned?;
    if let Some(gpus) = &request.gpus {
        invite.devices = Devices::of_gpus(&request.plan, gpus, request.net.clone());
    }
    if let Some(libraries) = &request.mpi {
        let cpu = machine::read(&machine::Root::system()).cpu;
        invite.devices = Devices::of_mpi(&request.plan, libraries, &cpu);
    }
    if let (BackendChoice::Net, Some(wanted)) = (&request.plan.backend, &request.net) {
        let cpu = machine::read(&machine::Root::system()).cpu;
        invite.devices = Devices::of_net(wanted, &cpu);
    }
    invite.host.clone_from(&hello.host);
    for (name, value) in invite.environment()? {
        busbw_ffi::environment::set(name, value);
    }
    // As received, and opened again to be mapped.
    open_files::raise(2 * descriptors);
    let received = files(line.receive_descriptors(descriptors)?);
    let own;
    if received.is_empty() {
        // On another host than the first process, or possibly.
        own = Control::create(invite.drivers)?;
        invite.control = own.as_raw_fd();
    } else {
        let numbers: Vec<i32> = received.iter().map(AsRawFd::as_raw_fd).collect();
        invite.control = numbers[0];
        let mailboxes = usize::from(invite.mailboxes.is_some());
        invite.mailboxes = numbers.get(1).copied().filter(|_| mailboxes > 0);
        invite.buffers = numbers.get(1 + mailboxes..).unwrap_or_default().to_vec();
    }
    if let (Some(mut hub), Some((_, port))) = (line.peer(), invite.hub.rsplit_once(':')) {
        // With the interface's number, where the address means something on one interface only.
        hub.set_port(port.parse().context("the hub's address is garbled")?);
        invite.hub = hub.to_string();
    }
    let reader = line.try_clone()?;
    let line = Arc::new(Mutex::new(line));
    rank::drive(invite, |control| {
        follow(reader, control);
        heed_signals(&line)?;
        watch_parent(|| low_level::exit(Exit::RankLost.code().into()));
        Ok(())
    })?;
    tell(&line, &ToDoor::Ended);
    loop {
        // The thread that follows the door ends the process.
        std::thread::park();
    }
}

/// Hands `said` to the first process, and waits for the exit code of all.
///
/// # Errors
/// When there is nobody to hand it to, or it is gone.
pub(super) fn hand_over(launched: &Launched, args: &[OsString], said: String) -> Result<Exit> {
    let parent = getppid();
    let hello = Hello { said, ..Hello::of_this(launched, args) };
    let line = find(&Meeting::of(launched)?, &hello, patience(None), parent)?;
    hear(&line, parent)?;
    let text = "the first process has ranks for this one, which only says what it sees";
    Err(ExitError::new(Exit::Internal, text).into())
}

/// Connects and proves ourselves to the first process, which proves itself first.
fn find(meeting: &Meeting, hello: &Hello, limit: Duration, parent: Option<Pid>) -> Result<Line> {
    let by = Instant::now() + limit;
    let (mut instead, mut pause) = (Vec::new(), AGAIN);
    for attempt in 0.. {
        let answer = meeting
            .connect(&instead, attempt)
            .map_err(anyhow::Error::from)
            .and_then(|line| introduce(line, meeting, hello));
        let error = match answer {
            Ok(Answer::In(line)) => return Ok(line),
            Ok(Answer::Instead(places)) if instead.is_empty() => {
                instead = places;
                continue;
            }
            Ok(Answer::Instead(_)) => anyhow::anyhow!("it sends us on from where it sent us to"),
            Err(error) if error.is::<ExitError>() => return Err(error),
            Err(error) => error,
        };
        if !is_parent(parent) {
            bail!("the launcher is gone");
        }
        if Instant::now() >= by {
            let over = match (meeting.interface(), instead.as_slice()) {
                (_, [place, ..]) => format!(", which says to come to {place}"),
                (Some(chosen), []) => format!(" over --interface {}", chosen.word()),
                (None, []) => String::new(),
            };
            let text = format!(
                "process {} of {} on {} did not find the first one {}{over} within {} s: {error:#}",
                hello.process,
                hello.size,
                hello.host,
                meeting.describe(),
                limit.as_secs()
            );
            return Err(ExitError::new(Exit::Timeout, text).into());
        }
        // Not all at the same moment, and less often the longer it takes: there may be thousands of us.
        std::thread::sleep(pause + Duration::from_millis(hello.process as u64 * 7 % 50));
        pause = (pause * 3 / 2).min(LONGEST);
    }
    bail!("there is no end to numbers")
}

/// What the first process answers to who knocks.
enum Answer {
    In(Line),
    /// Come there.
    Instead(Vec<SocketAddr>),
}

fn introduce(line: Line, meeting: &Meeting, hello: &Hello) -> Result<Answer> {
    line.set_read_timeout(Some(ANSWER))?;
    let asked = token()?;
    line.send(&ToDoor::Knock { nonce: asked.clone() })?;
    let ToGuest::Challenge { proof, nonce, instead } = line.receive()? else {
        bail!("who listens there does not answer as busbw does");
    };
    if !proof::proves(&proof, &meeting.key, Side::Door, &asked) {
        bail!("who listens there is of another job");
    }
    if !instead.is_empty() {
        return Ok(Answer::Instead(instead));
    }
    let mut hello = hello.clone();
    if let Some(wrong) = meeting.wrong().or_else(|| aside(meeting, &line)) {
        hello.failure.get_or_insert((wrong.exit(), wrong.to_string()));
    }
    let proof = proof::prove(&meeting.key, Side::Guest, &nonce);
    line.send(&ToDoor::Hello { proof, hello: Box::new(hello) })?;
    line.set_read_timeout(None)?;
    Ok(Answer::In(line))
}

/// Why the way to the first process is not over the interface that was asked for.
fn aside(meeting: &Meeting, line: &Line) -> Option<ExitError> {
    let (chosen, at) = (meeting.interface()?, line.local()?);
    let text = format!(
        "the way to the first process {} begins at its address {at}, not at --interface {} (or BUSBW_INTERFACE): give the same to all processes, or set MASTER_ADDR to the first one's address there",
        meeting.describe(),
        chosen.word()
    );
    (!chosen.holds(at)).then(|| ExitError::new(Exit::Usage, text))
}

/// What to run, and how many descriptors follow; exits where the run is over before it began.
fn hear(line: &Line, parent: Option<Pid>) -> Result<(Invite, usize)> {
    while !line.is_ready(Duration::from_millis(500)) {
        if !is_parent(parent) {
            bail!("the launcher is gone");
        }
    }
    match line.receive() {
        Ok(ToGuest::Welcome { invite, descriptors }) => {
            let invite = serde_json::from_value(invite).context("the invitation is garbled")?;
            Ok((invite, descriptors))
        }
        Ok(ToGuest::End(exit)) => low_level::exit(exit.code().into()),
        Ok(ToGuest::Challenge { .. } | ToGuest::Stop) | Err(_) => {
            Err(ExitError::new(Exit::RankLost, "the first process of this run is gone").into())
        }
    }
}

/// Does what the first process says, and ends when it is gone.
fn follow(reader: Line, control: &Arc<Control>) {
    let control = Arc::clone(control);
    let _ = std::thread::Builder::new().name("door".to_owned()).spawn(move || {
        loop {
            match reader.receive() {
                Ok(ToGuest::Stop) => control.abort(),
                Ok(ToGuest::End(exit)) => low_level::exit(exit.code().into()),
                Ok(ToGuest::Challenge { .. } | ToGuest::Welcome { .. }) | Err(_) => {
                    let _ = writeln!(io::stderr(), "busbw: the first process of this run is gone");
                    low_level::exit(Exit::RankLost.code().into());
                }
            }
        }
    });
}

/// Hands signals to the first process, which got them as well if they were for all.
fn heed_signals(line: &Arc<Mutex<Line>>) -> Result<()> {
    let mut signals = Signals::new(signals::terminating()).context("cannot take signals")?;
    let line = Arc::clone(line);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in &mut signals {
                tell(&line, &ToDoor::Signalled(signal));
                signals::exit_after(SIGNALLED);
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

fn tell(line: &Mutex<Line>, message: &ToDoor) {
    // A broken connection shows where it is read.
    let _ = line.lock().unwrap_or_else(PoisonError::into_inner).send(message);
}
