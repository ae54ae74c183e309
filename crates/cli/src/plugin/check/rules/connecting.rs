//! How connections begin. One service thread of NCCL's begins all of them in turns: a call that
//! blocks for one connection delays others that are needed first.
//! Not messages.

use std::{
    io::{BufRead, BufReader, Write},
    time::{Duration, Instant},
};

use busbw_ffi::net::Handle;
use nccl_plugin_abi::net::HANDLE_BYTES;

use super::with_device;
use crate::plugin::check::{
    RuleOutcome,
    child::{self, Asked},
    subject::{Line, Message, Outcome, Subject, until, words},
};
use busbw_core::hidden_commands::PARTNER;

/// How long a call may take that must not block.
const NON_BLOCKING_LIMIT: Duration = Duration::from_millis(100);
/// The most calls that may take longer, because another process had the processor.
const MAX_SLOW_CALLS: usize = 2;
/// How long an accept without a peer is polled.
const POLL_TIME: Duration = Duration::from_secs(2);

/// Polls until there is a result, and reports how long calls took if too many took too long. It
/// does not poll again after a result.
fn returns<T>(what: &str, mut ask: impl FnMut() -> Outcome<Option<T>>) -> Outcome<Option<T>> {
    let (by, mut slow) = (Instant::now() + POLL_TIME, Vec::new());
    loop {
        let begun = Instant::now();
        let there = ask()?;
        let took = begun.elapsed();
        if took > NON_BLOCKING_LIMIT {
            slow.push(took.as_millis().to_string());
        }
        if slow.len() > MAX_SLOW_CALLS {
            return Err(format!("{what} took {} ms", slow.join(", ")));
        }
        if there.is_some() || Instant::now() > by {
            return Ok(there);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn connect_returns(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        // Nobody accepts; connect may complete without. Several connections, since the first call
        // of one may complete it.
        let mut kept = Vec::new();
        for _ in 0..=MAX_SLOW_CALLS {
            let (listener, mut handle) = subject.listen()?;
            let begun = Instant::now();
            let first = subject.connect(&mut handle)?;
            kept.push((listener, handle, first, begun.elapsed()));
        }
        let slow: Vec<Duration> =
            kept.iter().map(|one| one.3).filter(|t| *t > NON_BLOCKING_LIMIT).collect();
        if slow.len() > MAX_SLOW_CALLS {
            return Err(format!("each first call took {slow:?}"));
        }
        if let Some((_, handle, None, _)) = kept.iter_mut().find(|one| one.2.is_none()) {
            returns("connect to a peer that does not accept", || subject.connect(handle))?;
        }
        drop(kept);
        // There is no peer at all: an error is as good as no result yet.
        let (listener, mut handle) = subject.listen()?;
        listener.close().map_err(words)?;
        let mut over = false;
        returns("connect to a peer that is gone", || {
            over = over || subject.connect(&mut handle).is_err();
            Ok(over.then_some(()))
        })?;
        Ok(())
    })
}

pub(super) fn accept_returns(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let (mut listener, _) = subject.listen()?;
        match returns("accept without a peer", || listener.accept().map_err(words))? {
            None => Ok(()),
            Some(_) => Err("accept returned a connection, but nobody had connected".to_owned()),
        }
    })
}

pub(super) fn same_handle(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || {
        let (mut listener, mut handle) = subject.listen()?;
        let mut sender = None;
        // Several calls before anybody accepts.
        for _ in 0..10 {
            sender = sender.or(subject.connect(&mut handle)?);
            if sender.is_some() {
                break;
            }
        }
        let mut receiver = None;
        until("connecting with the same handle", || {
            if sender.is_none() {
                sender = subject.connect(&mut handle)?;
            }
            receiver = match receiver.take() {
                None => listener.accept().map_err(words)?,
                there => there,
            };
            Ok((sender.is_some() && receiver.is_some()).then_some(()))
        })?;
        let (sender, receiver) = sender.zip(receiver).ok_or("no connection")?;
        carries(Line::new(sender, receiver, 4096)?)
    })
}

/// Sends a message, and closes everything.
fn carries(mut line: Line) -> Outcome {
    line.exchange(&[Message { at: 0, bytes: 1000, room: 1000 }])?;
    line.close()
}

