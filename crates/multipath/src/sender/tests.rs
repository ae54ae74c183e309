//! What a sender does as time passes, without any network.
//! Not whole connections over simulated networks (`busbw-multipath-sim`).

use std::time::Duration;

use super::*;
use crate::{SMALL, memory::fake::Fake};

const CHUNK: u32 = 1 << 16;

fn at(milliseconds: u64) -> Time {
    Time(milliseconds * 1_000_000)
}

/// A sender whose paths are all up since 0 ms.
fn sender(paths: usize) -> Sender<Fake> {
    let mut sender = Sender::new(vec![0; paths], CHUNK, at(0));
    let mut actions = Vec::new();
    sender.connect(&mut actions);
    assert_eq!(actions.len(), paths);
    (0..paths).for_each(|path| sender.connected(path, at(0), &mut actions));
    assert_eq!((actions.len(), sender.paths_up()), (paths, paths));
    sender
}

fn push(sender: &mut Sender<Fake>, bytes: usize, request: Request) -> Fake {
    let memory = Fake::new(bytes);
    sender.push(memory.clone(), bytes, request);
    memory
}

fn next(sender: &mut Sender<Fake>, path: usize, now: Time) -> Vec<Chunk<Fake>> {
    let mut chunks = Vec::new();
    sender.next(path, now, &mut chunks);
    chunks
}

fn acknowledge(sender: &mut Sender<Fake>, path: usize, count: u32, now: Time) -> Vec<Request> {
    let mut done = Vec::new();
    sender.acknowledged(path, count, 0, now, |request, _| done.push(request)).unwrap();
    done
}

fn from_port(port: u16) -> Health {
    Health { port: Some(Port(port)), round_trip: Duration::from_millis(1), ..Health::default() }
}

fn ended() -> Loss {
    Loss::Ended { why: "it was reset".to_owned(), timed_out: false }
}

fn silent() -> Loss {
    Loss::Silent { silence: Duration::from_millis(600), timeouts: 2 }
}

fn lose(sender: &mut Sender<Fake>, path: usize, loss: &Loss, now: Time) -> Vec<Action> {
    let mut actions = Vec::new();
    sender.lost(path, loss, &from_port(40_000), now, &mut actions, |_, _| {});
    actions
}

fn check(sender: &mut Sender<Fake>, now: Time) -> Vec<Action> {
    let mut actions = Vec::new();
    sender.check_paths(now, &mut actions);
    actions
}

fn connects(actions: &[Action]) -> Vec<(usize, Option<Port>)> {
    let connect = |action: &Action| match action {
        Action::Connect { path, port, .. } => Some((*path, *port)),
        _ => None,
    };
    actions.iter().filter_map(connect).collect()
}

/// Small messages are acknowledged late, many at once: how fast a path is, they do not tell.
#[test]
fn only_long_messages_are_timed() {
    let mut sender = sender(1);
    for _ in 0..4 {
        sender.push_copy(Fake::new(SMALL), SMALL);
        assert_eq!(next(&mut sender, 0, at(1)).len(), 1);
    }
    acknowledge(&mut sender, 0, 4, at(2));
    assert!(sender.is_idle());
    assert_eq!(sender.counts(0).timed, (0, 0));
    push(&mut sender, 50_000, 7);
    next(&mut sender, 0, at(3));
    assert_eq!(acknowledge(&mut sender, 0, 1, at(5)), [7]);
    assert_eq!(sender.counts(0).timed, (50_000, 2_000_000));
    assert_eq!(sender.counts(0).bytes, 50_000 + 4 * SMALL as u64);
}

/// The receiver buffers what arrives before its receive is posted, up to a bound.
#[test]
fn small_messages_behind_an_incomplete_one_are_bounded() {
    let mut sender = sender(2);
    push(&mut sender, 1 << 15, 0);
    assert_eq!(next(&mut sender, 0, at(1)).len(), 1);
    let mut small = 0;
    // All on the path that the long one does not take are acknowledged as they arrive.
    while sender.has_room(8) && small < 5000 {
        sender.push_copy(Fake::new(8), 8);
        small += 1;
        let count = next(&mut sender, 1, at(2)).len();
        acknowledge(&mut sender, 1, count as u32, at(2));
    }
    assert_eq!(small, 1023);
}

