//! A plugin under test: connections between two ends of one process, messages over them, and waits
//! with a limit.
//! Not what is expected.

use std::{
    ops::Range,
    rc::Rc,
    time::{Duration, Instant},
};

use busbw_ffi::net::{Handle, Listener, Memory, NetError, Plugin, Receiver, Sender, Ticket};
use nccl_plugin_abi::net::MAX_REQUESTS;

use super::child::Asked;

/// How long an operation may take that NCCL would wait for.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The device under test.
pub(super) const DEVICE: usize = 0;

/// The result of a call that must succeed.
pub(super) type Outcome<T = ()> = Result<T, String>;

/// A plugin's error in words.
pub(super) fn words(error: NetError) -> String {
    error.to_string()
}

/// Polls until there is a result.
pub(super) fn until<T>(what: &str, mut ask: impl FnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    let by = Instant::now() + CALL_TIMEOUT;
    loop {
        if let Some(there) = ask()? {
            return Ok(there);
        }
        if Instant::now() > by {
            return Err(format!("{what}: not within {} s", CALL_TIMEOUT.as_secs()));
        }
        std::thread::yield_now();
    }
}

/// The plugin under test.
pub(super) struct Subject {
    pub(super) plugin: &'static Plugin,
    pub(super) asked: Asked,
    pub(super) devices: usize,
}

impl Subject {
    pub(super) fn open(asked: &Asked) -> Outcome<Subject> {
        let plugin = Plugin::open(&asked.word, asked.version).map_err(|error| error.to_string())?;
        let devices = plugin.devices().map_err(words)?;
        Ok(Subject { plugin, asked: asked.clone(), devices })
    }

    pub(super) fn listen(&self) -> Outcome<(Listener, Handle)> {
        self.plugin.listen(DEVICE).map_err(words)
    }

    pub(super) fn connect(&self, handle: &mut Handle) -> Outcome<Option<Sender>> {
        self.plugin.connect(DEVICE, handle).map_err(words)
    }

    /// Both ends of a connection, created in turns, as NCCL's service threads do.
    pub(super) fn pair(&self) -> Outcome<(Sender, Receiver)> {
        self.pair_over(DEVICE)
    }

    /// The same over another device.
    pub(super) fn pair_over(&self, device: usize) -> Outcome<(Sender, Receiver)> {
        let (mut listener, mut handle) = self.plugin.listen(device).map_err(words)?;
        let (mut sender, mut receiver) = (None, None);
        until("connecting", || {
            if sender.is_none() {
                sender = self.plugin.connect(device, &mut handle).map_err(words)?;
            }
            if receiver.is_none() {
                receiver = listener.accept().map_err(words)?;
            }
            Ok((sender.is_some() && receiver.is_some()).then_some(()))
        })?;
        // As NCCL does at once.
        listener.close().map_err(words)?;
        sender.zip(receiver).ok_or_else(|| "no connection".to_owned())
    }

    /// The same with memory at both ends.
    pub(super) fn line(&self, bytes: usize) -> Outcome<Line> {
        let (sender, receiver) = self.pair()?;
        Line::new(sender, receiver, bytes)
    }
}

/// A connection with memory at both ends.
pub(super) struct Line {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) out: Rc<Memory>,
    pub(super) back: Rc<Memory>,
}

/// This byte follows the received data.
const FILL_BYTE: u8 = 0xa5;

/// Byte `at` of message `message`.
fn byte(message: usize, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8) ^ message.wrapping_mul(97)) as u8
}

impl Line {
    pub(super) fn new(mut sender: Sender, mut receiver: Receiver, bytes: usize) -> Outcome<Line> {
        let memory = || Memory::new(bytes.max(1)).map_err(|error| error.to_string());
        let (out, back) = (memory()?, memory()?);
        sender.register(&out).map_err(words)?;
        receiver.register(&back).map_err(words)?;
        back.part(0..back.bytes()).map_err(|busy| busy.to_string())?.fill(FILL_BYTE);
        Ok(Line { sender, receiver, out, back })
    }

