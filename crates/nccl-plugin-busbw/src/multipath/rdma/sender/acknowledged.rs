//! Acknowledgements of unreliable queue pairs (UC): read from the table that the receiver writes them to.
//! Not of reliable ones, whose writes complete when they have arrived (`moving`).

use busbw_multipath::{End, Request, Settled, Time};

use super::{super::acknowledgement::Acknowledgement, Connection, PathState, State};

impl Connection {
    /// Looks for what the receiver has said of each path.
    pub(super) fn read_acknowledgements(&self, state: &mut State) {
        for number in 0..state.paths.len() {
            let path = &state.paths[number];
            if !matches!(path.link, PathState::Proving { .. } | PathState::Up(_)) {
                continue;
            }
            let Some(read) = state.table.acknowledgement(number) else { continue };
            if read.epoch == path.epoch && path.newest != Some(read) {
                self.acknowledged(state, number, read, self.now());
            }
        }
    }

    fn acknowledged(&self, state: &mut State, number: usize, read: Acknowledgement, now: Time) {
        state.paths[number].newest = Some(read);
        if matches!(state.paths[number].link, PathState::Proving { .. }) {
            self.proven(state, number, now);
        }
        self.settle(state, number, &read.settled, read.time, now);
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
