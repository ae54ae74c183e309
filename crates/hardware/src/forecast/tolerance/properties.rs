//! The answer held against every way to fail, simulated one by one, on small fabrics.
//! Not closed forms of the time itself (`closed_forms`).

use busbw_core::Collective;
use busbw_stats::random::Random;

use super::super::Placement;
use super::super::symmetry::small;
use super::super::wave::{Place, Wave};
use super::parts::Affected;
use super::*;
use crate::fabric::{Balance, Built, Fabric, Lost, Routing, ready::ready};

/// What a job has with some parts lost, by simulation: the least busbw over its target, and the busbw of one dimension.
fn simulated(affected: &Affected<'_>, of: usize, lost: &Lost) -> (f64, f64) {
    let question = affected.question;
    let balance = Balance::Trunks;
    let built = Built::without(&question.fabric, affected.shape, lost, balance, affected.inside);
    let busbw = affected.dimensions.iter().map(|one| {
        let gpus = question.fabric.gpus_per_island();
        let place = Place::new(&built, balance, affected.shape, gpus, &one.members);
        let wave = Wave::of(&place, question.collective, one.way, &one.members);
        one.busbw(wave.us_per_byte)
    });
    let busbw: Vec<f64> = busbw.collect();
    let kept = busbw.iter().zip(&affected.dimensions).map(|(busbw, one)| busbw / one.whole.target);
    (kept.fold(f64::INFINITY, f64::min), busbw[of])
}

fn question(
    fabric: Fabric,
    collective: Collective,
    gpus: usize,
    job: &str,
    placement: Placement,
) -> Question {
    let fabric = Fabric { routing: Routing::Spray, ..fabric };
    let question = Question::new(fabric, collective, vec![1 << 30]).over(gpus);
    Question { job: job.parse().expect("a job"), placement, ..question }
}

/// Holds an answer against all ways to lose up to three parts, and all ways to lose as many as the best places bear.
fn held(question: &Question, kind: &str, share: f64) {
    let failure: Failure = kind.parse().expect("a failure");
    let said = question.tolerance(&failure, Target::Share(share)).expect("answered");
    let what =
        format!("{kind} {share} {:?} {} {}", question.collective, question.job, question.gpus);
    assert_eq!(said.method, Method::Exact, "{what}");
    let (worst, best) = (said.worst.as_ref().expect("met"), said.best.as_ref().expect("met"));
    let (shape, job, inside) = question.checked().expect("fits");
    let affected =
        Affected::of(question, &shape, &job, inside, &failure, Target::Share(share)).expect("fits");
    let links = |chosen: &[usize]| -> Lost {
        chosen.iter().flat_map(|part| affected.parts.links_of(*part)).collect()
    };
    assert!(said.parts <= 20, "{what}: {} parts are too many to try all", said.parts);
    for row in said.rows.iter().filter(|row| row.failed <= 3) {
        let (mut met, mut all) = (0, 0);
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for mask in (0u32..1 << said.parts).filter(|mask| mask.count_ones() as usize == row.failed)
        {
            let chosen: Vec<usize> = (0..said.parts).filter(|at| mask >> at & 1 == 1).collect();
            let (kept, busbw) = simulated(&affected, said.of, &links(&chosen));
            (least, most) = (least.min(busbw), most.max(busbw));
            let meets = kept >= 1.0 - 1e-6;
            met += usize::from(meets);
            all += 1;
            assert!(meets || row.failed > worst.failed, "{what}: {chosen:?} misses");
            assert!(!meets || row.failed <= best.failed, "{what}: {chosen:?} meets");
        }
        assert!(met < all || row.failed <= worst.failed, "{what}: {} never miss", row.failed);
        assert!(met > 0 || row.failed > best.failed, "{what}: {} never meet", row.failed);
        assert!((row.worst - least).abs() <= 1e-4 * least, "{what}: {row:?}, by trying {least}");
        assert!((row.best - most).abs() <= 1e-4 * most, "{what}: {row:?}, by trying {most}");
        let share = met as f64 / all as f64;
        assert!((row.chance.of - share).abs() < 1e-9, "{what}: {row:?}, by trying {share}");
    }
}

