//! What a receiver does as time passes, without any network.
//! Not whole connections over simulated networks (`busbw-multipath-sim`).

use std::time::Duration;

use super::*;
use crate::{
    Memory, SMALL,
    frame::{Frame, Header},
    memory::fake::Fake,
};

const CHUNK: u32 = 1 << 16;

fn at(milliseconds: u64) -> Time {
    Time(milliseconds * 1_000_000)
}

fn chunk(message: u64, total: usize, index: u32) -> Header {
    Header { message, total: total as u64, chunk: CHUNK, index }
}

/// Bytes that arrive on a path, as far as the receiver takes them.
fn feed(
    receiver: &mut Receiver<Fake>,
    incoming: &mut Incoming<Fake>,
    mut bytes: &[u8],
) -> Result<Vec<Request>, Error> {
    let mut done = Vec::new();
    incoming.begin();
    loop {
        if receiver.advance(incoming, |request, _| done.push(request))? == Pause::Request
            || bytes.is_empty()
        {
            return Ok(done);
        }
        let count = match incoming.target() {
            Target::Ahead(room) => {
                let count = room.len().min(bytes.len());
                room[..count].copy_from_slice(&bytes[..count]);
                count
            }
            Target::Memory { memory, offset, rest, .. } => {
                let count = rest.min(bytes.len());
                memory.part(offset, count).write(&bytes[..count]);
                count
            }
            Target::Buffer(buffer, _) => {
                let count = buffer.len().min(bytes.len());
                buffer[..count].copy_from_slice(&bytes[..count]);
                count
            }
            Target::Nowhere(rest, _) => rest.min(bytes.len()),
        };
        incoming.filled(count);
        bytes = &bytes[count..];
    }
}

fn framed(header: Header, byte: u8) -> Vec<u8> {
    [&Frame::Chunk(header).encoded()[..], &vec![byte; header.bytes()]].concat()
}

fn post(receiver: &mut Receiver<Fake>, bytes: usize, request: Request) -> Fake {
    let memory = Fake::new(bytes);
    receiver.post(memory.clone(), bytes, request, |_, _| {}).unwrap();
    memory
}

#[test]
fn long_chunks_are_acknowledged_at_once_and_small_messages_together() {
    let mut receiver = Receiver::default();
    let mut path = receiver.connected(0, 0);
    let memory = post(&mut receiver, 20_000, 0);
    assert_eq!(feed(&mut receiver, &mut path, &framed(chunk(0, 20_000, 0), 7)), Ok(vec![0]));
    assert!(memory.bytes.borrow().iter().all(|byte| *byte == 7));
    assert_eq!(path.acknowledgement(false), Some(1));
    path.acknowledged();
    for message in 1..=32 {
        post(&mut receiver, 100, message);
        feed(&mut receiver, &mut path, &framed(chunk(message as u64, 100, 0), 7)).unwrap();
        // While more may be read, twice as many as while nothing is there.
        assert_eq!(path.acknowledgement(true).is_some(), message >= 16, "{message}");
        assert_eq!(path.acknowledgement(false).is_some(), message >= 32, "{message}");
    }
    assert_eq!(path.last_acknowledgement(), Some(32));
}

/// A call to the kernel for each of 16 would be a twentieth of their way.
#[test]
fn small_messages_without_long_ones_are_acknowledged_more_rarely() {
    let mut receiver = Receiver::default();
    let mut path = receiver.connected(0, 0);
    for message in 0..64 {
        post(&mut receiver, 100, message);
        feed(&mut receiver, &mut path, &framed(chunk(message as u64, 100, 0), 7)).unwrap();
        path.acknowledged();
    }
    for message in 64..160 {
        post(&mut receiver, 100, message);
        feed(&mut receiver, &mut path, &framed(chunk(message as u64, 100, 0), 7)).unwrap();
        assert_eq!(path.acknowledgement(true).is_some(), message >= 127, "{message}");
        assert_eq!(path.acknowledgement(false).is_some(), message >= 159, "{message}");
    }
}

#[test]
fn a_ping_is_answered_when_a_message_is_missing_or_something_is_unacknowledged() {
    let mut receiver = Receiver::<Fake>::default();
    let mut path = receiver.connected(0, 0);
    let ping = Frame::Ping.encoded();
    feed(&mut receiver, &mut path, &ping).unwrap();
    assert_eq!(path.acknowledgement(true), None);
    post(&mut receiver, 100, 0);
    feed(&mut receiver, &mut path, &ping).unwrap();
    assert_eq!(path.acknowledgement(true), Some(0));
    path.acknowledged();
    assert_eq!(path.acknowledgement(true), None);
}

#[test]
fn a_long_chunk_waits_for_its_receive_and_a_small_one_does_not() {
    let mut receiver = Receiver::default();
    let mut path = receiver.connected(0, 0);
    feed(&mut receiver, &mut path, &framed(chunk(0, SMALL, 0), 1)).unwrap();
    assert!(receiver.is_early() && !path.is_waiting());
    let header = Frame::Chunk(chunk(1, SMALL + 1, 0)).encoded();
    feed(&mut receiver, &mut path, &header).unwrap();
    assert!(path.is_waiting() && path.is_ready());
    let mut done = Vec::new();
    receiver.post(Fake::new(SMALL), SMALL, 0, |request, _| done.push(request)).unwrap();
    assert_eq!(done, [0]);
    post(&mut receiver, SMALL + 1, 1);
    assert_eq!(feed(&mut receiver, &mut path, &vec![2; SMALL + 1]), Ok(vec![1]));
}

