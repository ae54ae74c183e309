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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::{frame::frame, launched::Launched};

    fn rendezvous(secret: &str) -> Rendezvous {
        let secret = Some(secret.to_owned());
        let job = Some("handshake".to_owned());
        Rendezvous::of(&Launched { job, secret, ..Launched::planned(2, true) }).unwrap()
    }

    fn pair() -> (FramedStream, PendingConnection) {
        let (one, other) = UnixStream::pair().unwrap();
        let [one, other] = [one, other].map(|stream| FramedStream::from_unix(stream).unwrap());
        (one, PendingConnection::new(other))
    }

    /// A worker with `secret` at a coordinator with "right": what each of them gets.
    fn meet(secret: &str) -> (Result<Handshake>, Result<JoinRequest>, Option<String>) {
        let (stream, mut pending) = pair();
        let join = JoinRequest::of_this_process(&Launched::planned(2, true), &["busbw".into()]);
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || shake_hands(stream, &rendezvous(secret), &join));
            let request = loop {
                assert!(pending.stream.is_ready(HANDSHAKE_TIMEOUT));
                if let Some(end) = pending.shake_hands(&rendezvous("right")).transpose() {
                    break end;
                }
            };
            (worker.join().unwrap(), request, pending.other_version())
        })
    }

    #[test]
    fn whoever_knows_the_secret_joins() {
        let (worker, request, other) = meet("right");
        assert!(matches!(worker, Ok(Handshake::Joined(_))), "{worker:?}");
        assert_eq!((request.unwrap().pid, other), (std::process::id(), None));
        let (worker, request, other) = meet("wrong");
        let text = "the busbw that listens there belongs to another job";
        assert_eq!(worker.unwrap_err().to_string(), text);
        assert!(request.is_err() && other.is_none());
    }

    /// docs/launchers.md promises it to every version.
    #[test]
    fn the_first_message_keeps_its_form() {
        let hello = Hello { protocol: 7, version: "0.1.0".to_owned(), nonce: "ab".to_owned() };
        let text = r#"{"protocol":7,"version":"0.1.0","nonce":"ab"}"#;
        assert_eq!(serde_json::to_string(&hello).unwrap(), text);
        let later = r#"{"later":[1],"nonce":"ab","version":"0.1.0","protocol":7}"#;
        assert_eq!(serde_json::from_str::<Hello>(later).unwrap().protocol, 7);
    }

    #[test]
    fn a_worker_hears_the_coordinators_version() {
        let (stream, PendingConnection { stream: coordinator, .. }) = pair();
        let nonce = "of a later form".to_owned();
        let later = Hello { protocol: PROTOCOL + 1, version: "9.9.9".to_owned(), nonce };
        coordinator.send(&later).unwrap();
        let join = JoinRequest::of_this_process(&Launched::planned(2, true), &["busbw".into()]);
        let error = shake_hands(stream, &rendezvous("right"), &join).unwrap_err();
        let text = format!(
            "this process is busbw {}, and rank 0 is busbw 9.9.9: install one version on all hosts: its rendezvous has protocol {}, and this one has {PROTOCOL}",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(format!("{error:#}"), text);
    }

    #[test]
    fn a_coordinator_answers_another_version_and_names_it() {
        let (worker, mut pending) = pair();
        let nonce = String::new();
        let later = Hello { protocol: PROTOCOL + 1, version: "9.9.9\u{1b}[0m".to_owned(), nonce };
        worker.send(&later).unwrap();
        assert!(pending.shake_hands(&rendezvous("right")).is_err());
        let other = pending.other_version().unwrap();
        assert!(other.starts_with("9.9.9") && other.ends_with(" on this host"), "{other}");
        assert!(!other.contains('\u{1b}'));
        let answer: Hello = worker.receive_from(Peer::Unauthenticated).unwrap();
        assert_eq!((answer.protocol, &*answer.version), (PROTOCOL, env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn whoever_sends_something_else_gets_no_answer() {
        let garbage = frame(|payload| Ok(payload.extend(b"{{{{"))).unwrap();
        let too_long = ((1u32 << 20) + 1).to_le_bytes().to_vec();
        for bytes in [garbage, too_long] {
            let (FramedStream::Unix(mut other), mut pending) = pair() else { unreachable!() };
            std::io::Write::write_all(&mut other, &bytes).unwrap();
            assert!(pending.shake_hands(&rendezvous("right")).is_err());
            drop(pending);
            assert_eq!(std::io::Read::read(&mut other, &mut [0; 9]).unwrap(), 0);
        }
    }
}
