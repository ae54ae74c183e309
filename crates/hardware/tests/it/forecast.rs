//! Forecasts on fabrics: beside the machines' own prediction, with failures, hashed, and what has no answer.
//! Not the simulator (its tests are beside it).

use busbw_core::Collective;
use busbw_hardware::fabric::{Fabric, Routing, ready};
use busbw_hardware::forecast::{Answer, Placement, Prediction, Question, Target, Unanswerable};
use busbw_hardware::limits::RankPlacement;
use busbw_hardware::machine::Machine;
use busbw_hardware::prediction;
use busbw_hardware::tuning::Version;

const SIZES: [u64; 4] = [8, 1 << 16, 1 << 24, 1 << 33];

fn fabric(name: &str, routing: Routing) -> Fabric {
    let mut fabric = ready::ready(name).unwrap();
    fabric.routing = routing;
    fabric
}

fn ask(fabric: &Fabric, collective: Collective, gpus: usize) -> Question {
    Question::new(fabric.clone(), collective, SIZES.to_vec()).over(gpus)
}

fn rows(answer: &Answer) -> &[Prediction] {
    &answer.dimensions[0].sizes
}

/// Where the fabric holds nothing back, hosts on one leaf switch have what `plan --machine` says of them; farther apart, more
/// latency alone.
#[test]
fn an_ideal_fabric_adds_nothing() {
    let fabric = fabric("clos-2tier", Routing::Spray);
    for collective in [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::AllToAll,
        Collective::SendRecv,
        Collective::Gather,
        Collective::Scatter,
    ] {
        for hosts in [1, 2, 4, 32] {
            let machine = Machine { nodes: hosts, ..fabric.machine.clone() };
            let beside = prediction::Question {
                machine: &machine,
                placement: RankPlacement::new(hosts, 8),
                collective,
                version: Version::last_of(30),
                algorithm: None,
            };
            let answer = ask(&fabric, collective, 8 * hosts).answer().unwrap();
            for row in rows(&answer) {
                let alone = beside.expect(row.bytes).unwrap();
                assert_eq!((row.algorithm, row.protocol), (alone.algorithm, alone.protocol));
                let more = row.time_us - alone.time_us.middle;
                let spans = hosts > 4;
                assert!(more >= -1e-6 * row.time_us, "{collective:?} {hosts}: {row:?} {alone:?}");
                let steps = if spans { 2.0 * 8.0 * hosts as f64 } else { 0.0 };
                assert!(
                    more <= steps + 2e-3 * row.time_us,
                    "{collective:?} {hosts}: {row:?} {alone:?}"
                );
            }
        }
    }
}

/// Racks of one NVLink domain each, on one leaf switch for each rail: whole racks, and parts of one.
#[test]
fn an_ideal_fabric_adds_nothing_to_nvlink_domains_of_several_hosts() {
    let fabric = fabric("nvl72", Routing::Spray);
    for collective in [Collective::AllReduce, Collective::AllGather, Collective::AllToAll] {
        for (job, hosts, per_host, domain) in [
            ("all72", 18, 4, 72),
            ("all144", 36, 4, 72),
            ("all288", 72, 4, 72),
            ("tp8,dp", 2, 4, 8),
            ("tp36,dp", 9, 4, 36),
            ("pp72,dp", 18, 4, 72),
        ] {
            let mut machine = Machine { nodes: hosts, ..fabric.machine.clone() };
            machine.node.nvlink.as_mut().unwrap().domain = domain;
            let beside = prediction::Question {
                machine: &machine,
                placement: RankPlacement::new(hosts, per_host),
                collective,
                version: Version::last_of(30),
                algorithm: None,
            };
            let gpus = 288;
            let question = Question {
                job: job.parse().unwrap(),
                ..Question::new(fabric.clone(), collective, SIZES.to_vec()).over(gpus)
            };
            let answer = question.answer().unwrap();
            assert_eq!(answer.dimensions[0].hosts, hosts, "{job}");
            for row in rows(&answer) {
                let alone = beside.expect(row.bytes).unwrap();
                assert_eq!((row.algorithm, row.protocol), (alone.algorithm, alone.protocol));
                let more = (row.time_us - alone.time_us.middle).abs();
                assert!(more <= 2e-3 * row.time_us, "{collective:?} {job}: {row:?} {alone:?}");
            }
        }
    }
}

