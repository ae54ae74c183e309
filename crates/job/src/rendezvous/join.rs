//! The worker's side of the handshake, and how often a worker tries.
//! Not the coordinator's side (`accept`), and not what the worker does then (`busbw-runner`).

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use busbw_core::exit::{Exit, ExitError};
use rustix::process::Pid;

use super::{
    HANDSHAKE_TIMEOUT, JoinRequest, ToCoordinator, ToWorker,
    address::Rendezvous,
    authentication::{Side, auth_tag, verify_auth_tag},
    framed_stream::FramedStream,
    hello::Hello,
    is_parent,
};
use crate::frame::Peer;

/// Pause after the first attempt to connect, and the longest pause after later ones.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(20);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(300);

impl Rendezvous {
    /// Connects to the coordinator and completes the handshake, with retries until `limit` as long as `parent` is this
    /// process's parent.
    ///
    /// # Errors
    /// What the last attempt met.
    pub fn join(
        &self,
        request: &JoinRequest,
        limit: Duration,
        parent: Option<Pid>,
    ) -> Result<FramedStream> {
        let deadline = Instant::now() + limit;
        let (mut redirect, mut pause) = (Vec::new(), FIRST_RETRY_DELAY);
        for attempt in 0.. {
            let answer = self
                .connect(&redirect, attempt)
                .map_err(anyhow::Error::from)
                .and_then(|stream| shake_hands(stream, self, request));
            let error = match answer {
                Ok(Handshake::Joined(stream)) => return Ok(stream),
                Ok(Handshake::Redirected(endpoints)) if redirect.is_empty() => {
                    redirect = endpoints;
                    continue;
                }
                Ok(Handshake::Redirected(_)) => {
                    anyhow!("rendezvous redirect loop: its endpoint redirected this process again")
                }
                Err(error) => error,
            };
            if !is_parent(parent) {
                bail!("the launcher has exited");
            }
            if Instant::now() >= deadline {
                let over = match (self.interface(), redirect.as_slice()) {
                    (_, [endpoint, ..]) => format!(", which redirects to {endpoint}"),
                    (Some(chosen), []) => format!(" over --interface {}", chosen.requested()),
                    (None, []) => String::new(),
                };
                let text = format!(
                    "process {} of {} on {} could not join process 0 {}{over} within {} s: {error:#}",
                    request.process,
                    request.size,
                    request.host,
                    self.describe(),
                    limit.as_secs()
                );
                return Err(ExitError::new(Exit::Timeout, text).into());
            }
            // Backoff, spread by process number: there may be thousands of workers.
            std::thread::sleep(pause + Duration::from_millis(request.process as u64 * 7 % 50));
            pause = (pause * 3 / 2).min(MAX_RETRY_DELAY);
        }
        unreachable!("the loop over attempts has no end")
    }
}

/// What a worker reaches.
#[derive(Debug)]
pub(super) enum Handshake {
    /// The coordinator has this process's request.
    Joined(FramedStream),
    /// The coordinator accepts at these endpoints only.
    Redirected(Vec<SocketAddr>),
}

pub(super) fn shake_hands(
    stream: FramedStream,
    rendezvous: &Rendezvous,
    join: &JoinRequest,
) -> Result<Handshake> {
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    let ours = Hello::new()?;
    stream.send(&ours)?;
    let theirs: Hello = stream
        .receive_from(Peer::Unauthenticated)
        .context("the program that listens there does not answer as busbw's rendezvous server")?;
    let redirect = authenticate(&stream, rendezvous, &ours, &theirs).map_err(|error| {
        match theirs.other_version() {
            Some(version) => error.context(format!(
                "this process is busbw {}, and rank 0 is busbw {version}: install one version on all hosts",
                ours.version
            )),
            None => error,
        }
    })?;
    if !redirect.is_empty() {
        return Ok(Handshake::Redirected(redirect));
    }
    let mut request = Box::new(join.clone());
    if let Some(wrong) =
        rendezvous.interface_error().or_else(|| wrong_interface(rendezvous, &stream))
    {
        request.failure.get_or_insert((wrong.exit(), wrong.to_string()));
    }
    let auth_tag = auth_tag(&rendezvous.key, Side::Worker, &theirs.nonce);
    stream.send(&ToCoordinator::Join { auth_tag, request })?;
    stream.set_read_timeout(None)?;
    Ok(Handshake::Joined(stream))
}

/// Authenticates the coordinator; the endpoints to which it redirects.
fn authenticate(
    stream: &FramedStream,
    rendezvous: &Rendezvous,
    ours: &Hello,
    theirs: &Hello,
) -> Result<Vec<SocketAddr>> {
    theirs.check()?;
    let ToWorker::<()>::Authentication { auth_tag, redirect } =
        stream.receive_from(Peer::Unauthenticated)?
    else {
        bail!("the program that listens there is not busbw's rendezvous server");
    };
    if !verify_auth_tag(&auth_tag, &rendezvous.key, Side::Coordinator, &ours.nonce) {
        bail!("the busbw that listens there belongs to another job");
    }
    Ok(redirect)
}

/// The error of a connection whose own address is not on the selected interface.
fn wrong_interface(rendezvous: &Rendezvous, stream: &FramedStream) -> Option<ExitError> {
    let (chosen, at) = (rendezvous.interface()?, stream.local()?);
    let text = format!(
        "the route to process 0 {} leaves from address {at}, which is not on --interface {} (or BUSBW_INTERFACE): give the same interface to all processes, or set MASTER_ADDR to the address of process 0 on that network",
        rendezvous.describe(),
        chosen.requested()
    );
    (!chosen.contains(at)).then(|| ExitError::new(Exit::Usage, text))
}
