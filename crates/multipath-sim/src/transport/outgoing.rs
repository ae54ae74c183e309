//! The sending end of one path over simulated TCP: chunks are written, acknowledgements are read.
//! Not which chunks (`busbw_multipath::Sender`).

use busbw_multipath::{
    Chunk, Health, Loss, Memory, Port, Time,
    frame::{Answer, Frame},
};

use super::Place;
use crate::{Content, Read, Simulation, Socket, tcp::Failure};

/// A path that is up.
pub(super) struct Outgoing {
    pub(super) socket: Socket,
    pub(super) port: u16,
    /// Chunks that are being written.
    chunks: Vec<Chunk<Place>>,
    /// What of `parts` is written; nothing where nothing is being written.
    written: Option<usize>,
    /// Frames, each with its chunk's bytes behind it.
    bytes: usize,
    answer: Vec<u8>,
}

impl Outgoing {
    pub(super) fn new(socket: Socket, port: u16) -> Outgoing {
        Outgoing { socket, port, chunks: Vec::new(), written: None, bytes: 0, answer: Vec::new() }
    }

    /// Whether the rest of something waits for room.
    pub(super) fn is_writing(&self) -> bool {
        self.written.is_some()
    }

    /// Chunks that are being written: tiny ones together, of which the first may be written completely.
    pub(super) fn writing(&mut self) -> &mut [Chunk<Place>] {
        &mut self.chunks
    }

    /// How many of them are not written completely.
    pub(super) fn unwritten(&self) -> usize {
        let mut end = 0;
        let is_unwritten = |chunk: &&Chunk<Place>| {
            end += Frame::BYTES + chunk.header.bytes();
            self.written.is_some_and(|written| written < end)
        };
        self.chunks.iter().filter(is_unwritten).count()
    }

    /// Writes what `next` gives until there is no room (then false) or nothing more (then true).
    pub(super) fn write(
        &mut self,
        simulation: &mut Simulation,
        mut next: impl FnMut(Time, &mut Vec<Chunk<Place>>),
    ) -> bool {
        loop {
            if self.written.is_none() {
                next(simulation.now(), &mut self.chunks);
                if self.chunks.is_empty() {
                    return true;
                }
                let bytes = |chunk: &Chunk<Place>| Frame::BYTES + chunk.header.bytes();
                self.bytes = self.chunks.iter().map(bytes).sum();
                self.written = Some(0);
            }
            if !self.go_on(simulation) {
                return false;
            }
        }
    }

    /// Writes on. Whether everything is written.
    fn go_on(&mut self, simulation: &mut Simulation) -> bool {
        let Some(mut written) = self.written else { return true };
        while written < self.bytes {
            let room = simulation.room(self.socket);
            if room == 0 {
                self.written = Some(written);
                return false;
            }
            let content = self.content(written, room);
            written += simulation.write(self.socket, &content);
        }
        self.chunks.clear();
        self.written = None;
        true
    }

    /// What is to be written from `from` on, at most so much, and no more than there is in one place.
    fn content(&self, mut from: usize, most: usize) -> Content {
        for Chunk { header, memory } in &self.chunks {
            if from < Frame::BYTES {
                let frame = Content::of(Frame::Chunk(*header).encoded().as_slice().into());
                return frame.part(from..Frame::BYTES.min(from + most));
            }
            from -= Frame::BYTES;
            let bytes = header.bytes();
            if from < bytes {
                return memory.part(from, most.min(bytes - from)).content();
            }
            from -= bytes;
        }
        let ping = Content::of(Frame::Ping.encoded().as_slice().into());
        ping.part(from..Frame::BYTES.min(from + most))
    }

    /// Asks the receiver to acknowledge, unless a chunk is being written anyway.
    pub(super) fn ping(&mut self, simulation: &mut Simulation) {
        if self.written.is_none() {
            (self.written, self.bytes) = (Some(0), Frame::BYTES);
            self.go_on(simulation);
        }
    }

    /// Reads acknowledgements: how many chunks they acknowledge, if any arrived, and whether the path is still there.
    pub(super) fn read(&mut self, simulation: &mut Simulation) -> (Option<u32>, Option<Loss>) {
        let mut delivered = None;
        let loss = loop {
            match simulation.read(self.socket, 128) {
                Read::Empty => break None,
                Read::End => break Some(ended("the peer has closed it", false)),
                Read::Failed(failure) => break Some(ended_by(failure)),
                Read::Bytes(content) => {
                    let from = self.answer.len();
                    self.answer.resize(from + content.bytes(), 0);
                    content.copy_to(&mut self.answer[from..]);
                    while let Some((&answer, rest)) = self.answer.split_first_chunk() {
                        match Answer::decoded(&answer) {
                            Some(Answer::Delivered(count)) => {
                                delivered = Some(delivered.unwrap_or(0) + count);
                            }
                            other => unreachable!("{other:?} on a path"),
                        }
                        self.answer = rest.to_vec();
                    }
                }
            }
        };
        (delivered, loss)
    }

    /// What the kernel knows of the connection.
    pub(super) fn health(&self, simulation: &mut Simulation) -> Health {
        let Some(info) = simulation.info(self.socket) else { return Health::default() };
        let unwritten = self.written.map_or(0, |written| self.bytes - written);
        Health {
            is_in_flight: info.unacknowledged > 0,
            timeouts: info.timeouts,
            silence: info.silence,
            undelivered: Some(info.unacknowledged_bytes as usize + unwritten),
            port: Some(Port(self.port)),
            round_trip: info.round_trip,
        }
    }
}

pub(super) fn ended(why: &str, timed_out: bool) -> Loss {
    Loss::Ended { why: why.to_owned(), timed_out }
}

pub(super) fn ended_by(failure: Failure) -> Loss {
    ended(&format!("{failure:?}"), failure == Failure::TimedOut)
}