pub(super) fn out_of_order(subject: &Subject) -> Outcome<RuleOutcome> {
    const PEERS: usize = 4;
    with_device(subject, || {
        let mut listeners = Vec::new();
        for _ in 0..PEERS {
            listeners.push(subject.listen()?);
        }
        // The last one first, whatever the other connections wait for.
        let mut senders: Vec<_> = (0..PEERS).map(|_| None).collect();
        let mut lines = Vec::new();
        for at in (0..PEERS).rev() {
            let mut receiver = None;
            until(&format!("accepting connection {at} of {PEERS} before those before it"), || {
                for (sender, (_, handle)) in senders.iter_mut().zip(&mut listeners) {
                    if sender.is_none() {
                        *sender = subject.connect(handle)?.map(Some);
                    }
                }
                if receiver.is_none() {
                    receiver = listeners[at].0.accept().map_err(words)?;
                }
                Ok((senders[at].is_some() && receiver.is_some()).then_some(()))
            })?;
            let (sender, receiver) =
                senders[at].take().flatten().zip(receiver).ok_or("no connection")?;
            // It is not polled again.
            senders[at] = Some(None);
            lines.push(Line::new(sender, receiver, 4096)?);
        }
        drop(listeners);
        // Each connection leads to its own peer.
        for mut line in lines {
            line.exchange(&[Message { at: 0, bytes: 1000, room: 1000 }])?;
            line.close()?;
        }
        Ok(())
    })
}

pub(super) fn close_listener(subject: &Subject) -> Outcome<RuleOutcome> {
    with_device(subject, || carries(subject.line(4096)?))
}

/// The partner process listens; this process never does.
pub(super) fn before_listen(subject: &Subject) -> Outcome<RuleOutcome> {
    const GARBLED: &str = "the other process sent no handle";
    with_device(subject, || {
        let other = child::start(PARTNER, &[], &subject.asked);
        let mut other = other.map_err(|error| format!("{error:#}"))?;
        let mut lines = BufReader::new(other.stdout.take().ok_or(GARBLED)?).lines();
        let mut next = move || lines.next().and_then(Result::ok);
        // Plugins may print to stdout, too.
        let text = std::iter::from_fn(&mut next).find_map(|line| handle_of(&line));
        let mut handle = text.ok_or(GARBLED)?;
        let mut sender = until("connecting to another process", || subject.connect(&mut handle))?;
        let memory = busbw_ffi::net::Memory::new(4096).map_err(|error| error.to_string())?;
        sender.register(&memory).map_err(words)?;
        memory.part(0..1000).map_err(|busy| busy.to_string())?.fill(7);
        let ticket = until("a request", || sender.isend(&memory, 0..1000, 0).map_err(words))?;
        until("sending to another process", || {
            Ok(sender.test(ticket).map_err(words)?.then_some(()))
        })?;
        let said = std::iter::from_fn(&mut next).find(|line| line.starts_with(ARRIVED));
        let _ = other.kill();
        let _ = other.wait();
        said.map(|_| ()).ok_or_else(|| "the message did not arrive there".to_owned())
    })
}

const HANDLE: &str = "handle ";
const ARRIVED: &str = "arrived";

fn handle_of(line: &str) -> Option<Handle> {
    let text = line.strip_prefix(HANDLE)?;
    let mut bytes = [0; HANDLE_BYTES];
    for (at, to) in bytes.iter_mut().enumerate() {
        *to = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(Handle(bytes))
}

/// The partner process of `before_listen`: listens, and receives one message.
pub(in crate::plugin::check) fn be_partner(asked: &Asked) -> Outcome {
    let subject = Subject::open(asked)?;
    let (mut listener, handle) = subject.listen()?;
    let text: String = handle.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let say = |text: &str| {
        let mut out = std::io::stdout();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| error.to_string())
    };
    say(&format!("{HANDLE}{text}"))?;
    let mut receiver = until("accepting", || listener.accept().map_err(words))?;
    let memory = busbw_ffi::net::Memory::new(4096).map_err(|error| error.to_string())?;
    receiver.register(&memory).map_err(words)?;
    let ticket = until("a request", || receiver.irecv(&memory, 0..1000, 0).map_err(words))?;
    let bytes = until("receiving", || receiver.test(ticket).map_err(words))?;
    let came = memory.part(0..1000).map_err(|busy| busy.to_string())?;
    if bytes == 1000 && came.iter().all(|byte| *byte == 7) {
        say(ARRIVED)?;
    }
    // The sender may still test its request.
    std::thread::sleep(Duration::from_secs(5));
    Ok(())
}
