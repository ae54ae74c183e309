//! When a call has ended, from what NCCL has said of it so far.
//! Not where it is kept (`slots`), nor what is written of it (`collected`).

use std::time::Duration;

/// A call whose channels all ended, but which NCCL said to have more: it is waited for another this long.
const QUIET: Duration = Duration::from_secs(1);
/// A call of whose kernel nothing came, though a later one of its communicator has ended, or which lacks channels.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// What is known of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// NCCL has handed it to the GPU.
    pub stopped: bool,
    /// Events of its kernel are to come.
    pub kernel: bool,
    /// They may come, or not.
    pub perhaps_kernel: bool,
    /// It is a send or a receive.
    pub message: bool,
    /// Channels; 0: not known.
    pub channels: u32,
    /// Channels that began.
    pub started: u32,
    /// Channels that ended.
    pub ended: u32,
    /// How long nothing of this has changed.
    pub quiet: Duration,
    /// How long ago a later call of the communicator was seen to have ended on the GPU.
    pub passed: Option<Duration>,
    /// Its communicator has ended, this long ago.
    pub closed: Option<Duration>,
    /// There is little room, and no event of any kernel of this communicator ever came.
    pub in_the_way: bool,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is under way.
    Wait,
    /// It ended, and its times are those of its channels.
    Timed,
    /// It ended, or NCCL says nothing of its end; its times are not known.
    Untimed,
    /// It never ended: its communicator was given up.
    Lost,
}

impl Seen {
    /// Whether the call has ended.
    pub fn verdict(&self) -> Verdict {
        let all_back = self.started == self.ended;
        if self.closed.is_some_and(|since| since >= QUIET) && !(self.stopped && all_back) {
            return Verdict::Lost;
        }
        if !self.stopped || !all_back {
            return Verdict::Wait;
        }
        if self.started == 0 {
            let forgotten = self.passed.is_some_and(|since| since >= FORGOTTEN);
            let in_the_way = self.in_the_way && self.quiet >= FORGOTTEN;
            if self.perhaps_kernel {
                let over = self.quiet >= QUIET || self.passed.is_some() || self.closed.is_some();
                return if over { Verdict::Untimed } else { Verdict::Wait };
            }
            let over = !self.kernel || forgotten || in_the_way || self.closed.is_some();
            return if over { Verdict::Untimed } else { Verdict::Wait };
        }
        if self.channels > 0 && self.started >= self.channels {
            return Verdict::Timed;
        }
        // NCCL did not say how many channels there are, or fewer came. A send or receive has fewer where a channel has
        // nothing to move; of a collective that is not known.
        let quiet = self.quiet >= QUIET && (self.channels == 0 || self.passed.is_some());
        if !(quiet || self.quiet >= FORGOTTEN || self.closed.is_some()) {
            return Verdict::Wait;
        }
        if self.channels == 0 || self.message { Verdict::Timed } else { Verdict::Untimed }
    }

    /// Whether it is one that a reader should see while it is under way: not one of which only a confirmation is missing.
    pub fn stands(&self) -> bool {
        let may_be_over = self.started == 0 && self.perhaps_kernel || self.started > 0;
        self.closed.is_none() && !(self.stopped && may_be_over && self.started == self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_call_ends_when_all_that_it_has_is_back() {
        let seen = Seen { stopped: true, kernel: true, channels: 2, ..Seen::default() };
        assert_eq!(seen.verdict(), Verdict::Wait);
        assert_eq!(Seen { kernel: false, ..seen }.verdict(), Verdict::Untimed);
        assert_eq!(Seen { kernel: false, stopped: false, ..seen }.verdict(), Verdict::Wait);
        let one = Seen { started: 1, ended: 1, ..seen };
        assert_eq!(one.verdict(), Verdict::Wait);
        assert_eq!(Seen { started: 2, ..one }.verdict(), Verdict::Wait);
        let both = Seen { started: 2, ended: 2, ..seen };
        assert_eq!(both.verdict(), Verdict::Timed);
        assert_eq!(Seen { stopped: false, ..both }.verdict(), Verdict::Wait);
    }

    #[test]
    fn channels_that_never_come_are_not_waited_for_for_ever() {
        let seen =
            Seen { stopped: true, kernel: true, channels: 2, quiet: 9 * SECOND, ..Seen::default() };
        assert_eq!(seen.verdict(), Verdict::Wait);
        // A hang: nothing later ended either.
        assert_eq!(Seen { quiet: 1000 * SECOND, ..seen }.verdict(), Verdict::Wait);
        assert_eq!(Seen { passed: Some(SECOND), ..seen }.verdict(), Verdict::Wait);
        assert_eq!(Seen { passed: Some(FORGOTTEN), ..seen }.verdict(), Verdict::Untimed);
        assert_eq!(Seen { in_the_way: true, ..seen }.verdict(), Verdict::Wait);
        assert_eq!(Seen { in_the_way: true, quiet: FORGOTTEN, ..seen }.verdict(), Verdict::Untimed);

        let fewer = Seen { started: 1, ended: 1, quiet: QUIET, ..seen };
        assert_eq!(fewer.verdict(), Verdict::Wait);
        let passed = Seen { passed: Some(Duration::ZERO), ..fewer };
        assert_eq!(passed.verdict(), Verdict::Untimed);
        assert_eq!(Seen { message: true, ..passed }.verdict(), Verdict::Timed);
        assert_eq!(Seen { channels: 0, ..fewer }.verdict(), Verdict::Timed);
        assert_eq!(Seen { channels: 0, quiet: Duration::ZERO, ..fewer }.verdict(), Verdict::Wait);
        assert_eq!(Seen { message: true, quiet: FORGOTTEN, ..fewer }.verdict(), Verdict::Timed);
        assert!(seen.stands() && !fewer.stands());

        // Whether NCCL times a call is not known: no hang is told of it before something of its kernel came.
        let perhaps = Seen { kernel: false, perhaps_kernel: true, ..seen };
        let short = Seen { quiet: Duration::ZERO, ..perhaps };
        assert_eq!(short.verdict(), Verdict::Wait);
        assert_eq!(perhaps.verdict(), Verdict::Untimed);
        assert_eq!(Seen { passed: Some(Duration::ZERO), ..short }.verdict(), Verdict::Untimed);
        assert!(!perhaps.stands() && Seen { started: 1, ..perhaps }.stands());
        assert_eq!(Seen { started: 1, ..perhaps }.verdict(), Verdict::Wait);
        assert_eq!(Seen { started: 2, ended: 2, ..perhaps }.verdict(), Verdict::Timed);
    }

    #[test]
    fn a_communicator_that_ended_lets_its_calls_go() {
        let closed =
            Seen { stopped: true, kernel: true, closed: Some(Duration::ZERO), ..Seen::default() };
        assert_eq!(closed.verdict(), Verdict::Untimed);
        let under_way = Seen { started: 1, ..closed };
        assert_eq!(under_way.verdict(), Verdict::Wait);
        assert_eq!(Seen { closed: Some(QUIET), ..under_way }.verdict(), Verdict::Lost);
        assert_eq!(Seen { stopped: false, closed: Some(QUIET), ..closed }.verdict(), Verdict::Lost);
    }
}
