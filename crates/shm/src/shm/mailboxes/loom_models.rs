//! Models of mailboxes for loom: messages arrive whole and in order, what was lent is not written while it is
//! read, and a message that both ends copy is whole when it is taken. See docs/model_check.md.
//! Not of queues.
#![allow(clippy::unwrap_used, reason = "a model that cannot go on fails")]

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::*;
use crate::shm::{
    buffers::{Address, Buffer},
    sync::{
        Ordering,
        explore::{Extent, explore, on_ranks},
        let_time_pass,
    },
};

/// With a core for every rank: spins, yields, naps.
const NAPS: WaitPolicy = WaitPolicy::new(1, 1);
/// With fewer: yields, then sleeps on a futex.
const SLEEPS: WaitPolicy = WaitPolicy::new(2, 1);

/// Stands where a message in a buffer is.
const PLACE: Address = Address { buffer: Buffer::Recv, offset: 7 };

/// What ranks share.
struct Host {
    control: Arc<Control>,
    mailboxes: Arc<Mailboxes>,
    policy: WaitPolicy,
    /// Number of the last message that went before.
    first: u32,
}

impl Host {
    fn new(ranks: usize, policy: WaitPolicy, first: u32) -> Arc<Host> {
        let control = Control::map(Control::create(ranks).unwrap(), ranks).unwrap();
        let mailboxes = Mailboxes::map(Mailboxes::create(ranks).unwrap(), ranks).unwrap();
        for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
            let mailbox = mailboxes.mailbox(from, to);
            mailbox.answers.taken.store(first, Ordering::Relaxed);
            mailbox.copied.parts.store(first, Ordering::Relaxed);
            mailbox.slots.iter().for_each(|slot| slot.number.store(first, Ordering::Relaxed));
        }
        Arc::new(Host { control, mailboxes, policy, first })
    }

    fn outbox(&self, from: usize, to: usize) -> Outbox {
        Outbox::new(Arc::clone(&self.mailboxes), from, to, self.policy).starting_at(self.first)
    }

    fn inbox(&self, from: usize, to: usize) -> Inbox {
        Inbox::new(Arc::clone(&self.mailboxes), from, to, self.policy).starting_at(self.first)
    }

    fn until(&self, rank: usize, look: impl FnMut() -> bool) {
        self.mailboxes.until(rank, &self.control, self.policy, None, look).unwrap();
    }
}

/// Puts `word` into a slot.
fn put(word: u32) -> impl FnOnce(*mut u8) {
    // SAFETY: a slot has room for four bytes.
    move |slot| unsafe { slot.cast::<u32>().write_unaligned(word) }
}

/// Takes the next message, which is `word`.
fn expect(inbox: &mut Inbox, word: u32) -> bool {
    let Some(letter) = inbox.letter() else { return false };
    let Letter::Here { at, len: 4 } = letter else { panic!("{letter:?}") };
    // SAFETY: four bytes, until taken.
    assert_eq!(unsafe { at.cast::<u32>().read_unaligned() }, word);
    inbox.take();
    true
}

/// Rank 0 sends so many messages in slots, which rank 1 takes; if `echoed`, rank 1 sends each back.
fn letters(count: u32, first: u32, policy: WaitPolicy, echoed: bool) {
    let host = Host::new(2, policy, first);
    on_ranks(2, move |me| {
        let (mut to, mut from) = (host.outbox(me, 1 - me), host.inbox(1 - me, me));
        for word in 0..count {
            for turn in 0..=usize::from(echoed) {
                if turn == me {
                    host.until(me, || to.post(4, put(word)));
                } else {
                    host.until(me, || expect(&mut from, word));
                }
            }
        }
    });
}

/// Two ranks send to the third, which waits for both at once.
fn from_two() {
    let host = Host::new(3, SLEEPS, 0);
    on_ranks(3, move |me| {
        if me != 0 {
            let mut to = host.outbox(me, 0);
            host.until(me, || to.post(4, put(me as u32)));
            return;
        }
        let mut inboxes = [1, 2].map(|from| (from as u32, host.inbox(from, 0)));
        let mut taken = [false; 2];
        while taken != [true; 2] {
            host.until(0, || {
                let mut moved = false;
                for (taken, (word, inbox)) in taken.iter_mut().zip(&mut inboxes) {
                    if !*taken && expect(inbox, *word) {
                        (*taken, moved) = (true, true);
                    }
                }
                moved
            });
        }
    });
}

