//! Variants of calls (`--algorithm`, `--min-ctas`, `--max-ctas`, several `-x`): rows in turns, what NCCL declines, what its
//! log proves.
//! Not whether an algorithm is fast: the shims have none.

use busbw_core::{
    plan::AlgorithmEvidence,
    record::{Folded, Row},
};

use super::shims::{LIMIT, bench, folder, run, well};
use crate::processes::bench::Ended;

const WORDS: &str = "all_reduce -g 2 -b 1K -e 16K -f 4 -n 2 --batches 3";

/// With the shim of 2.32.3.
fn newer(words: &str) -> String {
    format!("{words} --nccl {}", folder().join("nccl-2.32/libnccl.so.2").display())
}

fn labels(record: &Folded) -> Vec<(u64, String)> {
    let label = |row: &Row| row.variant.as_ref().unwrap().given.to_string();
    record.rows.iter().map(|row| (row.size, label(row))).collect()
}

fn evidence(row: &Row) -> Option<AlgorithmEvidence> {
    row.variant.as_ref().unwrap().evidence
}

#[test]
fn each_variant_is_a_row_that_nccls_log_proves() {
    for words in [
        WORDS,
        "all_reduce_perf -t 2 -g 1 -b 1K -e 16K -f 4 -n 2",
        "all_reduce_perf -g 2 -b 1K -e 16K -f 4 -m 2 -G 1",
    ] {
        let ended = well(&newer(&format!("{words} --algorithm auto,ring_simple,Tree_LL")), &[]);
        let record = ended.read_record();
        assert_eq!(record.rows.len(), 9, "{words}");
        assert_eq!(
            labels(&record)[..4],
            [(1024, "auto"), (1024, "RING_SIMPLE"), (1024, "TREE_LL"), (4096, "auto")]
                .map(|(size, label)| (size, label.to_owned())),
            "{words}"
        );
        for (number, row) in record.rows.iter().enumerate() {
            let ran = row.out_of_place.as_ref().unwrap().figures.algorithm.clone().unwrap();
            let (begins, wanted) = [
                ("RING LL", None),
                ("RING SIMPLE", Some(AlgorithmEvidence::Proven)),
                ("TREE LL", Some(AlgorithmEvidence::Proven)),
            ][number % 3];
            assert!(ran.starts_with(begins), "{words} {number}: {ran}");
            assert_eq!((evidence(row), row.index), (wanted, number as u64));
            let halves = [&row.out_of_place, &row.in_place].map(|half| half.as_ref().unwrap());
            assert_eq!(halves.map(|half| half.figures.wrong), [Some(0); 2]);
        }
        assert!(ended.stdout.contains("#wrong   variant\n"), "{}", ended.stdout);
        assert!(ended.stdout.contains("   auto (RING LL)\n"), "{}", ended.stdout);
        assert!(ended.stdout.contains("   RING_SIMPLE\n"), "{}", ended.stdout);
    }
}

/// The order of calls, from NCCL's own log: a batch of each variant in turns.
#[test]
fn batches_alternate() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("nccl.log");
    let variables = [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_DEBUG_SUBSYS", "TUNING"),
        ("NCCL_DEBUG_FILE", file.to_str().unwrap()),
    ];
    let words =
        "all_reduce_perf -g 2 -b 1K -e 1K -n 2 -c 0 --batches 5 --algorithm RING_SIMPLE,TREE_LL";
    let mut alternating = bench(&newer(words), &variables);
    alternating.also_writes = Some(place.path().to_owned());
    let ended = alternating.start().end(LIMIT);
    ended.exits(0).says("NCCL writes as they say");
    let log = std::fs::read_to_string(&file).unwrap();
    let mut calls: Vec<&str> =
        log.lines().filter_map(|line| line.split_once(" -> Algo ")?.1.split(' ').next()).collect();
    calls.dedup();
    // Five batches of both in both places; none follows one of its own kind, but where a place ends.
    assert!(calls.len() >= 20, "{calls:?}");
    // Without the log nothing is proven.
    for row in ended.read_record().rows {
        assert_eq!(evidence(&row), Some(AlgorithmEvidence::Unproven));
    }
    assert!(ended.stdout.contains("   TREE_LL unproven\n"), "{}", ended.stdout);
}

