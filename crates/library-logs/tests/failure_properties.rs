//! Any text: no panic, bounded facts, the same line by line and at once; and its speed.
//! Not whether a cause is right.
#![allow(clippy::expect_used)]

use busbw_library_logs::{
    failure::{self, FailureFacts, Kind, Parser, confirm, remedy, sentence},
    nccl::NcclFacts,
};
use proptest::prelude::*;

/// Lines of all logs of tests/failed_runs, each once.
fn lines() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/failed_runs/logs");
    let mut lines = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("logs").flatten() {
        let text = std::fs::read(entry.path()).expect("a log");
        lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
    }
    lines.into_iter().collect()
}

fn holds(facts: &FailureFacts) {
    assert!(facts.incidents.len() <= Kind::ALL.len() * 32);
    for incident in &facts.incidents {
        assert!(incident.ranks.len() <= 1024 && incident.hosts.len() <= 1024);
        assert!(incident.text.len() <= 512 && incident.count > 0);
        let said = sentence(incident, facts);
        assert!(said.ends_with('.') && !said.contains('\n'), "{said}");
        let _ = (remedy(incident), confirm(incident));
    }
    let json = serde_json::to_string(facts).expect("json");
    assert_eq!(&serde_json::from_str::<FailureFacts>(&json).expect("and back"), facts);
    let _ = facts.ending();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_in_any_order_and_torn(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0usize..400, any::<bool>()), 0..80)
    ) {
        let pool = lines();
        let mut text = String::new();
        for (pick, cut, torn) in &picks {
            let line = pick.get(&pool);
            let end = if *torn { line.floor_char_boundary(*cut) } else { line.len() };
            text.push_str(&line[..end]);
            text.push('\n');
        }
        let facts = failure::parse(&text, &NcclFacts::default());
        holds(&facts);
        let mut parser = Parser::new();
        text.split('\n').for_each(|line| { parser.line(line); });
        prop_assert_eq!(parser.finish(&NcclFacts::default()), facts);
    }

    #[test]
    fn any_text(text in "(?s).{0,600}") {
        holds(&failure::parse(&text, &NcclFacts::default()));
    }

    #[test]
    fn numbers_of_any_size(number in any::<u128>(), pick in any::<prop::sample::Index>()) {
        let pool = lines();
        let line = pick.get(&pool);
        let digits = |c: char| c.is_ascii_digit();
        let text: String = line.split(digits).collect::<Vec<_>>().join(&number.to_string());
        holds(&failure::parse(&text, &NcclFacts::default()));
    }
}

#[test]
fn memory_is_bounded() {
    let mut parser = Parser::new();
    for number in 0..5000u32 {
        parser.line(&format!("[rank{number}]: Error{number}Exception: x"));
        parser.line(&format!("[rank{number}]: Traceback (most recent call last):"));
        parser.line(&format!(
            "[rank{number}]:   Killed Killed MPI_ABORT was invoked on rank {number}"
        ));
        parser.line(&format!(
            "srun: error: n{number}: tasks 0-{number}000000: Exited with exit code {number}"
        ));
    }
    let facts = parser.finish(&NcclFacts::default());
    holds(&facts);
    assert!(facts.left_out > 1000);
}

#[test]
fn one_long_line_takes_no_longer_than_its_length() {
    let begun = std::time::Instant::now();
    let line = "Killed: [rank1]: Cuda failure srun: error: ".repeat(100_000);
    failure::parse(&line, &NcclFacts::default());
    assert!(begun.elapsed().as_secs() < 5);
}

/// The rate on this machine, for whoever asks: `cargo test -p busbw-library-logs --test failure_properties -- --ignored`.
#[test]
#[ignore = "a measurement"]
fn speed_on_a_healthy_log() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nccl_log/single_process_2.28.9.txt");
    let one = std::fs::read_to_string(path).expect("a log");
    let text = one.repeat(100_000_000 / one.len());
    let begun = std::time::Instant::now();
    let facts = failure::parse(&text, &NcclFacts::default());
    println!("{} MB in {:?}", text.len() / 1_000_000, begun.elapsed());
    assert!(facts.cause().is_none());
}
