//! Messages between ranks: whatever is sent arrives whole and in order, in any mix of blocking and started
//! sends and receives; and waits that cannot end do.
//! Not speed, and not processes: ranks are threads here, which is all that messages see.
use std::{sync::Arc, time::Duration};

use busbw_shm::{Address, Buffer, Buffers, Control, Mailboxes, Messages, Wait, WaitPolicy};
use proptest::prelude::*;

/// The memory of one host.
struct Shared {
    control: Arc<Control>,
    mailboxes: Arc<Mailboxes>,
    buffers: Arc<Buffers>,
}

impl Shared {
    fn new(ranks: usize, room: usize) -> Shared {
        let fds: Vec<_> = (0..ranks).map(|r| Buffers::create(r, room, false).unwrap()).collect();
        Shared {
            control: Control::map(Control::create(ranks).unwrap(), ranks).unwrap(),
            mailboxes: Mailboxes::map(Mailboxes::create(ranks).unwrap(), ranks).unwrap(),
            buffers: Buffers::map(&fds, room, false).unwrap(),
        }
    }

    /// One rank's end.
    fn messages(&self, members: &[usize], rank: usize, policy: WaitPolicy) -> Messages {
        let (buffers, control) = (Arc::clone(&self.buffers), Arc::clone(&self.control));
        let mailboxes = Arc::clone(&self.mailboxes);
        let mut ours = Messages::new(members, rank, buffers, control, mailboxes, policy);
        ours.set_timeout(Some(Duration::from_secs(20)));
        ours
    }

    /// Runs `work` on all ranks, in threads.
    fn on_every_rank(&self, members: &[usize], policy: WaitPolicy, work: impl Fn(Messages) + Sync) {
        std::thread::scope(|scope| {
            for rank in members {
                let ours = self.messages(members, *rank, policy);
                let work = &work;
                scope.spawn(move || work(ours));
            }
        });
    }
}

fn sends(offset: usize) -> Address {
    Address { buffer: Buffer::Send, offset }
}

fn receives(offset: usize) -> Address {
    Address { buffer: Buffer::Recv, offset }
}

/// With a core for every rank, and with fewer.
const POLICIES: [WaitPolicy; 2] = [WaitPolicy::new(1, 1), WaitPolicy::new(2, 1)];

/// Byte `at` of message `number`.
fn byte(number: usize, at: usize) -> u8 {
    (number.wrapping_mul(0x9e37_79b9).wrapping_add(at.wrapping_mul(0x0101_0101) >> 3) >> 7) as u8
}

/// One message, and what its two ends do with it: whether they block, and whether they wait for all that
/// they have started afterwards.
#[derive(Debug, Clone)]
struct Message {
    from: usize,
    to: usize,
    len: usize,
    blocks: [bool; 2],
    completes: [bool; 2],
}

fn messages(ranks: usize) -> impl Strategy<Value = Vec<Message>> {
    let len = prop_oneof![
        4 => 0usize..64,
        3 => 500usize..600,
        4 => 0usize..70_000,
        1 => 250_000usize..400_000,
    ];
    let ends = || (any::<bool>(), any::<bool>()).prop_map(|(a, b)| [a, b]);
    let message = (0..ranks, 1..ranks, len, ends(), ends()).prop_map(
        move |(from, further, len, blocks, completes)| Message {
            from,
            to: (from + further) % ranks,
            len,
            blocks,
            completes,
        },
    );
    prop::collection::vec(message, 0..60)
}