#[test]
fn what_nccl_declines_is_a_row_and_the_others_go_on() {
    let words = newer(&format!("{WORDS} --algorithm auto,RING_LL128,RING_LL,NVLS_SIMPLE"));
    let ended = well(&words, &[]);
    let record = ended.read_record();
    assert_eq!(record.rows.len(), 12);
    for (number, row) in record.rows.iter().enumerate() {
        let waived = row.waived.as_deref().unwrap_or_default();
        let declined = [false, true, false, true][number % 4];
        assert_eq!(row.out_of_place.is_some(), !declined, "{number}: {waived}");
        assert_eq!(waived.starts_with("NCCL: "), declined, "{number}: {waived}");
    }
    let reason = record.rows[1].waived.as_deref().unwrap();
    assert_eq!(
        reason,
        "NCCL: RING_LL128 cannot be honored for all_reduce of 1 KiB (algSelection: no algorithm in the selected set is available for AllReduce); NCCL leaves LL128 out here, and runs it under NCCL_PROTO=LL128 alone, in every call"
    );
    let ended = run(&words, &[("NCCL_PROTO", "LL,LL128,Simple")]);
    ended.exits(2).says("--algorithm RING_LL128: NCCL_PROTO is set, and NCCL then ignores");
    // NCCL does not know the name for this collective: it says so in other words.
    let symmetric = well(&newer(&format!("{WORDS} --algorithm SYMK_LL,RING_LL")), &[]);
    let waived = symmetric.read_record().rows[0].waived.clone().unwrap();
    assert!(
        waived.contains("config->algSelection \"SYMK_LL\" cannot be honored for AllReduce"),
        "{waived}"
    );
}

/// A rank whose call was accepted must not wait for ever for one whose call was not: neither in a first call, which connects,
/// nor later.
#[test]
fn ranks_that_answer_differently_end_the_run() {
    for (algorithms, other) in [
        ("RING_LL", "and another rank gives no answer within 15 s"),
        ("auto,RING_LL", "and rank 0 does; give all of them the same NCCL"),
    ] {
        let words = newer(&format!("{WORDS} --algorithm {algorithms}"));
        let ended = run(&words, &[("BUSBW_SHIM_DECLINE", "1")]);
        ended
            .exits(3)
            .says("answer differently: rank 1 does not accept the call (NCCL: RING_LL cannot");
        ended.says(other);
    }
}

#[test]
fn a_log_that_says_otherwise_is_conflicting() {
    let words = newer(&format!("{WORDS} --algorithm RING_SIMPLE,TREE_LL"));
    let ended = well(&words, &[("BUSBW_SHIM_RAN", "TREE_LL")]);
    let rows = ended.read_record().rows;
    assert_eq!(evidence(&rows[0]), Some(AlgorithmEvidence::Conflicting));
    assert_eq!(evidence(&rows[1]), Some(AlgorithmEvidence::Proven));
    assert!(
        ended.stdout.contains("   RING_SIMPLE CONFLICTING (TREE LL ran)\n"),
        "{}",
        ended.stdout
    );
    ended.says("CONFLICTING: all_reduce size 1024 was to run as RING_SIMPLE, and NCCL's log says that TREE LL ran");
}

/// CTAs and policies, alone and combined; the eight collectives that take them.
#[test]
fn every_configurable_collective() {
    for name in busbw_core::plan::CONFIGURABLE.map(|collective| collective.name()) {
        let words = format!(
            "{name} -g 3 -b 1K -e 1K -n 2 --batches 1 --min-ctas auto,2 --max-ctas 4 -x auto,1"
        );
        let record = well(&newer(&words), &[]).read_record();
        let wanted = [
            "auto/max-ctas=4",
            "auto/max-ctas=4/policy=1",
            "auto/min-ctas=2/max-ctas=4",
            "auto/min-ctas=2/max-ctas=4/policy=1",
        ];
        assert_eq!(
            labels(&record).into_iter().map(|(_, label)| label).collect::<Vec<_>>(),
            wanted,
            "{name}"
        );
    }
    let record =
        well(&newer("all_reduce -g 2 -b 1M -e 1M -n 1 --batches 1 --min-ctas 2 --max-ctas 2"), &[])
            .read_record();
    let ran = record.rows[0].out_of_place.as_ref().unwrap().figures.algorithm.clone().unwrap();
    assert!(ran.ends_with("channels 0-1"), "{ran}");
    // A single policy stays the communicator's.
    let record = well(&newer(&format!("{WORDS} -x 1")), &[]).read_record();
    assert!(record.run.plan.variants.is_empty());
    assert_eq!(record.run.plan.backend.gpu_options().unwrap().cta_policy, Some(1));
}

