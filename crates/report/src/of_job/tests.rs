//! A watched job as data: what its page shows, of few ranks and of a thousand.
//! Not what is found in its files (`busbw-watch`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use busbw_watch_file::WatchFile;

use super::*;
use crate::data::{LateRow, Level};

/// A made-up job of four ranks, of which the GPU of rank 3 is slow.
const LATE: [&str; 4] = [
    include_str!("../../../busbw/tests/watch/late/h0.0.jsonl"),
    include_str!("../../../busbw/tests/watch/late/h0.1.jsonl"),
    include_str!("../../../busbw/tests/watch/late/h0.2.jsonl"),
    include_str!("../../../busbw/tests/watch/late/h0.3.jsonl"),
];

fn of<T: AsRef<str>>(texts: &[T]) -> Vec<Job> {
    let file = |(number, text): (usize, &T)| {
        (format!("{number}.jsonl"), WatchFile::parse(text.as_ref().as_bytes()).unwrap())
    };
    Job::of(texts.iter().enumerate().map(file).collect())
}

fn page<T: AsRef<str>>(texts: &[T], hardware: &Hardware) -> Watched {
    let [one]: [Watched; 1] = jobs(&of(texts), &[], hardware).try_into().unwrap();
    one
}

/// The file of a rank of a communicator of `ranks` ranks, with a call each 10 ms; `late` comes 1 ms after the others.
fn rank(rank: u32, ranks: u32, calls: u64, late: bool) -> String {
    let duration = if late { 200_000 } else { 1_200_000 };
    let calls: Vec<String> = (0..calls)
        .map(|call| {
            format!("[{call},{},{},{duration}]", call * 10_000_000, call * 10_000_000 + 9_000)
        })
        .collect();
    format!(
        "{{\"kind\":\"process\",\"version\":1,\"busbw\":\"0\",\"host\":\"node{}\",\"pid\":{},\"rank\":{rank},\"began\":5,\"interface\":6,\"mask\":70}}\n\
         {{\"kind\":\"communicator\",\"number\":0,\"id\":\"0xab\",\"nodes\":0,\"ranks\":{ranks},\"rank\":{rank},\"at\":1}}\n\
         {{\"kind\":\"calls\",\"communicator\":0,\"operation\":\"AllReduce\",\"count\":262144,\"datatype\":\"ncclFloat32\",\"size\":1048576,\"channels\":2,\"calls\":[{}]}}\n",
        rank / 8,
        4_000 + rank,
        calls.join(",")
    )
}

#[test]
fn a_late_rank_is_named_as_watch_names_it() {
    let told = page(&LATE, &Hardware::default());
    let jobs = of(&LATE);
    let view = View::of(&jobs[0]);
    let causes: Vec<String> =
        view.findings.iter().map(|finding| summary::sentence(&finding.cause)).collect();
    let shown: Vec<String> = told.findings.iter().map(|finding| finding.cause.clone()).collect();
    assert!(!causes.is_empty() && shown == causes, "{shown:?}");
    assert_eq!(told.sentence, summary::sentence(&view.sentence()));
    assert_eq!((told.answer.level, told.answer.word.as_str()), (Level::Slow, "A rank is late"));
    assert!(told.answer.remedy.unwrap().text.starts_with("Compare this GPU's clocks"));
    assert_eq!(told.subject, "a job, 4 processes on 1 host, 8 communicators, 84 ms of calls");
    let named: Vec<&str> =
        told.lateness.iter().filter(|row| row.named).map(|row| row.name.as_str()).collect();
    assert_eq!((named, told.per_row), (vec!["rank 3 (h0)"], 1));
    assert_eq!(
        (told.latest[0].rank, told.latest[0].pid, told.latest[0].named),
        (Some(3), 1003, true)
    );
}

