//! What NCCL says of itself: into the record, and nowhere else; the user's own settings are left alone.
//! Not the reading of it: `busbw_library_logs::nccl` has its own tests.

use serde_json::Value;

use super::shims::{LIMIT, bench, well};
use crate::processes::bench::Ended;

fn lines(ended: &Ended, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(&ended.record).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["kind"] == kind).collect()
}

/// Nobody sees NCCL's lines.
#[track_caller]
fn is_quiet(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains("NCCL INFO") && !text.contains("NCCL version"), "{text}");
    }
}

#[test]
fn each_process_tells_how_nccl_came_up() {
    for (words, processes) in
        [("all_reduce -g 3", 3), ("all_reduce_perf -t 3 -g 1", 1), ("all_reduce_perf -g 3", 1)]
    {
        let ended = well(&format!("{words} -b 1K -e 64K -f 2"), &[]);
        is_quiet(&ended);
        let told = lines(&ended, "library");
        assert_eq!(told.len(), processes, "{words}");
        let ranks: usize = told
            .iter()
            .flat_map(|facts| facts["communicators"].as_array().unwrap())
            .map(|communicator| communicator["ranks"].as_array().unwrap().len())
            .sum();
        assert_eq!(ranks, 3, "{words}: {told:?}");
        for facts in &told {
            assert_eq!(facts["versions"][0]["code"], 22809, "{facts}");
            assert_eq!(facts["transports"][0]["transport"]["kind"], "P2P", "{facts}");
            assert_eq!(
                (&facts["messages"]["unknown"], &facts["messages"]["torn"]),
                (&0.into(), &0.into())
            );
        }
    }
}

#[test]
fn transports_are_those_of_the_log() {
    let ended = well("all_reduce -g 2 -b 1K -e 1K", &[("NCCL_P2P_DISABLE", "1")]);
    let told = lines(&ended, "library");
    assert_eq!(told[0]["transports"][0]["transport"]["kind"], "SHM", "{told:?}");
}

/// Each row says which algorithm NCCL took, and what NCCL thought it would take.
#[test]
fn each_row_has_algorithm_and_prediction() {
    for words in ["all_reduce -g 2", "all_reduce_perf -t 2 -g 2", "all_reduce_perf -t 2 -g 1 -G 2"]
    {
        let ended = well(&format!("{words} -b 1K -e 64K -f 4"), &[("NCCL_ALGO", "TREE")]);
        is_quiet(&ended);
        let rows = ended.read_record().rows;
        assert_eq!(rows.len(), 4, "{words}");
        for row in &rows {
            let half = row.out_of_place.as_ref().unwrap();
            let algorithm = half.figures.algorithm.as_deref().unwrap_or("");
            assert!(algorithm.starts_with("TREE "), "{words}: {half:?}");
            assert!(half.predicted_us.is_some_and(|us| us > 0.0), "{words}: {half:?}");
        }
    }
    // Sends and receives are in no model of NCCL's.
    let rows = well("sendrecv -g 2 -b 1K -e 1K", &[]).read_record().rows;
    assert_eq!(rows[0].out_of_place.as_ref().unwrap().predicted_us, None);
}

#[test]
fn settings_of_the_user_are_respected() {
    let words = "all_reduce -g 2 -b 1K -e 1K";
    let ended = well(words, &[("NCCL_DEBUG", "INFO")]);
    ended.says("NCCL_DEBUG is set: NCCL writes as it says, and the record holds neither");
    ended.says("NCCL INFO");
    assert!(!ended.stdout.contains("NCCL INFO"), "{}", ended.stdout);
    assert_eq!(lines(&ended, "library").len(), 0);
    assert_eq!(ended.read_record().rows[0].out_of_place.as_ref().unwrap().figures.algorithm, None);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl.%p");
    let variables = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", file.to_str().unwrap())];
    let mut own = bench(words, &variables);
    own.also_writes = Some(folder.path().to_owned());
    let ended = own.start().end(LIMIT);
    ended.exits(0).says("NCCL_DEBUG and NCCL_DEBUG_FILE are set: NCCL writes as they say");
    is_quiet(&ended);
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.contains("NCCL INFO Using network"), "{text}");
    }
    // No settings, no remark.
    assert!(!well(words, &[]).stderr.contains("NCCL_DEBUG"));
}
