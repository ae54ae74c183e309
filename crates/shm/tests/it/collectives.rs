//! Every collective on shared buffers against the exact result: any type, operator, root, number of
//! ranks from 1 to 17, any size, in and out of place, whole worlds and groups of them.
//! Not speed, and not processes: ranks are threads here, which is all that the algorithms see.
use std::{sync::Arc, time::Duration};

use busbw_core::{
    Collective, DataType, ReduceOp,
    algorithm::{Algorithm, Choice},
    alltoallv::Traffic,
    layout::Shape,
    pattern::{self, Mismatch, POISON, Pattern},
};
use busbw_shm::{Buffer, Buffers, Call, Communicator, Control, Exchange, Region, Wait, WaitPolicy};
use proptest::{prelude::*, strategy::ValueTree};

/// One operation to try.
#[derive(Debug, Clone)]
struct Trial {
    collective: Collective,
    datatype: DataType,
    op: ReduceOp,
    ranks: usize,
    root: usize,
    bytes: usize,
    in_place: bool,
    unalign: usize,
    spread: f64,
    seed: u64,
    /// Which of the collective's ways; the table's where it cannot run.
    way: usize,
}

impl Trial {
    fn choice(&self, comm: &Communicator, call: &Call) -> Choice {
        let ways: Vec<Choice> = Choice::of(self.collective).collect();
        let way = ways[self.way % ways.len()];
        if comm.can_run(way, call) { way } else { comm.choice(call) }
    }
}

fn trials() -> impl Strategy<Value = Trial> {
    let sizes = prop_oneof![0usize..200, 0usize..5000, 16_300usize..16_500, 60_000usize..70_000];
    (
        (0..Collective::ALL.len(), 0usize..12, 0usize..6, 1usize..18, 0usize..17),
        (sizes, any::<bool>(), 0usize..3, 0.0f64..=1.0, any::<u64>(), any::<usize>()),
    )
        .prop_map(
            |(
                (collective, datatype, op, ranks, root),
                (bytes, in_place, unalign, spread, seed, way),
            )| {
                let collective = Collective::ALL[collective];
                let power = ranks.next_power_of_two().min(16);
                let ranks = if collective.allows(ranks) { ranks } else { power };
                Trial {
                    collective,
                    datatype: DataType::ALL[datatype],
                    op: ReduceOp::ALL[op],
                    ranks,
                    root: root % ranks,
                    bytes,
                    in_place: in_place && collective.in_place_is_valid(),
                    unalign,
                    spread,
                    seed,
                    way,
                }
            },
        )
}

/// The memory of one world.
struct Shared {
    control: Arc<Control>,
    buffers: Arc<Buffers>,
    room: usize,
}

impl Shared {
    fn new(trial: &Trial, world: usize) -> Shared {
        let room = trial.bytes + 8 * trial.unalign + 64;
        let control = Control::map(Control::create(world).unwrap(), world).unwrap();
        let fds: Vec<_> = (0..world).map(|r| Buffers::create(r, room, true).unwrap()).collect();
        Shared { control, buffers: Buffers::map(&fds, room, true).unwrap(), room }
    }
}

/// Runs a trial over a whole world and returns what each rank found wrong.
fn run(trial: &Trial, sabotage: Option<usize>) -> Vec<Mismatch> {
    let members: Vec<usize> = (0..trial.ranks).collect();
    run_on(trial, &members, &Shared::new(trial, trial.ranks), sabotage)
}

/// The same over the ranks of `members`.
fn run_on(
    trial: &Trial,
    members: &[usize],
    shared: &Shared,
    sabotage: Option<usize>,
) -> Vec<Mismatch> {
    on_every_rank(members, shared, |comm| operate(trial, comm, shared.room, sabotage))
}

