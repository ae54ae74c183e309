//! Ranks at a hub: who joins, what they exchange, how an abort reaches them.

use super::*;
use crate::world::wire;
use crate::world::{JoinParameters, Member, World};
use busbw_shm::shm::{Control, WaitPolicy};
use std::{
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
    let (events, heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(3, 1, ListenScope::Host, "secret", b"begin", events).unwrap();
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

/// Four ranks in two memories of their own: no rank is a whole round ahead of another.
#[test]
fn memories_synchronise_at_the_hub() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(4, 2, ListenScope::Host, "secret", b"", events).unwrap();
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
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 2, ListenScope::Host, "secret", b"", events).unwrap();
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
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(1, 1, ListenScope::Host, "secret", b"", events).unwrap();
    assert!(join(&hub, 0, 1, "guess").is_err());
    assert!(join(&hub, 7, 8, "secret").is_err());
    assert!(join(&hub, 0, 1, "secret").is_ok());
}

/// A rank is stopped in the middle of an exchange that is larger than its socket's buffers.
#[test]
fn abort_does_not_wait_for_a_rank_that_reads_nothing() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", events).unwrap();
    let join = |rank: u64| {
        let mut stream = TcpStream::connect(hub.address()).unwrap();
        let rank = rank.to_le_bytes().to_vec();
        let hello = wire::pack(&[b"secret".to_vec(), rank, Vec::new()]);
        wire::send(&mut stream, Kind::Join, &hello).unwrap();
        stream
    };
    let (mut deaf, mut large) = (join(0), join(1));
    wire::send(&mut deaf, Kind::Part, &[]).unwrap();
    until_missing(&hub, &[], &[1]);
    wire::send(&mut large, Kind::Part, &vec![0; 1 << 25]).unwrap();
    until_missing(&hub, &[], &[]);
    // If this waited for rank 0, it would never return: rank 0 reads only afterwards.
    hub.abort("rank 0 was stopped");
    let received = std::iter::from_fn(|| wire::receive(&mut deaf).ok());
    assert!(received.map(|(kind, _)| kind).any(|kind| kind == Kind::Abort));
}

#[test]
fn abort_reaches_a_rank_that_joins_later() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", events).unwrap();
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
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", events).unwrap();
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
    let (events, heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(RANKS, 1, ListenScope::Host, "secret", b"begin", events).unwrap();
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
    assert_eq!(heard.iter().filter(left).take(RANKS).count(), RANKS);
    assert!(hub.is_empty());
}

/// One rank reads nothing while the others go on; what it was sent waits for it, whole.
#[test]
fn a_slow_reader_holds_up_nobody() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(2, 1, ListenScope::Host, "secret", b"", events).unwrap();
    let mut slow = TcpStream::connect(hub.address()).unwrap();
    let hello = wire::pack(&[b"secret".to_vec(), 0u64.to_le_bytes().to_vec(), Vec::new()]);
    wire::send(&mut slow, Kind::Join, &hello).unwrap();
    let mut fast = join(&hub, 1, 2, "secret").unwrap();
    let part = vec![7; 1 << 20];
    for _ in 0..20 {
        wire::send(&mut slow, Kind::Part, &[3]).unwrap();
        let soon = Some(Instant::now() + WATCHDOG);
        assert_eq!(fast.allgather(&part, soon).unwrap(), [vec![3], part.clone()]);
    }
    assert_eq!(wire::receive(&mut slow).unwrap().0, Kind::Begin);
    for _ in 0..20 {
        let (kind, all) = wire::receive(&mut slow).unwrap();
        assert_eq!((kind, wire::unpack(&all).unwrap()), (Kind::All, vec![vec![3], part.clone()]));
    }
}

/// Loopback is for the ranks of this host, whichever addresses were chosen for others.
#[test]
fn ranks_of_this_host_join_over_loopback_in_any_case() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let scope = ListenScope::Network(vec![Ipv4Addr::new(192, 0, 2, 1).into()]);
    let hub = Hub::open(1, 2, scope, "secret", b"", events).unwrap();
    assert!(join(&hub, 0, 1, "secret").is_ok());
}

#[test]
fn unauthenticated_connections_are_bounded() {
    let (events, _heard) = mpsc::channel::<HubEvent>();
    let hub = Hub::open(1, 1, ListenScope::Host, "secret", b"", events).unwrap();
    let mut unknown = TcpStream::connect(hub.address()).unwrap();
    unknown.set_read_timeout(Some(WATCHDOG)).unwrap();
    wire::send(&mut unknown, Kind::Join, &vec![0; (1 << 20) + 1]).unwrap_or_default();
    assert!(wire::receive(&mut unknown).is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock));
    assert!(join(&hub, 0, 1, "secret").is_ok());
}
