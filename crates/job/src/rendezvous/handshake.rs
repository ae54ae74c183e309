//! The handshake, both sides of it: each sends a [`Hello`], whose form never changes, then its authentication tag over
//! the other's nonce; the worker's request to join comes with its tag.
//! Not when a worker tries again (`join`), and not whether it may join (`server`).

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};
use busbw_core::{exit::Exit, exit::ExitError, printable::printable};
use serde::{Deserialize, Serialize};

use super::{
    JoinRequest, ToCoordinator, ToWorker,
    address::Rendezvous,
    authentication::{Side, auth_tag, verify_auth_tag},
    framed_stream::FramedStream,
    token,
};
use crate::frame::{FrameReader, Peer};

/// The protocol of rendezvous and hub. It is raised whenever a message other than [`Hello`] changes.
const PROTOCOL: u32 = 1;
/// How long either side may take.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// First message of both sides. Every busbw understands that of every other, so that different versions are named: a
/// frame with this JSON object (docs/launchers.md). Later versions may add members; these stay.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    protocol: u32,
    /// Version of busbw.
    version: String,
    /// Random; the other side's authentication tag covers it.
    nonce: String,
}

/// What a worker reaches.
#[derive(Debug)]
pub(super) enum Handshake {
    /// The coordinator has this process's request.
    Joined(FramedStream),
    /// The coordinator accepts at these endpoints only.
    Redirected(Vec<SocketAddr>),
}

impl Hello {
    fn new() -> Result<Hello> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Hello { protocol: PROTOCOL, version, nonce: token()? })
    }

    /// # Errors
    /// When the other side's messages cannot be understood.
    fn check(&self) -> Result<()> {
        if self.protocol != PROTOCOL {
            bail!("its rendezvous has protocol {}, and this one has {PROTOCOL}", self.protocol);
        }
        Ok(())
    }

    /// The sender's version for a message, if it is not this one's.
    fn other_version(&self) -> Option<String> {
        let version: String = self.version.chars().take(32).collect();
        (self.version != env!("CARGO_PKG_VERSION")).then(|| printable(&version).into_owned())
    }
}

/// The worker's side.
///
/// # Errors
/// When the other side is not this job's coordinator, or is another version.
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
    let ToWorker::Authentication { auth_tag, redirect } =
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

/// The coordinator's side of a connection that is not authenticated yet.
#[derive(Debug)]
pub(super) struct PendingConnection {
    pub(super) stream: FramedStream,
    reader: FrameReader,
    /// The first message of both sides, once the worker has sent its own.
    hellos: Option<(Hello, Hello)>,
}

impl PendingConnection {
    pub(super) fn new(stream: FramedStream) -> PendingConnection {
        PendingConnection { stream, reader: FrameReader::default(), hellos: None }
    }

    /// Reads the frames that have arrived and answers them; the request to join, once it is authenticated.
    ///
    /// # Errors
    /// When the other side is not a worker of this job, or is another version.
    pub(super) fn shake_hands(&mut self, rendezvous: &Rendezvous) -> Result<Option<JoinRequest>> {
        self.stream.read(&mut self.reader)?;
        while let Some(payload) = self.reader.next(Peer::Unauthenticated)? {
            let Some((ours, _)) = &self.hellos else {
                let (ours, theirs) = (Hello::new()?, serde_json::from_slice(payload)?);
                self.stream.send(&ours)?;
                let (_, theirs) = self.hellos.insert((ours, theirs));
                theirs.check()?;
                let auth_tag = auth_tag(&rendezvous.key, Side::Coordinator, &theirs.nonce);
                let redirect = rendezvous.redirect_for(self.stream.local());
                self.stream.send(&ToWorker::Authentication { auth_tag, redirect })?;
                continue;
            };
            match serde_json::from_slice(payload)? {
                ToCoordinator::Join { auth_tag, request }
                    if verify_auth_tag(&auth_tag, &rendezvous.key, Side::Worker, &ours.nonce) =>
                {
                    return Ok(Some(*request));
                }
                _ => bail!("not of this job"),
            }
        }
        Ok(None)
    }

    /// The version at the other end, and where that is, if it is not this one's.
    pub(super) fn other_version(&self) -> Option<String> {
        let version = self.hellos.as_ref()?.1.other_version()?;
        let at = self
            .stream
            .peer()
            .map_or("this host".to_owned(), |at| at.ip().to_canonical().to_string());
        Some(format!("{version} on {at}"))
    }
}