#[test]
fn what_cannot_be_is_refused() {
    let another = run(&format!("{WORDS} --algorithm RING_LL"), &[("NCCL_TUNER_PLUGIN", "none")]);
    another
        .exits(5)
        .says("needs NCCL 2.31 or later; 2.28.9 is loaded from ")
        .says("unset NCCL_TUNER_PLUGIN");
    for (words, code, says) in [
        (
            format!("{WORDS} --algorithm RNG_LL"),
            2,
            "--algorithm RNG_LL is none of NCCL's, perhaps RING_LL; its names are TREE_LL, ",
        ),
        (format!("{WORDS} --algorithm RING_LL,ring_ll"), 2, "RING_LL is given twice"),
        (
            format!("{WORDS} --min-ctas 0"),
            2,
            "--min-ctas 0: it must be a number from 1 to 64, or auto",
        ),
        (format!("{WORDS} --max-ctas 4,65"), 2, "--max-ctas 65: it must be"),
        (
            format!("{WORDS} --min-ctas 8 --max-ctas 4"),
            2,
            "--min-ctas 8 with --max-ctas 4: the least must not be above the most",
        ),
        (format!("{WORDS} -x 1,3"), 2, "-x 3: it must be between -1 and 2"),
        (
            "sendrecv -g 2 --algorithm RING_LL".to_owned(),
            2,
            "sendrecv is made of sends and receives, which take no configuration; all_reduce, ",
        ),
        ("hypercube -g 2 --min-ctas 2".to_owned(), 2, "hypercube is made of sends and receives"),
        (
            "all_reduce -g 2 --backend host --algorithm RING_LL".to_owned(),
            5,
            "--algorithm says what NCCL's calls are given, and the host backend makes none: use --backend nccl",
        ),
    ] {
        let ended: Ended = run(&newer(&words), &[]);
        ended.exits(code).says(says);
        assert_eq!(ended.stdout, "", "{words}");
    }
}

