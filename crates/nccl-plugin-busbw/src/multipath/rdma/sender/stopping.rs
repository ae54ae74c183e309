//! A path is given up: both ends stop its queue pairs before what it had goes over others.
//! Not why it is given up (`moving`, `upkeep`).
//!
//! What a queue pair has sent may reach the receiver's memory long after. Were the same chunk sent over another path meanwhile,
//! and its message done, the late one would be written into memory that belongs to the receiver's caller again. So the
//! receiver is asked, over the addresses of all paths at once, to stop its own queue pair and to say which chunks have
//! arrived by it; those are acknowledged, the others go elsewhere.

use std::time::Duration;

use busbw_multipath::{
    CONNECTION_TIMEOUT, End, Health, Loss, Request, Settled, Time, frame::Hello,
};

use super::{
    super::exchange::{Talk, Word},
    Connection, PathState, State, Up,
};

/// Between two times that the other end is asked.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

impl Connection {
    /// Stops a path at this end, and asks the other one to.
    pub(super) fn lose(&self, state: &mut State, number: usize, loss: Loss, now: Time) {
        if !self.is_reliable {
            self.read_acknowledgement(state, number);
        }
        let path = &mut state.paths[number];
        match std::mem::replace(&mut path.link, PathState::Down) {
            PathState::Up(Up { pair, .. }) => {
                // What has completed since is counted by the other end.
                drop(pair);
                path.link = PathState::Stopping { loss, since: now, asked: now };
                self.ask(state, number);
            }
            PathState::Offered { .. } | PathState::Proving { .. } => {
                self.not_up(state, number, &loss.to_string(), now);
            }
            other => path.link = other,
        }
    }

    /// Asks the other end, over the addresses of every path, to stop one.
    fn ask(&self, state: &State, number: usize) {
        let mut asked = Vec::new();
        for (path, route) in self.routes.iter().enumerate().take(state.paths.len()) {
            if asked.contains(&route) {
                continue;
            }
            asked.push(route);
            let mut connect = self.connect(path, self.itself.clone(), Hello::STOP);
            // Of the path that is to be stopped, over the addresses of this one.
            connect.hello.path = number as u16;
            self.manager.connect(connect);
        }
    }

    /// Asks once more, and gives the connection up where nobody answers.
    pub(super) fn ask_again(&self, state: &mut State, now: Time) {
        for number in 0..state.paths.len() {
            let PathState::Stopping { since, asked, .. } = &mut state.paths[number].link else {
                continue;
            };
            let since = *since;
            if now.since(since) >= CONNECTION_TIMEOUT {
                let peer = self.routes[number].1;
                self.fail(
                    format!(
                        "path {number} to {peer} was lost, and for {} s the other end has not said over any path that it has \
                         stopped it",
                        CONNECTION_TIMEOUT.as_secs()
                    ),
                    End::AllDown(state.paths.len()),
                );
                self.end(state, false);
                return;
            }
            if now.since(*asked) >= ASK_INTERVAL {
                *asked = now;
                self.ask(state, number);
            }
        }
    }

    /// The other end listens: it is told which epoch of the path to stop.
    pub(super) fn say_stop(&self, state: &mut State, number: usize, talk: Talk) {
        let path = &state.paths[number];
        if matches!(path.link, PathState::Stopping { .. })
            && talk.say(Word::Stop(path.epoch)).is_ok()
        {
            state.stops.push((number, talk));
        }
    }

    /// Hears which paths the other end has stopped.
    pub(super) fn hear_stopped(&self, state: &mut State, now: Time) {
        let mut stopped = Vec::new();
        state.stops.retain_mut(|(number, talk)| match talk.hear() {
            Ok(Some(Word::Stopped(settled))) => {
                stopped.push((*number, settled));
                false
            }
            Ok(_) => true,
            Err(_) => false,
        });
        for (number, settled) in stopped {
            self.stopped(state, number, Some(settled), now);
        }
    }

    /// The other end's process is gone, and its queue pairs with it: nothing is written any more.
    pub(super) fn nobody_to_stop(&self, state: &mut State, number: usize, now: Time) {
        self.stopped(state, number, None, now);
    }

    /// Both ends have stopped a path, by which so much has arrived; nothing that is not acknowledged, if that is not known.
    fn stopped(&self, state: &mut State, number: usize, settled: Option<Settled>, now: Time) {
        let path = &mut state.paths[number];
        let PathState::Stopping { loss, .. } = std::mem::replace(&mut path.link, PathState::Down)
        else {
            return;
        };
        state.stops.retain(|(path, _)| *path != number);
        match settled {
            Some(settled) if self.is_reliable => {
                let more = settled.below.saturating_sub(state.paths[number].acknowledged);
                self.acknowledge(state, number, u32::try_from(more).unwrap_or(u32::MAX), now);
            }
            Some(settled) => self.settle(state, number, &settled, now, now),
            None => {}
        }
        let mut actions = Vec::new();
        let State { core, results, .. } = state;
        let done = |request: Request, bytes: usize| results[request] = Some(bytes);
        core.lost(number, &loss, &Health::default(), now, &mut actions, done);
        state.actions.extend(actions);
        self.move_out(state);
    }
}