#[test]
fn tiny_messages_leave_together_and_others_alone() {
    let mut sender = sender(1);
    for bytes in [[100; 20].as_slice(), &[300, 300]].concat() {
        sender.push_copy(Fake::new(bytes), bytes);
    }
    let lengths: Vec<usize> =
        std::iter::repeat_with(|| next(&mut sender, 0, at(1)).len()).take(5).collect();
    assert_eq!(lengths, [16, 4, 1, 1, 0]);
}

#[test]
fn an_acknowledgement_of_what_was_not_written_is_an_error() {
    let mut sender = sender(1);
    push(&mut sender, 3 << 16, 0);
    (0..2).for_each(|_| assert_eq!(next(&mut sender, 0, at(1)).len(), 1));
    let refused = sender.acknowledged(0, 2, 1, at(2), |_, _| panic!("it is not done"));
    assert!(matches!(refused, Err(Error::Protocol(_))));
    assert_eq!(acknowledge(&mut sender, 0, 1, at(2)), []);
}

/// It would be lost and connected again as fast as that goes.
#[test]
fn a_path_that_delivered_nothing_waits_before_it_connects_again() {
    let mut sender = sender(2);
    sender.push_copy(Fake::new(100), 100);
    next(&mut sender, 0, at(1));
    acknowledge(&mut sender, 0, 1, at(2));
    assert_eq!(connects(&lose(&mut sender, 0, &ended(), at(10))), [(0, None)]);
    assert_eq!(connects(&lose(&mut sender, 1, &ended(), at(10))), []);
    assert_eq!(connects(&check(&mut sender, at(259))), []);
    assert_eq!(connects(&check(&mut sender, at(260))), [(1, None)]);
}

#[test]
fn what_a_path_loses_goes_over_others_first() {
    let mut sender = sender(2);
    push(&mut sender, 3 << 16, 0);
    let first = next(&mut sender, 0, at(1));
    lose(&mut sender, 0, &ended(), at(300));
    assert_eq!(next(&mut sender, 1, at(300)), first);
    assert_eq!((sender.counts(0).requeued, sender.counts(0).lost), (1, 1));
    // It is not known yet whether the peer has just ended.
    let mut actions = Vec::new();
    sender.gone();
    sender.not_connected(0, ConnectError::Refused, "refused", at(301), &mut actions);
    assert_eq!((sender.counts(0).lost, actions.len()), (0, 1));
}

/// So that it finds the link again that it had; which link that is follows from the ports.
#[test]
fn a_path_that_fell_silent_comes_back_from_its_port() {
    for (port, keeps_for_ever) in [(40_002, true), (40_000, false)] {
        let mut sender = sender(2);
        push(&mut sender, 3 << 16, 0);
        (0..2).for_each(|path| assert_eq!(next(&mut sender, path, at(1)).len(), 1));
        (0..2).for_each(|path| assert_eq!(acknowledge(&mut sender, path, 1, at(2)), []));
        let mut actions = Vec::new();
        let health = from_port(port);
        let port = Port(port);
        sender.lost(0, &silent(), &health, at(1000), &mut actions, |_, _| {});
        assert_eq!(connects(&actions), [(0, Some(port))]);
        let mut attempt = |now| {
            sender.not_connected(0, ConnectError::Other, "it timed out", now, &mut Vec::new());
            connects(&check(&mut sender, now + Duration::from_millis(250)))
        };
        assert_eq!(attempt(at(1250)), [(0, Some(port))]);
        assert_eq!(attempt(at(32_000)), [(0, keeps_for_ever.then_some(port))]);
        // Not while it is the only hope.
        lose(&mut sender, 1, &ended(), at(32_500));
        sender.not_connected(0, ConnectError::Other, "it timed out", at(32_500), &mut Vec::new());
        assert_eq!(connects(&check(&mut sender, at(32_750))), [(0, None)]);
    }
}