/// NCCL 2.28.9, whose calls take no configuration: busbw's tuner is told what the next ones are to have.
#[test]
fn before_calls_take_a_configuration_the_tuner_is_told() {
    for words in [
        WORDS,
        "all_reduce_perf -t 2 -g 1 -b 1K -e 16K -f 4 -n 2",
        "all_reduce_perf -g 2 -b 1K -e 16K -f 4 -m 2 -G 1",
    ] {
        let ended = well(&format!("{words} --algorithm auto,RING_SIMPLE,TREE_LL"), &[]);
        let record = ended.read_record();
        assert_eq!(record.rows.len(), 9, "{words}");
        for row in &record.rows {
            let given = row.variant.as_ref().unwrap().given.to_string();
            let ran = row.out_of_place.as_ref().unwrap().figures.algorithm.as_deref().unwrap();
            let wanted = given.replace('_', " ");
            assert!(given == "auto" || ran.starts_with(&wanted), "{words}: {given} ran {ran}");
            let proven = (given != "auto").then_some(AlgorithmEvidence::Proven);
            assert_eq!(evidence(row), proven, "{words}: {given}");
        }
    }
    let words = format!("{WORDS} --algorithm RING_SIMPLE --max-ctas 4");
    for row in well(&words, &[]).read_record().rows {
        let ran = row.out_of_place.unwrap().figures.algorithm.unwrap();
        assert_eq!(ran, "RING SIMPLE, channels 0-3");
    }
    let words = format!("{WORDS} --algorithm RING_LL128,RING_LL,SYMK_LL");
    let record = well(&words, &[("BUSBW_SHIM_NO_LL128", "1")]).read_record();
    let waived: Vec<&str> =
        record.rows.iter().take(3).map(|row| row.waived.as_deref().unwrap_or_default()).collect();
    let [ll128, ll, symmetric] = waived.as_slice() else { panic!("{waived:?}") };
    let reason =
        "NCCL: RING_LL128 cannot be honored for all_reduce of 1 KiB: it does not run it here";
    assert_eq!((*ll128, *ll), (reason, ""));
    assert!(symmetric.starts_with("SYMK_LL needs NCCL 2.31 or later"), "{symmetric}");
    // Of one rank NCCL asks nobody.
    let alone = well("all_reduce -g 1 -b 1K -e 1K -n 2 --batches 3 --algorithm auto,RING_LL", &[]);
    let waived = alone.read_record().rows[1].waived.clone().unwrap();
    assert!(waived.ends_with("it asks no tuner for this call"), "{waived}");
    // Threads of two communicators in one process.
    let split =
        "all_reduce_perf -t 4 -g 1 -b 1K -e 16K -f 4 -n 4 -w 20 --algorithm RING_SIMPLE,TREE_LL";
    let record = well(split, &[("NCCL_TESTS_SPLIT", "DIV 2")]).read_record();
    assert_eq!(record.rows.len(), 12);
    assert!(record.rows.iter().all(|row| evidence(row) == Some(AlgorithmEvidence::Proven)));
}

/// Several communicators, launches and cycles: every row keeps its variant.
#[test]
fn with_groups_and_launches() {
    let words = newer(
        "all_reduce -g 4 -b 1K -e 4K -f 4 -n 2 --batches 2 --algorithm auto,RING_LL128,TREE_LL",
    );
    let record = well(&words, &[("NCCL_TESTS_SPLIT", "MOD 2")]).read_record();
    assert_eq!(record.rows.len(), 2 * 3 * 2);
    for (number, row) in record.rows.iter().enumerate() {
        assert_eq!((row.index, row.group), (number as u64 / 2, number as u64 % 2), "{number}");
    }
    let record =
        well(&newer(&format!("{WORDS} --repeat 2 --algorithm auto,TREE_LL")), &[]).read_record();
    let shown: Vec<&Row> = record.rows.iter().filter(|row| row.shown).collect();
    assert_eq!(shown.len(), 6);
    let launches = |row: &&Row| row.out_of_place.as_ref().unwrap().launches_us.len();
    assert!(shown.iter().all(|row| launches(row) == 2), "{shown:?}");
}

/// The readers of records tell variants apart.
#[test]
fn explain_compare_and_csv_tell_variants_apart() {
    let words = newer(&format!("{WORDS} --algorithm auto,TREE_LL"));
    let ended = well(&words, &[]);
    assert!(
        ended.stderr.contains("TREE_LL: ") || ended.stderr.contains("auto: "),
        "{}",
        ended.stderr
    );
    let read = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_busbw"));
        let output = command.args(words).arg(&ended.record).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let explained = read(&["explain"]);
    for variant in [", auto, ", ", TREE_LL, "] {
        assert!(explained.contains(variant), "{explained}");
    }
    let csv = run(&format!("{words} --csv"), &[]);
    csv.exits(0);
    let lines: Vec<&str> = csv.stdout.lines().collect();
    assert!(lines[0].ends_with(",waived,variant,algorithm,evidence"), "{}", lines[0]);
    assert_eq!(lines.len(), 1 + 3 * 2 * 2);
    assert!(lines[3].ends_with(",TREE_LL,\"TREE LL, channels 0-0\",proven"), "{}", lines[3]);
    let columns = |line: &str| line.replace("\"TREE LL, channels 0-0\"", "").split(',').count();
    assert_eq!(columns(lines[0]), columns(lines[3]));
    let compared = read(&["compare", ended.record.to_str().unwrap()]);
    assert!(compared.contains(", TREE_LL") && compared.contains(", auto"), "{compared}");
}
