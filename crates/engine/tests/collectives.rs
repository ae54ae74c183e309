//! Every collective on shared buffers against the exact result: any type, operator, root, number of
//! ranks from 1 to 17, any size, in and out of place, whole worlds and groups of them.
//! Not speed, and not processes: ranks are threads here, which is all that the algorithms see.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{sync::Arc, time::Duration};

use engine::{Buffer, Buffers, Call, Communicator, Control, Region, WaitPolicy, segments};
use model::{
    Collective, DataType, ReduceOp,
    alltoallv::Traffic,
    layout::Shape,
    pattern::{self, Mismatch, POISON, Pattern},
};
use proptest::prelude::*;

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
}

fn trials() -> impl Strategy<Value = Trial> {
    let sizes = prop_oneof![0usize..200, 0usize..5000, 60_000usize..70_000];
    (
        (0usize..11, 0usize..12, 0usize..6, 1usize..18, 0usize..17),
        (sizes, any::<bool>(), 0usize..3, 0.0f64..=1.0, any::<u64>()),
    )
        .prop_map(
            |(
                (collective, datatype, op, ranks, root),
                (bytes, in_place, unalign, spread, seed),
            )| {
                let collective = Collective::ALL[collective];
                let power = ranks.next_power_of_two().min(16);
                let ranks = if collective == Collective::HyperCube { power } else { ranks };
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
    let traffic = Traffic::Generated { spread: trial.spread };
    let element = trial.datatype.bytes();
    let counts = trial.collective.counts(trial.bytes, element, trial.ranks, &traffic);
    let Shared { control, buffers, room } = shared;
    let room = *room;
    let shape = Shape {
        collective: trial.collective,
        counts,
        ranks: trial.ranks,
        root: trial.root,
        traffic: &traffic,
        element_bytes: element,
    };
    let pattern =
        Pattern { seed: trial.seed, datatype: trial.datatype, op: trial.op, ranks: trial.ranks };
    let base = trial.unalign * element;
    let strided = |stride| Region { buffer: Buffer::Proof, offset: base, stride: stride * element };
    let (send, recv) = if trial.in_place {
        (strided(counts.send_in_place_stride), strided(counts.recv_in_place_stride))
    } else {
        (Region { buffer: Buffer::Send, offset: base, stride: 0 }, strided(0))
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = members
            .iter()
            .enumerate()
            .map(|(rank, world_rank)| {
                let (control, buffers) = (Arc::clone(control), Arc::clone(buffers));
                let (shape, traffic) = (&shape, &traffic);
                scope.spawn(move || {
                    let policy = WaitPolicy::new(members.len(), 2);
                    let mut comm =
                        Communicator::new(members, *world_rank, buffers, control, policy);
                    comm.set_timeout(Some(Duration::from_secs(30)));
                    comm.touch().unwrap();
                    comm.own(Buffer::Proof, 0, room).fill(POISON);
                    let at = send.offset + rank * send.stride;
                    let bytes = shape.send_elements(rank) * element;
                    pattern::fill(comm.own(send.buffer, at, bytes), &pattern, shape.input(rank));
                    let segments = if trial.collective == Collective::AllToAllV {
                        segments(traffic, counts.param, trial.datatype, rank, trial.ranks)
                    } else {
                        Vec::new()
                    };
                    comm.run(&Call {
                        collective: trial.collective,
                        datatype: trial.datatype,
                        op: trial.op,
                        root: trial.root,
                        count: counts.param,
                        send,
                        recv,
                        segments: &segments,
                    })
                    .unwrap();
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
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
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

/// Two communicators of one world, at the same time on the same memory, each exact within itself:
/// their patterns differ, so that data of the other one would be wrong.
#[test]
fn groups_do_not_disturb_each_other() {
    for collective in Collective::ALL {
        let trial = Trial {
            collective,
            datatype: DataType::Float,
            op: ReduceOp::Sum,
            ranks: 2,
            root: 1,
            bytes: 4096,
            in_place: false,
            unalign: 0,
            spread: 1.0,
            seed: 5,
        };
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