/// Groups that do not fill hosts or racks alike keep their ranks, and NVLink within each rack.
#[test]
fn groups_that_do_not_fill_nvlink_domains() {
    let fabric = fabric("nvl72", Routing::Spray);
    for (gpus, job, hosts, limit) in [
        (70, "all70", 18, "NVLink"),
        (100, "all100", 25, "NVLink"),
        // The third of three is in two racks.
        (96, "tp32,dp", 8, "NIC"),
        (70, "tp5,dp", 2, "NVLink"),
        (288, "pp72,dp", 18, "NVLink"),
    ] {
        let question = Question {
            job: job.parse().unwrap(),
            ..Question::new(fabric.clone(), Collective::AllReduce, SIZES.to_vec()).over(gpus)
        };
        let answer = question.answer().unwrap();
        let first = &answer.dimensions[0];
        assert_eq!(first.hosts, hosts, "{job}");
        let last = first.sizes.last().unwrap();
        assert_eq!(last.limited_by, limit, "{job}: {last:?}");
        let factor = last.busbw / last.algbw;
        let ranks = first.ranks as f64;
        assert!((factor / (2.0 * (ranks - 1.0) / ranks) - 1.0).abs() < 0.02, "{job}: {factor}");
    }
    // One rank of each of four racks: each has one NIC of a tray, not four.
    let strided = Question {
        job: "pp72,dp".parse().unwrap(),
        ..Question::new(fabric, Collective::AllGather, vec![1 << 33]).over(288)
    };
    let of_four = &strided.answer().unwrap().dimensions[1];
    assert_eq!((of_four.ranks, of_four.hosts), (4, 4));
    let busbw = of_four.sizes[0].busbw;
    assert!((35.0..50.0).contains(&busbw), "{busbw}");
}

/// An alltoall between two racks is held back by NICs alone: 72 of a rack send half of what each of its GPUs has.
#[test]
fn bytes_within_an_nvlink_domain_do_not_cross_the_fabric() {
    let fabric = fabric("nvl72", Routing::Spray);
    let last = |gpus| {
        let answer = ask(&fabric, Collective::AllToAll, gpus).answer().unwrap();
        rows(&answer).last().unwrap().clone()
    };
    let (one, two) = (last(72), last(144));
    assert_eq!((one.limited_by.as_str(), two.limited_by.as_str()), ("NVLink", "NIC"));
    // 143/144 of busbw's factor over the half that leaves, at 50 GB/s less framing of which a part is attained.
    assert!((60.0..100.0).contains(&two.busbw), "{two:?}");
    let cut = Question {
        failures: vec!["link:host*9@0.5".parse().unwrap()],
        ..ask(&fabric, Collective::AllToAll, 144)
    };
    let cut = rows(&cut.answer().unwrap()).last().unwrap().clone();
    assert!(cut.busbw < 0.6 * two.busbw, "{cut:?}");
}

#[test]
fn an_alltoallv_is_taken_for_an_alltoall() {
    let fabric = fabric("clos-2tier", Routing::Ecmp);
    let of = |collective| ask(&fabric, collective, 64).answer().unwrap();
    let (even, any) = (of(Collective::AllToAll), of(Collective::AllToAllV));
    assert_eq!(even.dimensions, any.dimensions);
    assert!(any.notes.iter().any(|note| note.contains("every pair of ranks exchanges the same")));
}

/// Switches that reduce attain half of NVLink's line rate on Blackwell: the other half is no latency.
#[test]
fn what_is_not_attained_of_a_limit_is_no_latency() {
    let answer = ask(&fabric("multi-plane", Routing::Spray), Collective::AllReduce, 8).answer();
    let answer = answer.unwrap();
    assert_eq!(rows(&answer).first().unwrap().limited_by, "latency");
    assert_eq!(rows(&answer).last().unwrap().limited_by, "NVLink");
}

