//! What holds for any text: no panic, sums that add up, the same for any number of ranks that say the same.
//! Not the forms (the other tests).

use proptest::prelude::*;

use super::{nccl_log::call, told, trace};

fn operations() -> impl Strategy<Value = Vec<(usize, u64, u32)>> {
    prop::collection::vec((0..6_usize, 0..5_u64, 0..4_u32), 1..60)
}

/// The log of one rank.
fn log(rank: usize, operations: &[(usize, u64, u32)]) -> String {
    let origin = format!("h:{rank}:{rank} [{rank}]");
    let start = format!(
        "{origin} NCCL INFO comm 0x55 rank {rank} nranks 4 cudaDev {rank} busId 1000 commId 0xa - Init START\n"
    );
    let calls = operations.iter().map(|(which, size, root)| {
        let name =
            ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Send", "AlltoAll"][*which];
        call(&origin, name, 16 << size, 7, *root, 4)
    });
    std::iter::once(start).chain(calls).collect()
}

proptest! {
    #[test]
    fn any_text_is_taken(text in ".{0,400}", start in prop::sample::select(&[
        "", "{\"coll_perf\":", "{\"pg_config\":", "{\"kind\":\"run\"", "h:1:1 [0] NCCL INFO AllReduce: opCount 0 ", "\u{80}\u{2}",
    ][..])) {
        let _ = trace(&[("x", format!("{start}{text}").as_bytes())]);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = trace(&[("x", &bytes)]);
        let _ = trace(&[("x", &[b"\x80\x02}", &bytes[..]].concat())]);
    }

    /// Of all ranks, in one file or several, the classes of collectives are those of one.
    #[test]
    fn ranks_that_say_the_same_count_once(operations in operations()) {
        let collectives: Vec<_> =
            operations.into_iter().filter(|(which, ..)| *which != 4).collect();
        prop_assume!(!collectives.is_empty());
        let alone = trace(&[("0", log(0, &collectives).as_bytes())]).unwrap();
        let logs: Vec<String> = (0..4).map(|rank| log(rank, &collectives)).collect();
        let several: Vec<(&str, &[u8])> = logs.iter().map(|log| ("n", log.as_bytes())).collect();
        let several = trace(&several).unwrap();
        prop_assert_eq!(told(&alone), told(&several));
        prop_assert_eq!(&alone.calls, &several.calls);
        let together = trace(&[("all", logs.concat().as_bytes())]).unwrap();
        prop_assert_eq!(&together.calls, &several.calls);
        prop_assert!(together.disagreements.is_empty());
        prop_assert_eq!(together.calls.len(), collectives.len());
    }

    #[test]
    fn sums_add_up(operations in operations()) {
        let Ok(trace) = trace(&[("0", log(0, &operations).as_bytes())]) else { return Ok(()) };
        let classes = trace.classes();
        let share: f64 = classes.iter().map(|class| class.share).sum();
        prop_assert!((share - 1.0).abs() < 1e-9);
        prop_assert!(classes.iter().all(|class| class.calls > 0 && class.bytes > 0));
        prop_assert!(classes.is_sorted_by(|a, b| a.share >= b.share));
        let left_out: u64 = trace.left_out.iter().map(|one| one.count).sum();
        prop_assert_eq!(classes.iter().map(|class| class.calls).sum::<u64>() + left_out, operations.len() as u64);
        let mixed: f64 = trace.mix().iter().flat_map(|mix| &mix.sizes).map(|(_, calls)| calls).sum();
        let collectives = classes.iter().filter(|class| class.operation.collective().is_some());
        prop_assert_eq!(mixed, collectives.map(|class| class.calls as f64).sum::<f64>());
    }
}
