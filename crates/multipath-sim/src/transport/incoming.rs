//! The receiving end of one path over simulated TCP: headers and bytes are read, acknowledgements are written.
//! Not where bytes belong (`busbw_multipath::Receiver`).

use busbw_multipath::{
    Error, Incoming as Parser, Memory, Pause, Receiver, Request, Target, frame::Answer,
};

use super::Place;
use crate::{Content, Read, Simulation, Socket, tcp::Failure};

/// A path that is up.
pub(super) struct Incoming {
    pub(super) socket: Socket,
    pub(super) parser: Parser<Place>,
    answer: [u8; Answer::BYTES],
    answered: usize,
}

/// Why a path is not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Empty,
    Request,
    End,
    Failed(Failure),
}

impl Incoming {
    pub(super) fn new(socket: Socket, parser: Parser<Place>) -> Incoming {
        Incoming { socket, parser, answer: [0; Answer::BYTES], answered: Answer::BYTES }
    }

    /// Reads until nothing is there. Calls `done(request, bytes)` for messages that are complete.
    ///
    /// # Errors
    /// When the peer says what it may not.
    pub(super) fn read(
        &mut self,
        core: &mut Receiver<Place>,
        simulation: &mut Simulation,
        mut done: impl FnMut(Request, u64),
    ) -> Result<Stop, Error> {
        self.parser.begin();
        let mut is_empty = false;
        let stop = loop {
            if self.parser.is_ready()
                && core.advance(&mut self.parser, &mut done)? == Pause::Request
            {
                break Stop::Request;
            }
            match self.fill(simulation) {
                Ok(0) => {
                    is_empty = true;
                    break Stop::Empty;
                }
                Ok(_) => {}
                Err(stop) => break stop,
            }
        };
        let due = self.parser.acknowledgement(is_empty);
        self.acknowledge(due, simulation);
        Ok(stop)
    }

    /// Reads to where the parser says. Returns how many bytes; 0 where nothing is there.
    fn fill(&mut self, simulation: &mut Simulation) -> Result<usize, Stop> {
        let (rest, frame) = match self.parser.target() {
            Target::Ahead(room) => (0, room.len()),
            Target::Memory { rest, frame, .. } | Target::Nowhere(rest, frame) => {
                (rest, frame.len())
            }
            Target::Buffer(buffer, frame) => (buffer.len(), frame.len()),
        };
        let most = if rest > 0 { rest } else { frame };
        let content = match simulation.read(self.socket, most) {
            Read::Bytes(content) => content,
            Read::Empty => return Ok(0),
            Read::End => return Err(Stop::End),
            Read::Failed(failure) => return Err(Stop::Failed(failure)),
        };
        let bytes = content.bytes();
        match self.parser.target() {
            Target::Ahead(room) => content.copy_to(&mut room[..bytes]),
            Target::Memory { frame, .. } | Target::Nowhere(_, frame) | Target::Buffer(_, frame)
                if rest == 0 =>
            {
                content.copy_to(&mut frame[..bytes]);
            }
            Target::Memory { memory, offset, .. } => {
                memory.part(offset, bytes).write_content(&content);
            }
            Target::Buffer(buffer, _) => content.copy_to(&mut buffer[..bytes]),
            Target::Nowhere(..) => {}
        }
        self.parser.filled(bytes);
        Ok(bytes)
    }

    /// Whether acknowledgements wait for more to arrive, or for room.
    pub(super) fn owes(&self) -> bool {
        self.parser.owes() || self.answered < Answer::BYTES
    }

    /// Acknowledges what it can.
    pub(super) fn acknowledge_all(&mut self, simulation: &mut Simulation) {
        let due = self.parser.last_acknowledgement();
        self.acknowledge(due, simulation);
    }

    fn acknowledge(&mut self, due: Option<u32>, simulation: &mut Simulation) {
        if let Some(count) = due {
            if !self.write_answer(simulation) {
                return;
            }
            self.answer = Answer::Delivered(count).encoded();
            self.answered = 0;
            self.parser.acknowledged();
        }
        self.write_answer(simulation);
    }

    /// Whether the last answer is written completely.
    fn write_answer(&mut self, simulation: &mut Simulation) -> bool {
        if self.answered < Answer::BYTES {
            let rest = Content::of(self.answer[self.answered..].into());
            self.answered += simulation.write(self.socket, &rest);
        }
        self.answered == Answer::BYTES
    }
}