#[test]
fn a_late_path_is_hedged_when_others_deliver() {
    let mut sender = sender(2);
    let memory = push(&mut sender, 3 << 16, 0);
    let mut late = next(&mut sender, 0, at(1));
    next(&mut sender, 1, at(1));
    let mut actions = Vec::new();
    sender.check_late(at(21), &mut actions);
    // No other path was heard of: the receiver may not read.
    assert_eq!(actions, []);
    acknowledge(&mut sender, 1, 1, at(22));
    sender.check_late(at(22), &mut actions);
    assert_eq!(actions, [Action::Hedge(0)]);
    sender.hedge(0, at(22), &mut late);
    assert_eq!((sender.state(0), sender.counts(0).hedged), (State::Suspected, 1));
    // The path that is late may still write its chunk when the message is done: of a copy.
    let is_copy = |chunk: &Chunk<Fake>| !std::rc::Rc::ptr_eq(&chunk.memory.bytes, &memory.bytes);
    let hedged = next(&mut sender, 1, at(22));
    assert!(is_copy(&late[0]) && is_copy(&hedged[0]));
    assert_eq!(hedged[0].header, late[0].header);
    // It takes nothing until it delivers.
    assert_eq!(next(&mut sender, 0, at(23)), []);
    acknowledge(&mut sender, 0, 1, at(24));
    assert_eq!(sender.state(0), State::Up);
    // Its chunk counts once.
    acknowledge(&mut sender, 1, 1, at(25));
    assert_eq!(sender.counts(0).bytes + sender.counts(1).bytes, 2 << 16);
}

/// Where nothing else moves, idle paths say whether the receiver reads.
#[test]
fn idle_paths_are_asked_when_the_only_busy_one_is_late() {
    let mut sender = sender(3);
    push(&mut sender, 1 << 16, 0);
    next(&mut sender, 0, at(1));
    let mut actions = Vec::new();
    sender.check_late(at(101), &mut actions);
    assert_eq!(actions, []);
    sender.check_late(at(102), &mut actions);
    sender.check_late(at(104), &mut actions);
    assert_eq!(actions, [Action::Ping(1), Action::Ping(2)]);
    acknowledge(&mut sender, 2, 0, at(105));
    actions.clear();
    sender.check_late(at(106), &mut actions);
    assert_eq!(actions, [Action::Hedge(0)]);
}

#[test]
fn a_peer_that_is_not_heard_of_is_probed_now_and_then() {
    let mut sender = sender(2);
    push(&mut sender, 1 << 20, 0);
    next(&mut sender, 0, at(0));
    let probes = |sender: &mut Sender<Fake>, second: u64| {
        let actions = check(sender, at(1000 * second));
        actions.iter().filter(|action| matches!(action, Action::Probe(_))).count()
    };
    let times: Vec<u64> = (1..=30).filter(|second| probes(&mut sender, *second) > 0).collect();
    assert_eq!(times, [1, 2, 4, 8, 16, 24]);
    // The host is there, then it is not.
    let closed_window = |silence| Health { silence, ..Health::default() };
    let twenty = closed_window(Duration::from_secs(20));
    sender.probe_answered();
    assert_eq!(sender.inspected(0, &twenty, at(60_000)), None);
    sender.probe_unanswered(at(60_000));
    assert_eq!(sender.inspected(0, &twenty, at(70_000)), None);
    let heard = closed_window(Duration::from_secs(9));
    assert_eq!(sender.inspected(0, &heard, at(70_001)), None);
    let lost = sender.inspected(0, &twenty, at(70_001));
    assert_eq!(lost, Some(Loss::Unreachable(Duration::from_millis(10_001))));
}

#[test]
fn two_timeouts_in_a_row_lose_a_path() {
    let mut sender = sender(2);
    let health = |timeouts| Health { is_in_flight: true, timeouts, ..Health::default() };
    assert_eq!(sender.inspected(0, &health(9), at(1000)), None);
    push(&mut sender, 1 << 20, 0);
    next(&mut sender, 0, at(1000));
    assert_eq!(sender.inspected(0, &health(9), at(1049)), None);
    assert_eq!(sender.inspected(0, &health(1), at(1600)), None);
    assert!(matches!(sender.inspected(0, &health(2), at(1600)), Some(Loss::Silent { .. })));
}

