//! Models of slots for loom: every reader finds the message of its operation, whole, and no writer
//! overwrites a message that is being read. See docs/model_check.md.
//! Not of the barrier.
#![allow(clippy::unwrap_used, reason = "a model that cannot go on fails")]

use std::sync::Arc;

use super::*;
use crate::shm::sync::{
    explore::{Extent, explore, on_ranks},
    let_time_pass,
};

/// With a core for every rank: spins, yields, naps.
const NAPS: WaitPolicy = WaitPolicy::new(1, 1);
/// With fewer: yields, then sleeps on a futex.
const SLEEPS: WaitPolicy = WaitPolicy::new(2, 1);

/// Who posts in an operation, of which the ranks know the number since they began.
type Posts = fn(rank: usize, operation: usize) -> bool;

const EVERYONE: Posts = |_, _| true;
const RANK_0: Posts = |rank, _| rank == 0;
const ALL_BUT_RANK_0: Posts = |rank, _| rank != 0;
const IN_TURNS: Posts = |rank, operation| rank == operation % 2;
const FIRST_1_THEN_0: Posts = |rank, operation| rank == usize::from(operation == 0);
const LAST_1: Posts = |rank, operation| rank == usize::from(operation == 4);

/// A control whose counters all stand at `count`.
fn control(ranks: usize, count: u32) -> Arc<Control> {
    let control = Control::map(Control::create(ranks).unwrap(), ranks).unwrap();
    if count != 0 {
        for rank in 0..ranks {
            control.words(rank).left.epoch.store(count, Ordering::Relaxed);
            for number in 0..DEPTH {
                control.slot(rank, number).operation.store(count, Ordering::Relaxed);
            }
        }
    }
    control
}

fn slots(control: &Arc<Control>, ranks: usize, me: usize, policy: WaitPolicy, count: u32) -> Slots {
    let members: Vec<usize> = (0..ranks).collect();
    let mut slots = Slots::new(Arc::clone(control), &members, me, policy);
    (slots.operation, slots.left_by_all) = (count, count);
    slots
}

/// What `rank` says in `operation`.
fn word(rank: usize, operation: usize) -> u32 {
    (1000 * rank + operation + 1) as u32
}

/// `operations` in which those post whom `posts` names, and all others read them.
fn operate(ranks: usize, operations: usize, first: u32, policy: WaitPolicy, posts: Posts) {
    run(control(ranks, first), ranks, operations, first, policy, posts);
}

/// The same on words that stand otherwise.
fn run(
    control: Arc<Control>,
    ranks: usize,
    operations: usize,
    first: u32,
    policy: WaitPolicy,
    posts: Posts,
) {
    on_ranks(ranks, move |me| {
        let mut slots = slots(&control, ranks, me, policy, first);
        for operation in 0..operations {
            slots.enter(None).unwrap();
            if posts(me, operation) {
                let word = word(me, operation).to_le_bytes();
                // SAFETY: `post` has checked that four bytes fit.
                let write = |slot| unsafe { std::ptr::copy_nonoverlapping(word.as_ptr(), slot, 4) };
                slots.post(4, None, write).unwrap();
            }
            let others = || (0..ranks).filter(|peer| *peer != me && posts(*peer, operation));
            // All messages are held until the operation ends, as in a reduction.
            let messages: Vec<_> =
                others().map(|peer| slots.message(peer, |_| true, None).unwrap()).collect();
            for (peer, message) in others().zip(messages) {
                // SAFETY: a message of four bytes, until we leave.
                let read = unsafe { message.cast::<[u8; 4]>().read_unaligned() };
                assert_eq!(u32::from_le_bytes(read), word(peer, operation));
            }
            slots.leave();
        }
    });
}

macro_rules! models {
    ($($name:ident: $extent:expr, $ranks:expr, $operations:expr, $first:expr, $policy:expr, $posts:expr;)*) => {$(
        #[test]
        fn $name() {
            use Extent::*;
            explore(stringify!($name), $extent, || {
                operate($ranks, $operations, $first, $policy, $posts);
            });
        }
    )*};
}

/// A renewal is due at this operation, at 0 as well.
const DUE: u32 = RENEWAL_OPERATIONS;

models! {
    both_post: Exhaustive, 2, 2, 0, NAPS, EVERYONE;
    both_post_more: Preemptions(2), 2, 4, 0, NAPS, EVERYONE;
    one_posts_ahead: Exhaustive, 2, 3, 0, NAPS, RANK_0;
    one_posts_ahead_more: Preemptions(2), 2, 5, 0, NAPS, RANK_0;
    one_posts_ahead_and_sleeps: Preemptions(2), 2, 4, 0, SLEEPS, RANK_0;
    in_turns: Preemptions(3), 2, 4, 0, NAPS, IN_TURNS;
    three_post: Preemptions(1), 3, 3, 0, SLEEPS, EVERYONE;
    one_of_three_posts_ahead: Preemptions(2), 3, 3, 0, SLEEPS, RANK_0;
    two_of_three_post_ahead: Preemptions(1), 3, 4, 0, SLEEPS, ALL_BUT_RANK_0;
    both_renew: Preemptions(2), 2, 3, DUE - 2, NAPS, EVERYONE;
    one_renews_ahead: Preemptions(2), 2, 4, DUE - 3, NAPS, RANK_0;
    one_renews_unread: Preemptions(3), 2, 3, DUE - 3, NAPS, FIRST_1_THEN_0;
    counters_pass_2_to_the_32: Preemptions(2), 2, 4, u32::MAX - 1, NAPS, RANK_0;
}

/// A rank that has not posted for 2^31 operations is not taken for ahead: the renewal before its message
/// lets its slots catch up. Longer than a rank can be silent, as renewals come more often.
#[test]
fn silence_is_renewed() {
    explore("silence_is_renewed", Extent::Preemptions(1), || {
        let first = DUE - 2;
        let control = control(2, first);
        for number in 0..DEPTH {
            let long_ago = (first + 4).wrapping_sub(1 << 31);
            control.slot(1, number).operation.store(long_ago, Ordering::Relaxed);
        }
        run(control, 2, 5, first, NAPS, LAST_1);
    });
}

/// What `rank` waits for never comes, and the supervisor stops the run.
fn stopped(policy: WaitPolicy, wait: fn(&mut Slots) -> Result<(), Wait>) {
    let control = control(2, 0);
    let theirs = Arc::clone(&control);
    let waiting = loom::thread::spawn(move || wait(&mut slots(&theirs, 2, 0, policy, 0)));
    control.abort();
    let_time_pass();
    assert_eq!(waiting.join().unwrap(), Err(Wait::Aborted));
}

/// For a message.
fn reads(slots: &mut Slots) -> Result<(), Wait> {
    slots.enter(None)?;
    slots.message(1, |_| true, None).map(|_| ())
}

/// For a slot, the peer having read nothing.
fn posts_too_often(slots: &mut Slots) -> Result<(), Wait> {
    for _ in 0..=DEPTH {
        slots.enter(None)?;
        slots.post(0, None, |_| ())?;
        slots.leave();
    }
    Ok(())
}

#[test]
fn abort_ends_reading() {
    explore("abort_ends_reading", Extent::Exhaustive, || stopped(NAPS, reads));
    explore("abort_ends_reading, asleep", Extent::Exhaustive, || stopped(SLEEPS, reads));
}

#[test]
fn abort_ends_posting() {
    explore("abort_ends_posting", Extent::Exhaustive, || stopped(NAPS, posts_too_often));
    explore("abort_ends_posting, asleep", Extent::Exhaustive, || stopped(SLEEPS, posts_too_often));
}