#[test]
fn what_a_failure_and_a_placement_cost() {
    let fabric = fabric("oversubscribed", Routing::Spray);
    let last = |question: &Question| rows(&question.answer().unwrap()).last().unwrap().clone();
    let packed = ask(&fabric, Collective::AllToAll, 2048);
    let whole = last(&packed);
    // Half of what leaves a host leaves its leaf's 2:1 uplinks: a bit more than half of the NICs' rate.
    assert_eq!(whole.limited_by, "leaf-spine links up");
    assert!((23.0..26.0).contains(&whole.busbw), "{whole:?}");
    // Four of a leaf's 32 uplinks at half rate, one, two, four of eight spines.
    let mut lost = whole.time_us;
    for failure in ["link*4@0.5", "switch", "switch*2", "switch*4"] {
        let failed = last(&Question { failures: vec![failure.parse().unwrap()], ..packed.clone() });
        assert!(failed.time_us > lost, "{failure}: {failed:?}");
        lost = failed.time_us;
    }

    assert!((lost / whole.time_us - 2.0).abs() < 0.02, "{lost}");
    let ring = ask(&fabric, Collective::AllGather, 2048);
    let scattered = Question { placement: Placement::Scattered(5), ..ring.clone() };
    assert!(last(&scattered).busbw < 0.7 * last(&ring).busbw);
}

#[test]
fn hashes_collide_and_spraying_does_not() {
    let at = |routing| {
        let scattered = Question {
            placement: Placement::Scattered(2),
            ..ask(&fabric("clos-2tier", routing), Collective::AllGather, 1024)
        };
        let answer = scattered.answer().unwrap();
        (rows(&answer).last().unwrap().clone(), answer.notes)
    };
    let ((sprayed, _), (hashed, notes)) = (at(Routing::Spray), at(Routing::Ecmp));
    assert!(hashed.busbw < 0.7 * sprayed.busbw, "{hashed:?} {sprayed:?}");
    assert!(hashed.limited_by.contains("ECMP collisions"), "{hashed:?}");
    assert!(notes.iter().any(|note| note.contains("median, best and worst")), "{notes:?}");
}

#[test]
fn questions_without_an_answer() {
    let fabric = fabric("clos-2tier", Routing::Spray);
    let refused = |question: Question| question.answer().unwrap_err();
    let all_reduce = |gpus| ask(&fabric, Collective::AllReduce, gpus);
    for gpus in [0, 1, 2049] {
        assert_eq!(refused(all_reduce(gpus)), Unanswerable::Gpus { asked: gpus, there: 2048 });
    }
    let hypercube = |gpus| ask(&fabric, Collective::HyperCube, gpus);
    assert!(hypercube(64).answer().is_ok());
    let by_rail = Question { placement: Placement::ByRail, ..hypercube(64) };
    let odd = Question { job: "tp8,dp3".parse().unwrap(), ..hypercube(24) };
    for (question, said) in [
        (hypercube(9), "it needs a power of two of ranks, and all has 9"),
        (odd, "and dp has 3"),
        (by_rail, "numbered host by host"),
    ] {
        let text = refused(question).to_string();
        assert!(text.contains(said), "{text}");
    }
    let racks = ready::ready("nvl72").unwrap();
    let uneven = ask(&racks, Collective::HyperCube, 128);
    assert!(refused(uneven).to_string().contains("unevenly"));
    let counted = hypercube(64).tolerance(&"link:leaf".parse().unwrap(), Target::Share(0.9));
    assert!(matches!(counted.unwrap_err(), Unanswerable::Steps("hypercube")));
    let job = Question { job: "tp8,dp3".parse().unwrap(), ..all_reduce(64) };
    assert!(refused(job).to_string().contains("24 ranks do not divide 64 GPUs; 48 would do"));
    for (failure, said) in [
        ("link:host", "cut off"),
        ("switch:leaf", "cut off"),
        ("plane", "cut off"),
        ("switch*33", "33 of 32"),
        ("switch:core", "no tier `core`: leaf, spine"),
    ] {
        let failed = Question { failures: vec![failure.parse().unwrap()], ..all_reduce(64) };
        let error = refused(failed).to_string();
        assert!(error.contains(said), "{failure}: {error}");
    }
}

/// A plane of eight costs an eighth of what NICs carry, and a host that is on it loses no way.
#[test]
fn a_plane_of_eight() {
    let fabric = fabric("multi-plane", Routing::Spray);
    let question = ask(&fabric, Collective::AllToAll, 512);
    let whole = rows(&question.answer().unwrap()).last().unwrap().clone();
    let failed = Question { failures: vec!["plane".parse().unwrap()], ..question };
    let failed = rows(&failed.answer().unwrap()).last().unwrap().clone();
    assert!((whole.time_us / failed.time_us - 7.0 / 8.0).abs() < 0.005, "{whole:?} {failed:?}");
    assert_eq!(failed.limited_by, "NIC");
}
