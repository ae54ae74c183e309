//! One end ends: what has come is done, and what cannot come any more is an error.
//! Not processes that end (`exits`, `networks`), nor what comes of it much later (`multipath::manager::thread`).

use std::time::{Duration, Instant};

use crate::{
    Chance,
    loopback::{connected, network, soon},
    receive_all, send_all,
};

#[test]
fn a_receiver_that_ends_is_an_error() {
    let network = network();
    let (mut sender, receiver) = connected(&network);
    let data = vec![1u8; 4 << 20];
    // SAFETY: the data outlive the connection.
    let request = unsafe { sender.send(data.as_ptr(), data.len()) }.unwrap().unwrap();
    assert!(sender.test(request).unwrap().is_none());
    drop(receiver);
    let failure = soon(|| sender.test(request).err());
    assert!(failure.text.contains("closed the connection"), "{failure}");
    drop(sender);
}

#[test]
fn a_sender_that_ends_in_a_message_is_an_error() {
    let network = network();
    let (mut sender, mut receiver) = connected(&network);
    let data = vec![1u8; 64 << 20];
    let mut place = vec![0u8; 64 << 20];
    // SAFETY: the data outlive the connection.
    let (sent, received) = unsafe {
        let sent = sender.send(data.as_ptr(), data.len()).unwrap().unwrap();
        (sent, receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap())
    };
    for _ in 0..20 {
        assert!(sender.test(sent).unwrap().is_none());
        assert!(receiver.test(received).unwrap().is_none());
    }
    drop(sender);
    let failure = soon(|| receiver.test(received).err());
    assert!(failure.text.contains("closed the connection"), "{failure}");
}

#[test]
fn what_was_sent_comes_also_after_the_sender_has_ended() {
    let network = network();
    let (mut sender, mut receiver) = connected(&network);
    let sizes: Vec<usize> = (0..40).map(|number| number * 100).collect();
    send_all(sender.as_mut(), &sizes, 1).unwrap();
    drop(sender);
    receive_all(receiver.as_mut(), &sizes, 4, &mut Chance(3)).unwrap();
}

/// Also of a message whose last chunk is short, which the receiver acknowledges later than others.
#[test]
fn what_has_come_is_done_also_after_the_receiver_has_ended() {
    let network = network();
    for bytes in [64 << 10, (128 << 10) + 100].repeat(20) {
        let (mut sender, mut receiver) = connected(&network);
        let data = vec![1u8; bytes];
        let mut place = vec![0u8; bytes];
        // SAFETY: both outlive the connection.
        let (sent, received) = unsafe {
            let received = receiver.receive(place.as_mut_ptr(), place.len()).unwrap().unwrap();
            (sender.send(data.as_ptr(), data.len()).unwrap().unwrap(), received)
        };
        let until = Instant::now() + Duration::from_secs(6);
        while receiver.test(received).unwrap().is_none() {
            assert!(Instant::now() < until, "nothing after 6 s");
        }
        drop(receiver);
        assert_eq!(soon(|| sender.test(sent).unwrap()), bytes);
    }
}
