//! A process of a launcher that is not the first: finds the first one's door, holds ranks as it is told,
//! says nothing on stdout, and exits with the run's exit code.
//! Not the ranks' life (`rank`).

use std::{
    ffi::OsString,
    io::{self, Write},
    os::fd::AsRawFd,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use engine::Control;
use model::exit::Exit;
use rustix::process::{Pid, getppid};
use signal_hook::{iterator::Signals, low_level};

use super::{
    Hello, ToDoor, ToGuest, is_parent,
    line::{Line, files},
    meeting::Meeting,
    patience,
    proof::{self, Side},
    watch_parent,
};
use crate::{
    Refusal,
    launch::{
        guard,
        invite::{self, Devices, Invite},
        rank,
    },
    machine,
    options::{BadOption, Launched, Request},
};

/// Between two attempts to find the door.
const AGAIN: Duration = Duration::from_millis(50);
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
    planned: Result<Request, BadOption>,
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
        Err(bad) => hello.failure = Some((bad.exit, bad.to_string())),
    }
    let mut line = find(&Meeting::of(launched)?, &hello, limit, parent)?;
    let (mut invite, descriptors) = hear(&mut line, parent)?;
    let request = planned.map_err(|bad| Refusal::new(bad.exit, bad.to_string()))?;
    if let Some(gpus) = &request.gpus {
        invite.devices = Devices::of_gpus(&request.plan, gpus);
    }
    if let Some(libraries) = &request.mpi {
        let cpu = machine::read(&machine::Root::system()).cpu;
        invite.devices = Devices::of_mpi(&request.plan, libraries, &cpu);
    }
    invite.host.clone_from(&hello.host);
    for (name, value) in invite.environment() {
        native::environment::set(name, value);
    }
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
    if let (Some(ip), Some((_, port))) = (line.peer(), invite.hub.rsplit_once(':')) {
        let port = port.parse().context("the hub's address is garbled")?;
        invite.hub = std::net::SocketAddr::new(ip, port).to_string();
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
    let mut line = find(&Meeting::of(launched)?, &hello, patience(None), parent)?;
    hear(&mut line, parent)?;
    let text = "the first process has ranks for this one, which only says what it sees";
    Err(Refusal::new(Exit::Internal, text).into())
}

/// Connects and proves ourselves to the first process, which proves itself first.
fn find(meeting: &Meeting, hello: &Hello, limit: Duration, parent: Option<Pid>) -> Result<Line> {
    let by = Instant::now() + limit;
    loop {
        let error = match meeting
            .connect()
            .map_err(anyhow::Error::from)
            .and_then(|line| introduce(line, meeting, hello))
        {
            Ok(line) => return Ok(line),
            Err(error) => error,
        };
        if !is_parent(parent) {
            bail!("the launcher is gone");
        }
        if Instant::now() >= by {
            let text = format!(
                "process {} of {} on {} did not find the first one {} within {} s: {error:#}",
                hello.process,
                hello.size,
                hello.host,
                meeting.describe(),
                limit.as_secs()
            );
            return Err(Refusal::new(Exit::Timeout, text).into());
        }
        std::thread::sleep(AGAIN);
    }
}

fn introduce(mut line: Line, meeting: &Meeting, hello: &Hello) -> Result<Line> {
    line.set_read_timeout(Some(ANSWER))?;
    let asked = invite::token()?;
    line.send(&ToDoor::Knock { nonce: asked.clone() })?;
    let ToGuest::Challenge { proof, nonce } = line.receive()? else {
        bail!("who listens there does not answer as busbw does");
    };
    if !proof::proves(&proof, &meeting.key, Side::Door, &asked) {
        bail!("who listens there is of another job");
    }
    let proof = proof::prove(&meeting.key, Side::Guest, &nonce);
    line.send(&ToDoor::Hello { proof, hello: hello.clone() })?;
    line.set_read_timeout(None)?;
    Ok(line)
}

/// What to run, and how many descriptors follow; exits where the run is over before it began.
fn hear(line: &mut Line, parent: Option<Pid>) -> Result<(Invite, usize)> {
    while !line.is_ready(Duration::from_millis(500)) {
        if !is_parent(parent) {
            bail!("the launcher is gone");
        }
    }
    match line.receive() {
        Ok(ToGuest::Welcome { invite, descriptors }) => Ok((*invite, descriptors)),
        Ok(ToGuest::End(exit)) => low_level::exit(exit.code().into()),
        Ok(ToGuest::Challenge { .. } | ToGuest::Stop) | Err(_) => {
            Err(Refusal::new(Exit::RankLost, "the first process of this run is gone").into())
        }
    }
}

/// Does what the first process says, and ends when it is gone.
fn follow(mut reader: Line, control: &Arc<Control>) {
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
    let mut signals = Signals::new(guard::terminating()).context("cannot take signals")?;
    let line = Arc::clone(line);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in &mut signals {
                tell(&line, &ToDoor::Signalled(signal));
                guard::exit_after(SIGNALLED);
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

fn tell(line: &Mutex<Line>, message: &ToDoor) {
    // A broken connection shows where it is read.
    let _ = line.lock().unwrap_or_else(PoisonError::into_inner).send(message);
}