#[test]
fn collectives_are_over_the_run() {
    let told = page(&LATE, &Hardware::default());
    assert!(!told.together && told.classes.len() == 4, "{:?}", told.classes);
    for class in &told.classes {
        let within: usize = class.windows.iter().flatten().map(|window| window.calls).sum();
        assert_eq!(within, class.calls, "{class:?}");
        assert!(class.windows.iter().flatten().all(|window| window.time_us > Some(0.0)));
    }
    let windows: Vec<usize> = told.classes.iter().map(|class| class.windows.len()).collect();
    assert!(windows.iter().all(|one| *one == told.lateness[0].cells.len()), "{windows:?}");
}

/// What nobody named is not made up, and the page says so.
#[test]
fn what_is_not_known_is_said() {
    let told = page(&LATE, &Hardware::default());
    let said = told.untold.join("\n");
    for word in ["--machine", "No run beside the job", "BUSBW_WATCH=full"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(told.classes.iter().all(|class| class.limit.is_none() && class.earlier.is_none()));
    let hardware = Hardware::read(Some("dgx-h100"), None).unwrap();
    let told = page(&LATE, &hardware);
    assert!(!told.untold.join("\n").contains("--machine"));
    let class = &told.classes[0];
    let percent = class.busbw.unwrap() / class.limit.unwrap() * 100.0;
    assert!((told.answer.percent.unwrap() - percent).abs() < 1e-9, "{:?}", told.answer);

    let alone = page(&LATE[3..], &Hardware::default());
    assert_eq!((alone.answer.level, alone.latest.len()), (Level::Unknown, 0));
    assert!(alone.untold[0].starts_with("There is no file of ranks 0 (of "), "{:?}", alone.untold);
}

#[test]
fn calls_of_which_only_the_number_is_left_are_said() {
    let mut texts: Vec<String> = (0..2).map(|one| rank(one, 2, 30, false)).collect();
    texts[0] += "{\"kind\":\"totals\",\"communicator\":0,\"operation\":\"AllReduce\",\"count\":262144,\"datatype\":\"ncclFloat32\",\"size\":1048576,\"channels\":2,\"at\":5,\"calls\":1000,\"bytes\":1,\"timed\":1000,\"duration\":1}\n";
    let told = page(&texts, &Hardware::default());
    assert!(told.untold[0].starts_with("Of 970 older calls only the number"), "{:?}", told.untold);
}

/// Rows of several ranks hide nobody, and a page of 1,024 ranks stays small.
#[test]
fn a_thousand_ranks_fit() {
    let texts: Vec<String> = (0..1024).map(|one| rank(one, 1024, 100, one == 777)).collect();
    let told = page(&texts, &Hardware::default());
    assert_eq!((told.lateness.len(), told.per_row), (64, 16));
    let row: &LateRow = told.lateness.iter().find(|row| row.named).unwrap();
    assert_eq!(row.name, "ranks 768 to 783");
    // Of the first call with these ranks it is not known what came before it.
    let cells: Vec<_> = row.cells.iter().flatten().skip(1).collect();
    assert!(cells.len() > 30);
    for cell in cells {
        assert_eq!(cell.who.as_deref(), Some("rank 777 (node97)"));
        assert!((900.0..=1_000.0).contains(&cell.us), "{cell:?}");
    }
    let others = told.lateness.iter().filter(|row| !row.named).flat_map(|row| &row.cells);
    assert!(others.flatten().all(|cell| cell.us == 0.0 && cell.who.is_none()));
    assert_eq!(told.latest.len(), 1);
    let size = serde_json::to_string(&told).unwrap().len();
    assert!(size < 300_000, "{size} bytes");
}

#[test]
fn two_jobs_are_two() {
    let mut texts: Vec<String> = (0..2).map(|one| rank(one, 2, 30, false)).collect();
    let other = |text: &String| text.replace("0xab", "0xcd").replace("\"pid\":4", "\"pid\":5");
    texts.extend(texts.iter().map(other).collect::<Vec<_>>());
    let titles: Vec<String> =
        jobs(&of(&texts), &[], &Hardware::default()).into_iter().map(|one| one.title).collect();
    assert_eq!(titles, ["Job 1", "Job 2"]);
}