/// What a sender has in its buffer, and a receiver in its own, by part.
struct Cells([UnsafeCell<u32>; 2], [UnsafeCell<u32>; 2]);

// SAFETY: loom stops at the first access that races.
unsafe impl Sync for Cells {}

impl Cells {
    fn copy(&self, part: usize) {
        // SAFETY: nobody writes the one nor has the other: what these models are about, and loom checks.
        let word = self.0[part].with(|cell| unsafe { *cell });
        // SAFETY: as above.
        self.1[part].with_mut(|cell| unsafe { *cell = word });
    }
}

/// Rank 0 lends rank 1 its buffer so many times, with other contents each time; `shared`, both copy it.
fn lends(count: u32, first: u32, policy: WaitPolicy, shared: bool) {
    let host = Host::new(2, policy, first);
    let zeros = || std::array::from_fn(|_| UnsafeCell::new(0));
    let cells = Arc::new(Cells(zeros(), zeros()));
    on_ranks(2, move |me| {
        let (mut to, mut from) = (host.outbox(0, 1), host.inbox(0, 1));
        for word in 1..=count {
            if me == 0 {
                for cell in &cells.0 {
                    // SAFETY: nobody else has it, as above.
                    cell.with_mut(|cell| unsafe { *cell = word });
                }
                host.until(0, || to.lend(PLACE, 2));
                while !to.has_back() {
                    host.until(0, || {
                        to.help(|offer, part| cells.copy(offer.part(part).start)) || to.has_back()
                    });
                }
                continue;
            }
            host.until(1, || from.has_letter());
            let Some(Letter::There { from: PLACE, len: 2 }) = from.letter() else { panic!() };
            if shared {
                let offer = Offer::new(PLACE, PLACE, 2, 1);
                from.share(offer, |part| cells.copy(offer.part(part).start));
                host.until(1, || from.is_whole());
            } else {
                (0..2).for_each(|part| cells.copy(part));
            }
            from.take();
            for cell in &cells.1 {
                // SAFETY: as above.
                cell.with(|cell| assert_eq!(unsafe { *cell }, word));
            }
        }
    });
}

macro_rules! models {
    ($($name:ident: $extent:expr, $model:expr;)*) => {$(
        #[test]
        fn $name() {
            use Extent::*;
            explore(stringify!($name), $extent, || $model);
        }
    )*};
}

models! {
    letters_ahead: Exhaustive, letters(3, 0, NAPS, false);
    letters_ahead_more: Preemptions(2), letters(5, 0, NAPS, false);
    letters_ahead_and_sleep: Preemptions(2), letters(4, 0, SLEEPS, false);
    letters_echoed: Preemptions(3), letters(3, 0, NAPS, true);
    letters_echoed_and_sleep: Preemptions(2), letters(2, 0, SLEEPS, true);
    letters_pass_2_to_the_32: Preemptions(2), letters(4, u32::MAX - 1, NAPS, false);
    letters_from_two: Preemptions(2), from_two();
    lent: Exhaustive, lends(2, 0, NAPS, false);
    lent_and_sleep: Preemptions(2), lends(2, 0, SLEEPS, false);
    lent_more: Preemptions(2), lends(4, 0, NAPS, false);
    shared: Preemptions(3), lends(1, 0, NAPS, true);
    shared_again: Preemptions(2), lends(3, 0, NAPS, true);
    shared_past_2_to_the_32: Preemptions(2), lends(2, u32::MAX, NAPS, true);
}

/// A rank waits for a message that never comes, and the supervisor stops the run.
fn stopped(policy: WaitPolicy) {
    let host = Host::new(2, policy, 0);
    let theirs = Arc::clone(&host);
    let waiting = loom::thread::spawn(move || {
        let inbox = theirs.inbox(1, 0);
        theirs.mailboxes.until(0, &theirs.control, policy, None, || inbox.has_letter())
    });
    host.control.abort();
    let_time_pass();
    assert_eq!(waiting.join().unwrap(), Err(Wait::Aborted));
}

#[test]
fn abort_ends_messages() {
    explore("abort_ends_messages", Extent::Exhaustive, || stopped(NAPS));
    explore("abort_ends_messages, asleep", Extent::Exhaustive, || stopped(SLEEPS));
}