/// Runs `work` on every rank of a communicator, in rank order of the results.
fn on_every_rank<T: Send>(
    members: &[usize],
    shared: &Shared,
    work: impl Fn(&mut Communicator) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let ranks: Vec<_> = members
            .iter()
            .map(|world_rank| {
                let (control, buffers) = (Arc::clone(&shared.control), Arc::clone(&shared.buffers));
                let work = &work;
                scope.spawn(move || {
                    let policy = WaitPolicy::new(members.len(), 2);
                    let mut comm =
                        Communicator::new(members, *world_rank, buffers, control, policy);
                    comm.set_timeout(Some(Duration::from_secs(30)));
                    comm.touch().unwrap();
                    work(&mut comm)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Fills, runs and verifies one operation on one rank.
fn operate(
    trial: &Trial,
    comm: &mut Communicator,
    room: usize,
    sabotage: Option<usize>,
) -> Mismatch {
    let (rank, ranks) = (comm.rank(), comm.size());
    let traffic = Traffic::Generated { spread: trial.spread };
    let element = trial.datatype.bytes();
    let counts = trial.collective.counts(trial.bytes, element, ranks, &traffic);
    let (collective, root) = (trial.collective, trial.root);
    let shape =
        Shape { collective, counts, ranks, root, traffic: &traffic, element_bytes: element };
    let pattern = Pattern { seed: trial.seed, datatype: trial.datatype, op: trial.op, ranks };
    let base = trial.unalign * element;
    let strided = |stride| Region { buffer: Buffer::Check, offset: base, stride: stride * element };
    let (send, recv) = if trial.in_place {
        (strided(counts.send_in_place_stride), strided(counts.recv_in_place_stride))
    } else {
        (Region { buffer: Buffer::Send, offset: base, stride: 0 }, strided(0))
    };
    comm.own(Buffer::Check, 0, room).fill(POISON);
    let at = send.offset + rank * send.stride;
    let bytes = shape.send_elements(rank) * element;
    pattern::fill(comm.own(send.buffer, at, bytes), &pattern, shape.input(rank));
    let exchange = Exchange::of(collective, &traffic, counts.param, trial.datatype, rank, ranks);
    let (datatype, op, count) = (trial.datatype, trial.op, counts.param);
    let call = Call { collective, datatype, op, root, count, send, recv, exchange: &exchange };
    comm.run_by(trial.choice(comm, &call), &call).unwrap();
    let at = recv.offset + rank * recv.stride;
    let memory = comm.own(recv.buffer, at, counts.recv * element);
    if let Some(byte) = sabotage.filter(|_| rank == 0 && !memory.is_empty()) {
        memory[byte % counts.recv.max(1) * element] ^= 0x10;
    }
    let mut found = Mismatch::default();
    for s in shape.output(rank, trial.in_place) {
        let bytes = &memory[s.at * element..(s.at + s.len) * element];
        found.add(pattern::verify(bytes, &pattern, s.content), s.at as u64);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_element_is_exact(trial in trials()) {
        for (rank, found) in run(&trial, None).into_iter().enumerate() {
            prop_assert_eq!(found, Mismatch::default(), "rank {}", rank);
        }
    }

    #[test]
    fn one_flipped_bit_is_found(trial in trials(), byte in any::<usize>()) {
        let counts = trial.collective.counts(
            trial.bytes, trial.datatype.bytes(), trial.ranks, &Traffic::Generated { spread: trial.spread },
        );
        prop_assume!(counts.recv > 0);
        let found = run(&trial, Some(byte));
        prop_assert_eq!(found[0].wrong, 1);
        prop_assert_eq!(found[0].first.unwrap().index, (byte % counts.recv) as u64);
    }
}

/// Many operations back to back, of all kinds and roots, on ranks that nothing else holds together:
/// slots are reused, and rooted operations let some ranks run ahead of others.
#[test]
fn operations_follow_each_other() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for ranks in [2, 3, 4, 8] {
        let mut sequence = Vec::new();
        while sequence.len() < 400 {
            let mut trial = trials().new_tree(&mut runner).unwrap().current();
            if trial.collective.allows(ranks) {
                trial.bytes %= 20_000;
                trial.root %= ranks;
                sequence.push(trial);
            }
        }
        let room = Trial { bytes: 20_000, unalign: 3, ..sequence[0].clone() };
        let shared = Shared::new(&room, ranks);
        let members: Vec<usize> = (0..ranks).collect();
        let wrong = on_every_rank(&members, &shared, |comm| {
            let rank = comm.rank();
            let mut found = sequence.iter().map(|trial| {
                // Some ranks come late, another one each time.
                if trial.seed % 16 == 0 && trial.seed / 16 % ranks as u64 == rank as u64 {
                    std::thread::sleep(Duration::from_micros(300));
                }
                operate(trial, comm, shared.room, None)
            });
            found.position(|found| found != Mismatch::default())
        });
        assert!(wrong.iter().all(Option::is_none), "{ranks} ranks: first wrong {wrong:?}");
    }
}

/// Every collective, every way, both placements, once: what miri has the time for (tests/sanitize.sh).
#[test]
fn every_way_once() {
    for collective in Collective::ALL {
        for (ranks, in_place) in [(2, false), (2, true), (3, false), (3, true)] {
            if !collective.allows(ranks) || (in_place && !collective.in_place_is_valid()) {
                continue;
            }
            let trials: Vec<Trial> = (0..Choice::of(collective).count())
                .map(|way| Trial {
                    collective,
                    in_place,
                    way,
                    unalign: way % 2,
                    ..like(ranks, 150)
                })
                .collect();
            let shared = Shared::new(&trials[1 % trials.len()], ranks);
            let members: Vec<usize> = (0..ranks).collect();
            let found = on_every_rank(&members, &shared, |comm| {
                let found = trials.iter().map(|trial| operate(trial, comm, shared.room, None));
                found.collect::<Vec<_>>()
            });
            for (way, found) in found.into_iter().flat_map(|rank| rank.into_iter().enumerate()) {
                assert_eq!(found, Mismatch::default(), "{collective:?} {ranks} {in_place} {way}");
            }
        }
    }
}

/// Rooted operations through slots, more of them than there are slots: who only posts runs ahead of
/// who takes, and must not overwrite what is not taken yet.
#[test]
fn messages_stay_until_taken() {
    use Collective::{Broadcast, Gather, Reduce, Scatter};
    for collective in [Reduce, Gather, Broadcast, Scatter] {
        let is_slot = |way: &Choice| way.algorithm == Algorithm::Slot;
        let way = Choice::of(collective).position(|way| is_slot(&way)).unwrap();
        let trials: Vec<Trial> =
            (0..16).map(|seed| Trial { collective, way, seed, root: 0, ..like(2, 200) }).collect();
        let shared = Shared::new(&trials[0], 2);
        let found = on_every_rank(&[0, 1], &shared, |comm| {
            trials.iter().all(|t| operate(t, comm, shared.room, None) == Mismatch::default())
        });
        assert_eq!(found, [true, true], "{collective:?}");
    }
}

/// With any number of ranks and room: every rank gets the same table, and it can run.
#[test]
fn tuned_tables_are_the_same_everywhere() {
    for (ranks, room) in [(1, 64), (2, 40_000), (3, 8), (4, 3000)] {
        for collective in Collective::ALL {
            let trial = Trial { collective, ..like(ranks, room) };
            if !collective.allows(ranks) {
                continue;
            }
            let members: Vec<usize> = (0..ranks).collect();
            let shared = Shared::new(&trial, ranks);
            let tables = on_every_rank(&members, &shared, |comm| {
                let table = comm.tune(collective, room).unwrap();
                comm.set_table(table.clone());
                assert_eq!(operate(&trial, comm, shared.room, None), Mismatch::default());
                table
            });
            assert!(tables.iter().all(|table| *table == tables[0]), "{collective:?} {ranks}");
            let measured_to = Communicator::tunes_to(collective, ranks, room);
            assert_eq!(tables[0].measured_to, measured_to, "{collective:?} {ranks}");
        }
    }
}

/// Who waits in vain names those who did not come, and never itself, though it posts nothing.
#[test]
fn who_waits_is_not_missing() {
    for collective in [Collective::Reduce, Collective::Gather, Collective::AllReduce] {
        let trial = Trial { collective, root: 0, ..like(3, 64) };
        let shared = Shared::new(&trial, 3);
        let outcomes = on_every_rank(&[0, 1, 2], &shared, |comm| {
            if comm.rank() == 2 {
                return Ok(());
            }
            comm.set_timeout(Some(Duration::from_millis(50)));
            let whole = |buffer| Region { buffer, offset: 0, stride: 0 };
            let call = Call {
                collective,
                datatype: DataType::Float,
                op: ReduceOp::Sum,
                root: 0,
                count: 4,
                send: whole(Buffer::Send),
                recv: whole(Buffer::Recv),
                exchange: &Exchange::default(),
            };
            let slot = Choice { algorithm: Algorithm::Slot, streamed: false };
            comm.run_by(slot, &call)
        });
        assert_eq!(outcomes[0], Err(Wait::TimedOut { missing: vec![2] }), "{collective:?}");
    }
}

/// A trial of `bytes` over `ranks` ranks.
fn like(ranks: usize, bytes: usize) -> Trial {
    Trial {
        collective: Collective::AllReduce,
        datatype: DataType::Float,
        op: ReduceOp::Sum,
        ranks,
        root: ranks - 1,
        bytes,
        in_place: false,
        unalign: 0,
        spread: 1.0,
        seed: 5,
        way: 0,
    }
}

/// Two communicators of one world, at the same time on the same memory, each exact within itself:
/// their patterns differ, so that data of the other one would be wrong.
#[test]
fn groups_do_not_disturb_each_other() {
    for collective in Collective::ALL {
        let trial = Trial { collective, ..like(2, 4096) };
        let shared = Shared::new(&trial, 4);
        std::thread::scope(|scope| {
            let groups = [[0, 2], [1, 3]].map(|members| {
                let (trial, shared) =
                    (Trial { seed: 5 + members[0] as u64, ..trial.clone() }, &shared);
                scope.spawn(move || run_on(&trial, &members, shared, None))
            });
            for group in groups {
                let found = group.join().unwrap();
                assert!(found.iter().all(|f| f.wrong == 0), "{collective:?} {found:?}");
            }
        });
    }
}
