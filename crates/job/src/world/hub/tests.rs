//! Ranks at a hub: who joins, what they exchange, how an abort reaches them.

use super::*;
use crate::{
    frame::{self, Peer},
    world::{JoinParameters, Member, World, messages::ToHub},
};
use busbw_shm::shm::{Control, WaitPolicy};
use std::{
    io::Write,
    net::TcpStream,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

/// Whatever takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Waits until the parts of just these ranks, or the barrier's of just these leaders, are missing.
fn until_missing(hub: &Hub, leaders: &[usize], ranks: &[usize]) {
    let by = Instant::now() + WATCHDOG;
    while hub.missing(leaders) != ranks {
        assert!(Instant::now() < by, "{:?} are missing", hub.missing(leaders));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(stream: &mut TcpStream, message: &ToHub<'_>) {
    stream.write_all(&message.frame().unwrap()).unwrap();
}

/// A rank without a member, for what members do not do.
fn join_raw(hub: &Hub, rank: usize) -> TcpStream {
    let mut stream = TcpStream::connect(hub.address()).unwrap();
    send(&mut stream, &ToHub::Join { token: b"secret", rank, facts: b"" });
    stream
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    frame::receive(stream, Peer::Authenticated)
}

fn join(
    hub: &Hub,
    rank: usize,
    size: usize,
    token: &str,
) -> Result<Member, crate::world::WorldError> {
    let control = Control::map(Control::create(size).unwrap(), size).unwrap();
    let parameters = JoinParameters {
        hub: hub.address(),
        token: token.to_owned(),
        rank,
        size,
        host: "here".to_owned(),
        sharing: None,
    };
    let policy = WaitPolicy::new(size, 2);
    Member::join(parameters, b"facts", control, policy).map(|(member, _)| member)
}

#[test]
fn everyone_gets_everything_in_rank_order() {
    let (sender, events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(3, 1, ListenScope::Host, "secret", b"begin", sender).unwrap();
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
        if let HubEvent::Left { done, .. } = events.recv().unwrap() {
            assert!(done);
            left += 1;
        }
    }
}

/// Four ranks in two memories of their own: no rank is a whole round ahead of another.
#[test]
fn memories_synchronise_at_the_hub() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(4, 2, ListenScope::Host, "secret", b"", sender).unwrap();
    let rounds: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    let memories = [(); 2].map(|()| Control::map(Control::create(4).unwrap(), 4).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let (hub, rounds, control) = (&hub, &rounds, Arc::clone(&memories[rank / 2]));
            scope.spawn(move || {
                let parameters = JoinParameters {
                    hub: hub.address(),
                    token: "secret".to_owned(),
                    rank,
                    size: 4,
                    host: "here".to_owned(),
                    sharing: Some(vec![rank / 2 * 2, rank / 2 * 2 + 1]),
                };
                let policy = WaitPolicy::new(4, 2);
                let (mut member, _) = Member::join(parameters, b"", control, policy).unwrap();
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
fn a_memory_missing_at_the_barrier_is_named() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 2, ListenScope::Host, "secret", b"", sender).unwrap();
    let control = Control::map(Control::create(2).unwrap(), 2).unwrap();
    let parameters = JoinParameters {
        hub: hub.address(),
        token: "secret".to_owned(),
        rank: 0,
        size: 2,
        host: "here".to_owned(),
        sharing: Some(vec![0]),
    };
    let policy = WaitPolicy::new(2, 2);
    let (mut member, _) = Member::join(parameters, b"", control, policy).unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(50));
    assert!(matches!(member.barrier(soon), Err(crate::world::WorldError::TimedOut { .. })));
    until_missing(&hub, &[0, 1], &[1]);
}

#[test]
fn connections_without_the_token_are_refused() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(1, 1, ListenScope::Host, "secret", b"", sender).unwrap();
    assert!(join(&hub, 0, 1, "guess").is_err());
    assert!(join(&hub, 7, 8, "secret").is_err());
    assert!(join(&hub, 0, 1, "secret").is_ok());
}

/// A rank is stopped in the middle of an exchange that is larger than its socket's buffers.
#[test]
fn abort_does_not_wait_for_a_rank_that_reads_nothing() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", sender).unwrap();
    let (mut stopped, mut large) = (join_raw(&hub, 0), join_raw(&hub, 1));
    send(&mut stopped, &ToHub::Part(&[]));
    until_missing(&hub, &[], &[1]);
    send(&mut large, &ToHub::Part(&vec![0; 1 << 25]));
    until_missing(&hub, &[], &[]);
    // If this waited for rank 0, it would never return: rank 0 reads only afterwards.
    hub.abort("rank 0 was stopped");
    let mut received = std::iter::from_fn(|| receive(&mut stopped).ok());
    let aborted = ToRank::Abort("rank 0 was stopped");
    assert!(received.any(|payload| ToRank::parse(&payload).unwrap() == aborted));
}

#[test]
fn abort_reaches_a_rank_that_joins_later() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", sender).unwrap();
    hub.abort("interrupted");
    let mut member = join(&hub, 0, 2, "secret").unwrap();
    let soon = Some(Instant::now() + WATCHDOG);
    let why = member.allgather(b"", soon).unwrap_err();
    assert!(
        matches!(&why, crate::world::WorldError::Aborted(why) if why == "interrupted"),
        "{why}"
    );
}