    /// Writes message `message` to a part of the send buffer.
    pub(super) fn write(&self, message: usize, bytes: Range<usize>) -> Outcome {
        let mut part = self.out.part(bytes).map_err(|busy| busy.to_string())?;
        part.iter_mut().enumerate().for_each(|(at, to)| *to = byte(message, at));
        Ok(())
    }

    /// Whether message `message` arrived, and nothing was written behind it up to the end of its
    /// room.
    pub(super) fn holds(&self, message: usize, room: Range<usize>, bytes: usize) -> Outcome {
        let part = self.back.part(room.clone()).map_err(|busy| busy.to_string())?;
        let wrong = part
            .iter()
            .enumerate()
            .position(|(at, is)| *is != if at < bytes { byte(message, at) } else { FILL_BYTE });
        match wrong {
            None => Ok(()),
            Some(at) if at < bytes => {
                Err(format!("message {message} of {bytes} bytes: byte {at} is wrong"))
            }
            Some(at) => Err(format!(
                "message {message} of {bytes} bytes: byte {at} of its room was written, too"
            )),
        }
    }

    /// Sends and receives the messages, each in its own room, with as many requests open as NCCL
    /// may have. Only the oldest request of each end is tested. Then verifies all messages.
    pub(super) fn exchange(&mut self, messages: &[Message]) -> Outcome {
        for (number, message) in messages.iter().enumerate() {
            self.write(number, message.from(message.bytes))?;
        }
        let (mut posted, mut begun) = (0, 0);
        let mut sends: std::collections::VecDeque<Ticket> = std::collections::VecDeque::new();
        let mut recvs: std::collections::VecDeque<Ticket> = std::collections::VecDeque::new();
        let mut came = Vec::new();
        let what = format!("{} messages", messages.len());
        until(&what, || {
            while posted < messages.len() && recvs.len() < MAX_REQUESTS {
                let room = messages[posted].from(messages[posted].room);
                let Some(ticket) = self.receiver.irecv(&self.back, room, 0).map_err(words)? else {
                    break;
                };
                recvs.push_back(ticket);
                posted += 1;
            }
            while begun < messages.len() && sends.len() < MAX_REQUESTS {
                let from = messages[begun].from(messages[begun].bytes);
                let Some(ticket) = self.sender.isend(&self.out, from, 0).map_err(words)? else {
                    break;
                };
                sends.push_back(ticket);
                begun += 1;
            }
            if let Some(oldest) = sends.front()
                && self.sender.test(*oldest).map_err(words)?
            {
                sends.pop_front();
            }
            if let Some(oldest) = recvs.front()
                && let Some(bytes) = self.receiver.test(*oldest).map_err(words)?
            {
                recvs.pop_front();
                came.push(bytes);
            }
            let all = came.len() == messages.len() && begun == messages.len() && sends.is_empty();
            Ok(all.then_some(()))
        })
        .map_err(|why| {
            format!("{why}; {} arrived, {} of {begun} sends are open", came.len(), sends.len())
        })?;
        for (number, (message, came)) in messages.iter().zip(came).enumerate() {
            if came != message.bytes {
                return Err(format!(
                    "message {number} of {} bytes in a room of {}: test reported {came}",
                    message.bytes, message.room
                ));
            }
            self.holds(number, message.from(message.room), message.bytes)?;
        }
        Ok(())
    }

    pub(super) fn close(self) -> Outcome {
        self.sender.close().map_err(words)?;
        self.receiver.close().map_err(words)
    }
}

/// A message, at the same offset on both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) at: usize,
    pub(super) bytes: usize,
    /// Room to receive it, at least as long.
    pub(super) room: usize,
}

impl Message {
    fn from(&self, bytes: usize) -> Range<usize> {
        self.at..self.at + bytes
    }

    /// Messages of these bytes one behind the other, and the bytes of all.
    pub(super) fn row(bytes: impl IntoIterator<Item = usize>) -> (Vec<Message>, usize) {
        let mut at = 0;
        let messages = bytes.into_iter().map(|bytes| {
            let message = Message { at, bytes, room: bytes };
            at += bytes.next_multiple_of(64);
            message
        });
        let messages = messages.collect();
        (messages, at)
    }
}
