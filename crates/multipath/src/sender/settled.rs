//! Unreliable paths that keep their order and write to the receiver's memory (UC): what was acknowledged, and what is lost.
//! Not their windows (`congestion`), nor paths that reorder (`datagram`).
//!
//! A chunk is on one path at a time: were it sent again while the first one is on its way, that one might be written into memory
//! that belongs to the receiver's caller again. The order of the path says when it is not: something that was sent behind it
//! has arrived. So a timeout sends nothing again: it sends a ping, whose acknowledgement settles what was sent before.

use std::time::Duration;

use super::{Action, Link, Loss, Sender, path::Path};
use crate::{Error, Request, Settled, Source, Time};

/// A path is given up after so many pings in a row without an answer, which take so long at least, while others deliver.
const UNANSWERED: (u32, Duration) = (6, Duration::from_millis(50));
/// Or after so long, though no other delivers either.
const SILENCE: Duration = Duration::from_secs(10);

impl<M: Source> Sender<M> {
    /// The receiver says which chunks of a path have arrived, and which never will. Calls `done(request, bytes)` for each
    /// message that is complete so.
    ///
    /// # Errors
    /// When it settles what was not sent: the path is to be given up.
    pub fn settled(
        &mut self,
        path: usize,
        settled: &Settled,
        receiver: Time,
        now: Time,
        mut done: impl FnMut(Request, usize),
    ) -> Result<(), Error> {
        let Sender { messages, paths, .. } = self;
        let Path { link: Link::Up(up), window: Some(window), pace, counts, .. } = &mut paths[path]
        else {
            return Ok(());
        };
        let sent = up.first + up.flights.len() as u64;
        if settled.below > sent {
            let below = settled.below;
            let text = format!("a path settles {below} chunks, and {sent} were sent");
            return Err(Error::Protocol(text));
        }
        let (mut bytes, mut newest, mut lost) = (0, None, Vec::new());
        while up.first < settled.below
            && let Some(flight) = up.flights.pop_front()
        {
            let number = up.first;
            up.first += 1;
            let length = flight.chunk.header.bytes();
            up.in_flight -= length;
            if settled.has(number) {
                bytes += length;
                newest = Some(flight.sent);
                if messages.acknowledged(&flight.chunk.header, &mut done) {
                    counts.bytes += length as u64;
                }
            } else {
                window.lost(length);
                lost.push(flight.chunk);
            }
        }
        counts.requeued += lost.len() as u64;
        messages.requeue(lost);
        match newest {
            Some(sent) => {
                window.acknowledged(bytes, now.since(sent), receiver, now);
                if let Some(known) = window.pace() {
                    pace.set(known);
                }
                self.blackholed = None;
            }
            None => window.answered(),
        }
        up.answered(now);
        self.heard = now;
        self.probes.answered();
        Ok(())
    }

    /// Asks the receiver what has arrived by paths that are silent for longer than their timeout. To be called every few
    /// milliseconds while anything is in flight.
    pub fn check_settled(&mut self, now: Time, actions: &mut Vec<Action>) {
        let (known, heard) = (self.known_timeout(), self.heard);
        for (number, path) in self.paths.iter_mut().enumerate() {
            let Path { link: Link::Up(up), window: Some(window), .. } = path else { continue };
            let Some(since) = up.waiting_since() else { continue };
            if now.since(since) < window.timeout(known) {
                continue;
            }
            window.asked(now);
            // The first time the receiver may just have been held up.
            up.is_suspected |= window.timeouts > 1;
            let silence = window.silence(now);
            let others_deliver = heard > since + now.since(since) / 2;
            let (most, least_time) = UNANSWERED;
            let is_dead = others_deliver && window.timeouts > most && silence >= least_time;
            if !is_dead && silence < SILENCE {
                actions.push(Action::Ping(number));
                continue;
            }
            let timeouts = window.timeouts.try_into().unwrap_or(u8::MAX);
            let silence = now.since(since);
            actions.push(Action::GiveUp { path: number, loss: Loss::Silent { silence, timeouts } });
        }
    }
}
