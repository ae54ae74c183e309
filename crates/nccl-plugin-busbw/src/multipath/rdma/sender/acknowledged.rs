//! Acknowledgements of unreliable queue pairs (UC): read from the table that the receiver writes them to; and pings that are not
//! answered.
//! Not of reliable ones, whose writes complete when they have arrived (`moving`).

use std::time::Duration;

use busbw_multipath::{End, Loss, Request, Settled, Time};

use super::{super::acknowledgement::Acknowledgement, Connection, PathState, State};

/// Between two pings of a path that does not answer, at least: any of them may be lost. And not more often than four times in the
/// time since the first one.
const PING_INTERVAL: Duration = Duration::from_millis(10);
/// A path that answers no ping for so long is given up, if others answer meanwhile; and if none does. A receiver that waits for
/// nothing looks every two seconds (`manager`). Chunks in flight are the state machine's (`busbw_multipath::Sender::check_settled`):
/// here are the paths on which there are none.
const UNANSWERED: Duration = Duration::from_secs(5);
const UNANSWERED_BY_ANY: Duration = Duration::from_secs(10);

impl Connection {
    /// Looks for what the receiver has said of each path.
    pub(super) fn read_acknowledgements(&self, state: &mut State) {
        for number in 0..state.paths.len() {
            self.read_acknowledgement(state, number);
        }
    }

    /// Looks for what it has said of this one.
    pub(super) fn read_acknowledgement(&self, state: &mut State, number: usize) {
        let path = &state.paths[number];
        if !matches!(path.link, PathState::Proving { .. } | PathState::Up(_)) {
            return;
        }
        let Some(read) = state.table.acknowledgement(number) else { return };
        if read.epoch == path.epoch && path.newest != Some(read) {
            self.acknowledged(state, number, read, self.now());
        }
    }

    fn acknowledged(&self, state: &mut State, number: usize, read: Acknowledgement, now: Time) {
        let path = &mut state.paths[number];
        path.newest = Some(read);
        state.answered = now;
        if let PathState::Proving { up, .. } | PathState::Up(up) = &mut path.link {
            up.unanswered = None;
        }
        if matches!(state.paths[number].link, PathState::Proving { .. }) {
            self.proven(state, number, now);
        }
        self.settle(state, number, &read.settled, read.time, now);
    }

    /// Pings paths again that do not answer, and gives those up that have not for long.
    pub(super) fn ping_again(&self, state: &mut State, now: Time) {
        for number in 0..state.paths.len() {
            let (PathState::Proving { up, .. } | PathState::Up(up)) = &state.paths[number].link
            else {
                continue;
            };
            let (asked, Some(since)) = (up.asked, up.unanswered) else { continue };
            let silence = now.since(since);
            let is_alone = state.answered <= since + UNANSWERED / 2;
            let most = if is_alone { UNANSWERED_BY_ANY } else { UNANSWERED };
            if silence >= most {
                self.lose(state, number, Loss::Silent { silence, timeouts: 0 }, now);
            } else if now.since(asked) >= PING_INTERVAL.max(silence / 4) {
                self.ping_or_lose(state, number, now);
            }
        }
    }

    /// The receiver says which chunks of a path have arrived, and which never will. It was this time there.
    pub(super) fn settle(
        &self,
        state: &mut State,
        number: usize,
        settled: &Settled,
        receiver: Time,
        now: Time,
    ) {
        let State { core, results, .. } = state;
        let done = |request: Request, bytes: usize| results[request] = Some(bytes);
        if let Err(error) = core.settled(number, settled, receiver, now, done) {
            self.fail(format!("the other end is no busbw of this version: {error}"), End::Closed);
        }
    }
}