/// Where an MTU is smaller than hosts think, a path connects, and delivers nothing of a chunk.
#[test]
fn paths_that_deliver_nothing_but_handshakes_end_the_connection() {
    for is_delivered in [true, false] {
        let mut sender = sender(2);
        push(&mut sender, 1 << 20, 0);
        let nothing = Health { undelivered: Some(usize::MAX), ..Health::default() };
        let some = Health { undelivered: Some(100), ..Health::default() };
        let mut actions = Vec::new();
        for path in 0..2 {
            next(&mut sender, path, at(0));
            sender.lost(path, &silent(), &nothing, at(700), &mut actions, |_, _| {});
            sender.connected(path, at(701), &mut actions);
            next(&mut sender, path, at(701));
        }
        actions.retain(|action| matches!(action, Action::Inspect(_)));
        assert!(actions.is_empty());
        let inspects = check(&mut sender, at(702));
        assert_eq!(inspects, [Action::Inspect(0), Action::Inspect(1)]);
        let health = if is_delivered { some } else { nothing };
        assert_eq!(sender.inspected(0, &health, at(702)), None);
        check(&mut sender, at(20_699));
        assert_eq!(sender.end(), None);
        check(&mut sender, at(20_700));
        assert_eq!(sender.end(), (!is_delivered).then_some(&End::Blackholed(2)));
    }
}

#[test]
fn a_connection_without_paths_fails_in_time() {
    for (error, last, end) in [
        (ConnectError::Refused, 2999, End::Refused),
        (ConnectError::Other, 20_999, End::AllDown(2)),
    ] {
        let mut sender = sender(2);
        push(&mut sender, 1 << 20, 0);
        let mut actions = Vec::new();
        for path in 0..2 {
            lose(&mut sender, path, &ended(), at(1000));
            sender.not_connected(path, error, "no", at(1000), &mut actions);
        }
        check(&mut sender, at(last));
        assert_eq!(sender.end(), None);
        check(&mut sender, at(last + 1));
        assert_eq!(sender.end(), Some(&end));
        assert!(check(&mut sender, at(last + 2)).is_empty());
    }
}

/// Its process has ended, and a path's link drops what its host says of it.
#[test]
fn a_path_that_is_silent_does_not_keep_a_refused_connection() {
    let mut sender = sender(2);
    push(&mut sender, 1 << 20, 0);
    next(&mut sender, 1, at(0));
    sender.probe_refused(at(1000));
    check(&mut sender, at(9_999));
    assert_eq!(sender.end(), None);
    acknowledge(&mut sender, 1, 0, at(9_999));
    sender.probe_refused(at(10_500));
    check(&mut sender, at(19_998));
    assert_eq!(sender.end(), None);
    check(&mut sender, at(19_999));
    assert_eq!(sender.end(), Some(&End::Refused));
}

#[test]
fn nothing_is_handed_out_after_an_abort() {
    let mut sender = sender(1);
    let memory = push(&mut sender, 1 << 20, 0);
    next(&mut sender, 0, at(1));
    assert!(sender.reads(&memory.range));
    sender.abort();
    assert!(!sender.reads(&memory.range) && sender.is_idle());
    assert_eq!(sender.end(), Some(&End::Closed));
    assert_eq!(next(&mut sender, 0, at(2)), []);
    sender.take_down(at(3));
    assert_eq!((sender.paths_up(), sender.state(0)), (0, State::Down));
}

/// RDMA reads the caller's memory when it sends, and sends again as it likes.
#[test]
fn a_zero_copy_path_holds_its_message_until_it_lets_go() {
    let capabilities = Capabilities { is_zero_copy: true, ..Capabilities::STREAM };
    for is_lost in [true, false] {
        let paths = vec![PathConfig { addresses: 0, capabilities }; 2];
        let mut sender = Sender::over(paths, CHUNK, at(0));
        let mut actions = Vec::new();
        (0..2).for_each(|path| sender.connected(path, at(0), &mut actions));
        let memory = push(&mut sender, 2 << 16, 7);
        let mut late = next(&mut sender, 0, at(1));
        next(&mut sender, 1, at(1));
        acknowledge(&mut sender, 1, 1, at(22));
        sender.hedge(0, at(22), &mut late);
        assert_eq!(next(&mut sender, 1, at(22)).len(), 1);
        // All of it has arrived, and the late path may read it still.
        assert_eq!(acknowledge(&mut sender, 1, 1, at(23)), []);
        assert!(!sender.is_idle() && sender.reads(&memory.range));
        let mut done = Vec::new();
        if is_lost {
            let health = Health::default();
            sender
                .lost(0, &ended(), &health, at(24), &mut actions, |request, _| done.push(request));
        } else {
            done = acknowledge(&mut sender, 0, 1, at(24));
        }
        assert_eq!(done, [7]);
        assert!(sender.is_idle() && !sender.reads(&memory.range));
    }
}