/// Every rank does its part of all messages in their order, so that none can wait for ever: the two ends
/// of the first message that is not complete wait for nothing else.
fn exchange(ranks: usize, policy: WaitPolicy, messages: &[Message]) {
    let offset = |number: usize, of: fn(&Message) -> usize| -> usize {
        let before = messages[..number].iter().filter(|m| of(m) == of(&messages[number]));
        before.map(|m| m.len).sum()
    };
    let room = messages.iter().map(|m| m.len).sum();
    let members: Vec<usize> = (0..ranks).collect();
    Shared::new(ranks, room).on_every_rank(&members, policy, |mut ours| {
        let me = ours.rank();
        for (number, message) in messages.iter().enumerate().filter(|(_, m)| m.from == me) {
            let part = ours.own(Buffer::Send, offset(number, |m| m.from), message.len);
            part.iter_mut().enumerate().for_each(|(at, to)| *to = byte(number, at));
        }
        for (number, message) in messages.iter().enumerate() {
            let Message { from, to, len, .. } = *message;
            let (source, place) = (offset(number, |m| m.from), offset(number, |m| m.to));
            let end = match me {
                me if me == from => {
                    let send =
                        if message.blocks[0] { Messages::send } else { Messages::start_send };
                    send(&mut ours, to, sends(source), len).unwrap();
                    0
                }
                me if me == to => {
                    let recv =
                        if message.blocks[1] { Messages::recv } else { Messages::start_recv };
                    recv(&mut ours, from, receives(place), len).unwrap();
                    1
                }
                _ => continue,
            };
            if message.completes[end] {
                ours.complete().unwrap();
            }
        }
        ours.complete().unwrap();
        for (number, message) in messages.iter().enumerate().filter(|(_, m)| m.to == me) {
            let part = ours.own(Buffer::Recv, offset(number, |m| m.to), message.len);
            let wrong = part.iter().enumerate().find(|(at, got)| **got != byte(number, *at));
            assert_eq!(wrong, None, "in message {number}, {message:?}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive(
        (ranks, messages) in (2usize..6).prop_flat_map(|ranks| (Just(ranks), messages(ranks))),
        policy in 0usize..2,
    ) {
        exchange(ranks, POLICIES[policy], &messages);
    }
}

/// Every way that a message can go, few enough for checkers that take their time.
#[test]
fn every_way_once() {
    for policy in POLICIES {
        let mut messages = Vec::new();
        for (number, len) in [0, 1, 48, 560, 561, 5000, 300_000].into_iter().enumerate() {
            for (from, to) in [(0, 1), (1, 0)] {
                let blocks = [number % 2 == 0; 2];
                messages.push(Message { from, to, len, blocks, completes: [number % 3 == 0; 2] });
            }
        }
        exchange(2, policy, &messages);
    }
}

/// Each side starts far more than there are slots, both ways at once, then waits.
#[test]
fn any_number_is_under_way() {
    for (policy, len) in POLICIES.into_iter().flat_map(|p| [(p, 8), (p, 2000)]) {
        Shared::new(2, len * 1000).on_every_rank(&[0, 1], policy, |mut ours| {
            let (me, peer) = (ours.rank(), 1 - ours.rank());
            for number in 0..1000 {
                ours.own(Buffer::Send, number * len, len).fill((number + me) as u8);
            }
            for number in 0..1000 {
                ours.start_recv(peer, receives(number * len), len).unwrap();
                ours.start_send(peer, sends(number * len), len).unwrap();
            }
            ours.complete().unwrap();
            for number in 0..1000 {
                let part = ours.own(Buffer::Recv, number * len, len);
                assert!(part.iter().all(|byte| *byte == (number + peer) as u8), "{number}");
            }
        });
    }
}

/// What was sent is what was there when `send` was called, though it is overwritten right afterwards.
#[test]
fn a_buffer_may_be_overwritten_after_send() {
    for (policy, len) in POLICIES.into_iter().flat_map(|p| [(p, 8), (p, 700), (p, 300_000)]) {
        Shared::new(2, len).on_every_rank(&[0, 1], policy, |mut ours| {
            for round in 0..200 {
                if ours.rank() == 0 {
                    ours.own(Buffer::Send, 0, len).fill(round);
                    ours.send(1, sends(0), len).unwrap();
                } else {
                    ours.recv(0, receives(0), len).unwrap();
                    assert!(ours.own(Buffer::Recv, 0, len).iter().all(|byte| *byte == round));
                }
            }
        });
    }
}

/// A sender of short messages gets ahead of a receiver that has not begun.
/// Whoever has sent a long message and waits for nothing may look at its buffers.
#[test]
fn buffers_are_ours_again_after_send() {
    for policy in POLICIES {
        Shared::new(2, 300_000).on_every_rank(&[0, 1], policy, |mut ours| {
            let peer = 1 - ours.rank();
            for _ in 0..300 {
                for len in [700, 300_000] {
                    if ours.rank() == 0 {
                        ours.send(peer, sends(0), len).unwrap();
                        ours.own(Buffer::Send, 0, len)[0] ^= 1;
                        ours.recv(peer, receives(0), len).unwrap();
                    } else {
                        ours.recv(peer, receives(0), len).unwrap();
                        ours.send(peer, sends(0), len).unwrap();
                    }
                    ours.own(Buffer::Recv, 0, len)[0] ^= 1;
                }
            }
        });
    }
}

#[test]
fn short_messages_do_not_wait() {
    let shared = Shared::new(2, 64);
    let mut ours = shared.messages(&[0, 1], 0, POLICIES[0]);
    ours.set_timeout(Some(Duration::ZERO));
    for _ in 0..64 {
        ours.send(1, sends(0), 64).unwrap();
    }
    let full = ours.send(1, sends(0), 64);
    assert_eq!(full, Err(Wait::TimedOut { missing: vec![1] }));
}

#[test]
fn a_rank_may_send_to_itself() {
    let shared = Shared::new(1, 400_000);
    let mut ours = shared.messages(&[0], 0, POLICIES[0]);
    for (len, into) in [(8, receives(0)), (400_000, receives(0)), (3000, sends(1000))] {
        for (at, byte) in ours.own(Buffer::Send, 0, len).iter_mut().enumerate() {
            *byte = (at % 251) as u8;
        }
        ours.start_recv(0, into, len).unwrap();
        ours.send(0, sends(0), len).unwrap();
        ours.complete().unwrap();
        let got = ours.own(into.buffer, into.offset, len);
        assert!(got.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8), "{len}");
    }
}

/// Messages may be shorter than their receives, as in MPI.
#[test]
fn a_receive_may_have_more_room() {
    for len in [5, 5000] {
        Shared::new(2, 9000).on_every_rank(&[0, 1], POLICIES[0], |mut ours| {
            if ours.rank() == 0 {
                ours.own(Buffer::Send, 0, len).fill(3);
                ours.send(1, sends(0), len).unwrap();
            } else {
                ours.recv(0, receives(0), 9000).unwrap();
                let got = ours.own(Buffer::Recv, 0, 9000);
                assert!(got[..len].iter().all(|b| *b == 3) && got[len..].iter().all(|b| *b == 0));
            }
        });
    }
}

#[test]
#[should_panic(expected = "a message of 9 bytes where 8 are to be received")]
fn a_message_that_is_too_long_is_a_bug() {
    let shared = Shared::new(2, 9);
    shared.messages(&[0, 1], 0, POLICIES[0]).send(1, sends(0), 9).unwrap();
    let _ = shared.messages(&[0, 1], 1, POLICIES[0]).recv(0, receives(0), 8);
}

/// Who did not come is named by its world rank, and nobody else.
#[test]
fn the_missing_are_named() {
    for policy in POLICIES {
        let shared = Shared::new(8, 5000);
        let members = [6, 2, 5];
        let soon = Some(Duration::from_millis(30));
        let late = |missing: &[usize]| Err(Wait::TimedOut { missing: missing.to_vec() });
        let mut ours = shared.messages(&members, 2, policy);
        ours.set_timeout(soon);
        assert_eq!(ours.recv(2, receives(0), 8), late(&[5]));
        assert_eq!(ours.send(0, sends(0), 5000), late(&[6]));
        assert_eq!(ours.complete(), late(&[6, 5]));
        let mut theirs = shared.messages(&members, 5, policy);
        theirs.send(1, sends(0), 8).unwrap();
        assert_eq!(ours.complete(), late(&[6]));
    }
}

/// The supervisor's word ends a wait of any kind.
#[test]
fn abort_ends_a_wait() {
    type Work = fn(&mut Messages) -> Result<(), Wait>;
    let receives: Work = |ours| ours.recv(1, receives(0), 8);
    let lends: Work = |ours| ours.send(1, sends(0), 5000);
    let fills: Work = |ours| (0..100).try_for_each(|_| ours.send(1, sends(0), 8));
    let completes: Work = |ours| {
        ours.start_send(1, sends(0), 5000)?;
        ours.complete()
    };
    for policy in POLICIES {
        for work in [receives, lends, fills, completes] {
            let shared = Shared::new(2, 5000);
            let mut ours = shared.messages(&[0, 1], 0, policy);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(move || work(&mut ours));
                std::thread::sleep(Duration::from_millis(30));
                shared.control.abort();
                assert_eq!(waiting.join().unwrap(), Err(Wait::Aborted));
            });
        }
    }
}

/// Also among more ranks than a power of two, and not all of the host's.
#[test]
fn touch_meets() {
    for members in [vec![0], vec![3, 1], vec![0, 1, 2, 3, 4], vec![5, 4, 3, 2, 1, 0]] {
        Shared::new(6, 100).on_every_rank(&members, POLICIES[1], |mut ours| ours.touch().unwrap());
    }
}