/// Every kind of part, several targets, jobs and placements.
#[test]
fn every_way_to_fail() {
    for (collective, job, gpus, placement) in [
        (Collective::AllReduce, "all8", 8, Placement::Scattered(3)),
        (Collective::AllReduce, "all16", 16, Placement::Packed),
        (Collective::AllReduce, "tp4,dp", 16, Placement::Packed),
        (Collective::AllReduce, "tp2,dp", 16, Placement::ByRail),
        (Collective::AllGather, "all16", 16, Placement::Scattered(1)),
        (Collective::AllToAll, "all16", 16, Placement::Packed),
        (Collective::SendRecv, "all16", 16, Placement::Scattered(2)),
    ] {
        for share in [0.99, 0.8, 0.5, 0.2] {
            // Two leaves of 6 uplinks in one plane, four hosts; then two planes.
            let one = question(small(4, 2, 1, 2, 1.0), collective, gpus, job, placement);
            for kind in ["link:host", "switch:leaf", "switch:spine", "link:host@0.5"] {
                held(&one, kind, share);
            }
            let two = question(small(4, 4, 2, 2, 1.0), collective, gpus, job, placement);
            for kind in ["plane", "switch:spine"] {
                held(&two, kind, share);
            }
        }
    }
}

/// By hand: a leaf of the example clos-2tier has 32 uplinks and 4 hosts. Of a ring over 64 hosts, packed, one edge leaves each leaf,
/// by 8 NICs: 8 links suffice, and 24 may fail on each of 16 leaves, all on the other 48.
#[test]
fn a_leaf_by_hand() {
    let fabric = ready("clos-2tier").expect("an example");
    let question = question(fabric, Collective::AllGather, 64 * 8, "all", Placement::Packed);
    let failure: Failure = "link:leaf".parse().expect("a failure");
    let said = question.tolerance(&failure, Target::Share(0.999)).expect("answered");
    assert_eq!((said.parts, said.used), (64 * 32, 16 * 32));
    let (worst, best) = (said.worst.expect("met"), said.best.expect("met"));
    assert_eq!((worst.failed, best.failed), (24, 48 * 32 + 16 * 24));
    let then = worst.then.expect("more");
    assert_eq!(
        (then.limited_by.as_str(), then.at.as_deref()),
        ("leaf-spine links up", Some("leaf 0"))
    );
    // With 7 links of 8 that are needed; a little of the time is latency.
    let kept = then.busbw / said.whole[0].busbw;
    assert!((0.87..0.95).contains(&kept) && !then.cut_off, "{then:?} {kept}");
    let falls = |two: &[Row]| two[1].worst <= two[0].worst && two[1].chance.of <= two[0].chance.of;
    assert!(said.rows.windows(2).all(falls));
    // No leaf can lose more than 24 of 24.
    let all_meet = said.rows.iter().find(|row| row.failed == 24).expect("marked");
    assert!((all_meet.chance.of - 1.0).abs() < 1e-9, "{all_meet:?}");
}

/// Hosts with one way: the first link or leaf lost cuts one off.
#[test]
fn the_only_way_of_a_host() {
    let fabric = ready("clos-2tier").expect("an example");
    let question = question(fabric, Collective::AllReduce, 512, "all", Placement::Packed);
    for kind in ["link:host", "switch:leaf"] {
        let said = question
            .tolerance(&kind.parse().expect("a failure"), Target::Share(0.01))
            .expect("answered");
        let most = said.worst.expect("met");
        assert_eq!(most.failed, 0, "{kind}");
        assert!(most.then.expect("more").cut_off, "{kind}");
    }
}