/// A queue pair writes to the receiver's memory: no other has the same chunk before both ends have stopped it.
#[test]
fn what_a_path_places_is_on_one_path_at_a_time() {
    let capabilities = Capabilities::RELIABLE_WRITES;
    let mut sender = Sender::over(vec![PathConfig { addresses: 0, capabilities }; 2], CHUNK, at(0));
    let mut actions = Vec::new();
    (0..2).for_each(|path| sender.connected(path, at(0), &mut actions));
    push(&mut sender, 3 << 16, 7);
    assert_eq!(next(&mut sender, 0, at(1)).len(), 1);
    assert_eq!(next(&mut sender, 1, at(1)).len(), 1);
    acknowledge(&mut sender, 1, 1, at(22));
    sender.check_late(at(22), &mut actions);
    // It takes no more, and what it has goes nowhere else.
    assert_eq!((actions.as_slice(), sender.state(0)), (&[][..], State::Suspected));
    assert_eq!(next(&mut sender, 0, at(23)), []);
    assert_eq!(next(&mut sender, 1, at(23)).len(), 1);
    acknowledge(&mut sender, 1, 1, at(400));
    sender.check_late(at(450), &mut actions);
    assert_eq!(actions, []);
    sender.check_late(at(502), &mut actions);
    let silence = Duration::from_millis(501);
    assert_eq!(actions, [Action::GiveUp { path: 0, loss: Loss::Silent { silence, timeouts: 0 } }]);
    assert_eq!(next(&mut sender, 1, at(503)), []);
    // Both ends have stopped it.
    lose(&mut sender, 0, &silent(), at(504));
    assert_eq!(next(&mut sender, 1, at(505)).len(), 1);
    assert_eq!(acknowledge(&mut sender, 1, 1, at(506)), [7]);
}

/// The path that is late has the last chunk: nobody else is heard of by himself.
#[test]
fn a_path_that_places_is_given_up_when_the_others_have_nothing_left() {
    let capabilities = Capabilities::RELIABLE_WRITES;
    let mut sender = Sender::over(vec![PathConfig { addresses: 0, capabilities }; 2], CHUNK, at(0));
    let mut actions = Vec::new();
    (0..2).for_each(|path| sender.connected(path, at(0), &mut actions));
    push(&mut sender, 2 << 16, 7);
    next(&mut sender, 0, at(1));
    next(&mut sender, 1, at(1));
    acknowledge(&mut sender, 1, 1, at(22));
    sender.check_late(at(30), &mut actions);
    assert_eq!((actions.as_slice(), sender.state(0)), (&[][..], State::Suspected));
    sender.check_late(at(600), &mut actions);
    assert_eq!(actions, [Action::Ping(1)]);
    acknowledge(&mut sender, 1, 0, at(601));
    actions.clear();
    sender.check_late(at(602), &mut actions);
    assert!(matches!(actions[..], [Action::GiveUp { path: 0, .. }]), "{actions:?}");
}

#[test]
fn an_empty_message_is_one_chunk() {
    let mut sender = sender(2);
    push(&mut sender, 0, 1);
    push(&mut sender, 0, 2);
    let chunks: Vec<_> = (0..2).flat_map(|path| next(&mut sender, path, at(1))).collect();
    assert_eq!(chunks.iter().map(|chunk| chunk.header.message).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(acknowledge(&mut sender, 1, 1, at(2)), [2]);
    assert_eq!(acknowledge(&mut sender, 0, 1, at(2)), [1]);
    assert!(sender.is_idle());
}