/// Two paths have the same chunk: the one that is late does not write any more when the message is done.
#[test]
fn of_two_paths_with_one_chunk_the_late_one_gives_way() {
    let mut receiver = Receiver::default();
    let (mut late, mut quick) = (receiver.connected(0, 0), receiver.connected(1, 0));
    let memory = post(&mut receiver, 40_000, 0);
    let all = framed(chunk(0, 40_000, 0), 7);
    assert_eq!(feed(&mut receiver, &mut late, &all[..10_000]), Ok(vec![]));
    assert_eq!(feed(&mut receiver, &mut quick, &all), Ok(vec![]));
    // The sender hears that it has arrived, whichever path it was.
    assert_eq!(quick.acknowledgement(true), Some(1));
    let mut done = Vec::new();
    for duplicate in receiver.duplicates() {
        assert_eq!(receiver.writer(&duplicate), Some(0));
        receiver.settle(duplicate, Some(&mut late), |request, _| done.push(request));
    }
    assert_eq!(done, [0]);
    assert!(memory.bytes.borrow().iter().all(|byte| *byte == 7));
    feed(&mut receiver, &mut late, &vec![9; all.len() - 10_000]).unwrap();
    assert!(memory.bytes.borrow().iter().all(|byte| *byte == 7), "it wrote what was done");
    assert_eq!(late.acknowledgement(true), Some(1));
}

#[test]
fn what_a_lost_path_was_writing_another_one_writes() {
    let mut receiver = Receiver::default();
    let mut path = receiver.connected(0, 0);
    post(&mut receiver, 40_000, 0);
    let all = framed(chunk(0, 40_000, 0), 7);
    feed(&mut receiver, &mut path, &all[..10_000]).unwrap();
    receiver.lost(0, path, Duration::ZERO, at(1));
    let mut path = receiver.connected(0, 1);
    assert_eq!(feed(&mut receiver, &mut path, &all), Ok(vec![0]));
    assert_eq!(receiver.kept(), (0, 0, 0));
}

#[test]
fn an_older_connection_of_a_path_takes_no_place() {
    let mut receiver = Receiver::<Fake>::default();
    let path = receiver.connected(3, 5);
    assert!(!receiver.accepts(3, 5) && !receiver.accepts(3, 4) && receiver.accepts(3, 6));
    receiver.lost(3, path, Duration::ZERO, at(1));
    assert!(receiver.accepts(3, 0));
}

/// However long nothing is sent, as long as a path is up.
#[test]
fn a_connection_fails_when_all_paths_are_down_for_long() {
    let mut receiver = Receiver::<Fake>::default();
    let (one, other) = (receiver.connected(0, 0), receiver.connected(1, 0));
    receiver.check(at(1_000_000));
    receiver.lost(0, one, Duration::ZERO, at(1_000_000));
    receiver.check(at(2_000_000));
    assert_eq!(receiver.failure(), None);
    // The other host was not heard of for 10 s before that was noticed.
    receiver.lost(1, other, Duration::from_secs(10), at(2_000_000));
    receiver.check(at(2_010_000));
    assert_eq!(receiver.failure(), None);
    let back = receiver.connected(1, 1);
    receiver.check(at(2_020_000));
    assert_eq!(receiver.failure(), None);
    receiver.lost(1, back, Duration::ZERO, at(2_020_000));
    receiver.check(at(2_040_001));
    assert_eq!(receiver.failure(), Some(&Error::AllDown));
}

#[test]
fn a_fin_ends_the_connection_with_its_last_path() {
    let mut receiver = Receiver::<Fake>::default();
    let (mut one, other) = (receiver.connected(0, 0), receiver.connected(1, 0));
    feed(&mut receiver, &mut one, &Frame::Fin.encoded()).unwrap();
    receiver.lost(0, one, Duration::ZERO, at(1));
    receiver.check(at(1));
    assert_eq!(receiver.failure(), None);
    receiver.lost(1, other, Duration::ZERO, at(2));
    receiver.check(at(2));
    assert_eq!(receiver.failure(), Some(&Error::ClosedByPeer));
}

#[test]
fn what_breaks_the_protocol_fails_the_connection() {
    let two = [framed(chunk(0, 3 << 16, 0), 1), framed(chunk(0, 2 << 16, 1), 1)].concat();
    for bytes in [vec![1; 32], framed(chunk(0, 200_001, 0), 1), two] {
        let mut receiver = Receiver::default();
        let mut path = receiver.connected(0, 0);
        post(&mut receiver, 200_000, 0);
        let error = feed(&mut receiver, &mut path, &bytes).unwrap_err();
        assert_eq!(receiver.failure(), Some(&error));
    }
}

#[test]
fn nothing_is_written_after_an_abort() {
    let mut receiver = Receiver::default();
    let mut path = receiver.connected(0, 0);
    let memory = post(&mut receiver, 20_000, 0);
    assert!(receiver.writes(&memory.range));
    receiver.abort();
    assert!(!receiver.writes(&memory.range));
    feed(&mut receiver, &mut path, &framed(chunk(0, 20_000, 0), 7)).unwrap();
    assert!(memory.bytes.borrow().iter().all(|byte| *byte == 0));
}