/// Hashes: what is simulated is never above what even spreading bears, and the chance has an interval.
#[test]
fn hashes_are_simulated() {
    let mut fabric = small(4, 1, 1, 2, 1.0);
    fabric.routing = Routing::Ecmp;
    let question = Question::new(fabric.clone(), Collective::AllReduce, vec![1 << 30]);
    let even =
        Question { fabric: Fabric { routing: Routing::Spray, ..fabric }, ..question.clone() };
    let failure: Failure = "link:leaf".parse().expect("a failure");
    let whole = question.tolerance(&failure, Target::Share(0.5)).expect("answered");
    let target = Target::Busbw(whole.whole[0].target);
    let (hashed, even) = (
        question.tolerance(&failure, target).expect("answered"),
        even.tolerance(&failure, target).expect("answered"),
    );
    assert!(matches!(hashed.method, Method::Simulated { hashes: 5, draws: 100 }), "{hashed:?}");
    let failed =
        |said: &Tolerance| [&said.worst, &said.best].map(|most| most.as_ref().expect("met").failed);
    let (a, b) = (failed(&hashed), failed(&even));
    assert!(a[0] <= b[0] && a[1] <= b[1], "{a:?} {b:?}");
    for row in &hashed.rows {
        let [low, high] = row.chance.interval;
        assert!(low <= row.chance.of && row.chance.of <= high && low < high, "{row:?}");
    }
    assert_eq!(hashed.rows[0].chance.of, 1.0, "nothing failed");
}

/// A target above what the whole fabric does is missed without failures.
#[test]
fn a_target_that_is_out_of_reach() {
    let question =
        question(small(4, 1, 1, 2, 1.0), Collective::AllReduce, 16, "all", Placement::Packed);
    let said = question
        .tolerance(&"link".parse().expect("a failure"), Target::Busbw(9999.0))
        .expect("answered");
    assert_eq!((said.worst, said.best), (None, None));
    assert!(said.rows.is_empty());
}

/// Loads by closed form are those of all pairs.
#[test]
fn alltoall_by_classes_and_by_pairs() {
    use super::super::loads::Loads;
    use super::super::wave::Way;
    let mut random = Random::new(5);
    for _ in 0..30 {
        let fabric = small(
            2 + random.below(9),
            [1, 2, 4][random.below(3)],
            1 + random.below(2),
            2 + random.below(2),
            1.0,
        );
        let gpus = fabric.gpus();
        let placement =
            [Placement::Packed, Placement::Scattered(4), Placement::ByRail][random.below(3)];
        let question = question(fabric, Collective::AllToAll, gpus, "ep4", placement);
        let (shape, job, inside) = question.checked().expect("fits");
        let built =
            Built::new(&question.fabric, &shape, &[], Balance::Trunks, inside).expect("whole");
        let groups = question.groups(&shape, &job, 0);
        let place =
            Place::new(&built, Balance::Trunks, &shape, question.fabric.gpus_per_island(), &groups);
        let loads = Loads::of(&place, Collective::AllToAll, Way::Direct, &groups).expect("counted");
        let flows = super::super::wave::by_pairs(&place, &groups, 1.0).expect("whole");
        let mut bytes = vec![0.0; built.capacity.len()];
        for flow in &flows {
            flow.path
                .iter()
                .for_each(|share| bytes[share.link as usize] += flow.bytes * share.weight);
        }
        for (at, (got, expected)) in loads.bytes.iter().zip(&bytes).enumerate() {
            assert!((got - expected).abs() <= 1e-9 * expected.max(1e-3), "{at}: {got} {expected}");
        }
        let wave = Wave::of(&place, Collective::AllToAll, Way::Direct, &groups);
        let busiest = loads.us_per_byte(&built.capacity);
        assert!(
            !loads.level || (busiest / wave.us_per_byte - 1.0).abs() < 1e-6,
            "{busiest} {wave:?}"
        );
    }
}