#[test]
fn abort_reaches_a_waiting_rank() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", sender).unwrap();
    let mut member = join(&hub, 0, 2, "secret").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || member.allgather(b"", None));
        until_missing(&hub, &[], &[1]);
        hub.abort("rank 1 was lost");
        let error = waiting.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("rank 1 was lost"), "{error}");
    });
}

/// More ranks than a listening socket's usual queue holds, all at once; `bench/world.rs` has a thousand.
#[test]
fn hundreds_connect_at_once() {
    const RANKS: usize = 300;
    let (sender, events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(RANKS, 1, ListenScope::Host, "secret", b"begin", sender).unwrap();
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let hub = &hub;
            let join = move || {
                let mut member = join(hub, rank, RANKS, "secret").unwrap();
                let all = member.allgather(&rank.to_le_bytes(), None).unwrap();
                let want: Vec<Vec<u8>> = (0..RANKS).map(|r| r.to_le_bytes().to_vec()).collect();
                assert_eq!(all, want);
                member.leave();
            };
            std::thread::Builder::new().stack_size(1 << 17).spawn_scoped(scope, join).unwrap();
        }
    });
    let left = |event: &HubEvent| matches!(event, HubEvent::Left { done: true, .. });
    assert_eq!(events.iter().filter(left).take(RANKS).count(), RANKS);
    assert!(hub.is_empty());
}

/// One rank reads nothing while the others go on; what it was sent waits for it, whole.
#[test]
fn a_slow_reader_holds_up_nobody() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", sender).unwrap();
    let mut slow = join_raw(&hub, 0);
    let mut fast = join(&hub, 1, 2, "secret").unwrap();
    let part = vec![7; 1 << 20];
    for _ in 0..20 {
        send(&mut slow, &ToHub::Part(&[3]));
        let soon = Some(Instant::now() + WATCHDOG);
        assert_eq!(fast.allgather(&part, soon).unwrap(), [vec![3], part.clone()]);
    }
    assert_eq!(ToRank::parse(&receive(&mut slow).unwrap()).unwrap(), ToRank::Begin(b""));
    for _ in 0..20 {
        let all = receive(&mut slow).unwrap();
        assert_eq!(ToRank::parse(&all).unwrap(), ToRank::All(vec![&[3], &part]));
    }
}

/// Loopback is for the ranks of this host, whichever addresses were chosen for others.
#[test]
fn ranks_of_this_host_join_over_loopback_in_any_case() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let scope = ListenScope::Network(vec![Ipv4Addr::new(192, 0, 2, 1).into()]);
    let hub = Hub::open(1, 2, scope, "secret", b"", sender).unwrap();
    assert!(join(&hub, 0, 1, "secret").is_ok());
}

#[test]
fn unauthenticated_connections_are_bounded() {
    let (sender, _events) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(1, 1, ListenScope::Host, "secret", b"", sender).unwrap();
    let mut unknown = TcpStream::connect(hub.address()).unwrap();
    unknown.set_read_timeout(Some(WATCHDOG)).unwrap();
    let large = ToHub::Join { token: b"secret", rank: 0, facts: &vec![0; 1 << 20] };
    unknown.write_all(&large.frame().unwrap()).unwrap_or_default();
    assert!(receive(&mut unknown).is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock));
    assert!(join(&hub, 0, 1, "secret").is_ok());
}
