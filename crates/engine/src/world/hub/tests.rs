//! Ranks at a hub: who joins, what they exchange, how an abort reaches them.

use super::*;
use crate::{
    shm::{Control, WaitPolicy},
    world::{Invitation, Member, World},
};
use std::sync::{atomic::AtomicUsize, mpsc};

fn join(hub: &Hub, rank: usize, size: usize, token: &str) -> Result<Member, crate::WorldError> {
    let control = Control::map(Control::create(size).unwrap(), size).unwrap();
    let invitation = Invitation {
        hub: hub.address(),
        token: token.to_owned(),
        rank,
        size,
        host: "here".to_owned(),
        sharing: None,
    };
    let policy = WaitPolicy::new(size, 2);
    Member::join(invitation, b"facts", control, policy).map(|(member, _)| member)
}

#[test]
fn everyone_gets_everything_in_rank_order() {
    let (events, heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(3, 1, "secret", b"begin".to_vec(), events).unwrap();
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let hub = &hub;
            scope.spawn(move || {
                let mut member = join(hub, rank, 3, "secret").unwrap();
                for round in 0..20 {
                    let all = member.allgather(&[rank as u8, round], None).unwrap();
                    let want: Vec<Vec<u8>> = (0..3).map(|r| vec![r, round]).collect();
                    assert_eq!(all, want);
                }
                member.leave();
            });
        }
    });
    let mut left = 0;
    while left < 3 {
        if let HubEvent::Left { done, .. } = heard.recv().unwrap() {
            assert!(done);
            left += 1;
        }
    }
}

/// Four ranks in two memories of their own: nobody is a whole round ahead of anybody.
#[test]
fn memories_meet_at_the_hub() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(4, 2, "secret", Vec::new(), events).unwrap();
    let rounds: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    let memories = [(); 2].map(|()| Control::map(Control::create(4).unwrap(), 4).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let (hub, rounds, control) = (&hub, &rounds, Arc::clone(&memories[rank / 2]));
            scope.spawn(move || {
                let invitation = Invitation {
                    hub: hub.address(),
                    token: "secret".to_owned(),
                    rank,
                    size: 4,
                    host: "here".to_owned(),
                    sharing: Some(vec![rank / 2 * 2, rank / 2 * 2 + 1]),
                };
                let policy = WaitPolicy::new(4, 2);
                let (mut member, _) = Member::join(invitation, b"", control, policy).unwrap();
                for round in 1..=50 {
                    rounds[rank].store(round, Ordering::SeqCst);
                    member.barrier(None).unwrap();
                    let seen = rounds.iter().map(|r| r.load(Ordering::SeqCst));
                    assert!(seen.min() >= Some(round), "rank {rank} left round {round} early");
                }
                member.leave();
            });
        }
    });
}

#[test]
fn a_memory_that_does_not_come_is_named() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 2, "secret", Vec::new(), events).unwrap();
    let control = Control::map(Control::create(2).unwrap(), 2).unwrap();
    let invitation = Invitation {
        hub: hub.address(),
        token: "secret".to_owned(),
        rank: 0,
        size: 2,
        host: "here".to_owned(),
        sharing: Some(vec![0]),
    };
    let policy = WaitPolicy::new(2, 2);
    let (mut member, _) = Member::join(invitation, b"", control, policy).unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(50));
    assert!(matches!(member.barrier(soon), Err(crate::WorldError::TimedOut { .. })));
    assert_eq!(hub.missing(&[0, 1]), [1]);
}

#[test]
fn strangers_are_refused() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(1, 1, "secret", Vec::new(), events).unwrap();
    assert!(join(&hub, 0, 1, "guess").is_err());
    assert!(join(&hub, 7, 8, "secret").is_err());
    assert!(join(&hub, 0, 1, "secret").is_ok());
}

/// A rank is stopped in the middle of an exchange that is larger than its socket's buffers.
#[test]
fn abort_does_not_wait_for_a_rank_that_reads_nothing() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, "secret", Vec::new(), events).unwrap();
    let join = |rank: u64| {
        let mut stream = TcpStream::connect(hub.address()).unwrap();
        let rank = rank.to_le_bytes().to_vec();
        let hello = wire::pack(&[b"secret".to_vec(), rank, Vec::new()]);
        wire::send(&mut stream, Kind::Join, &hello).unwrap();
        stream
    };
    let (mut deaf, mut large) = (join(0), join(1));
    wire::send(&mut deaf, Kind::Part, &[]).unwrap();
    while hub.missing(&[]) != [1] {
        std::thread::yield_now();
    }
    wire::send(&mut large, Kind::Part, &vec![0; 1 << 25]).unwrap();
    while !hub.missing(&[]).is_empty() {
        std::thread::yield_now();
    }
    let begun = Instant::now();
    hub.abort("rank 0 was stopped");
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn abort_reaches_a_rank_that_joins_later() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, "secret", Vec::new(), events).unwrap();
    hub.abort("interrupted");
    while lock(&hub.state).stopped.is_none() {
        std::thread::yield_now();
    }
    let mut member = join(&hub, 0, 2, "secret").unwrap();
    let soon = Some(Instant::now() + Duration::from_secs(5));
    let why = member.allgather(b"", soon).unwrap_err();
    assert!(matches!(&why, crate::WorldError::Aborted(why) if why == "interrupted"), "{why}");
}

#[test]
fn abort_reaches_a_waiting_rank() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, "secret", Vec::new(), events).unwrap();
    let mut member = join(&hub, 0, 2, "secret").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || member.allgather(b"", None));
        std::thread::sleep(std::time::Duration::from_millis(30));
        hub.abort("rank 1 was lost");
        let error = waiting.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("rank 1 was lost"), "{error}");
    });
}
