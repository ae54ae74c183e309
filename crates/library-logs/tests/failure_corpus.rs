//! With BUSBW_CORPUS=DIR: every file of a shared collection of real logs, and of the field reports beside it. Healthy
//! ones have no cause; the failed ones have theirs. Without it only the table is checked.
#![allow(clippy::expect_used)]

use std::{collections::BTreeMap, path::Path};

use busbw_library_logs::{
    failure::{self, Ending, Kind, sentence},
    nccl,
};

/// The files of runs that failed, or whose log ends while they wait.
const FAILED: [(&str, Kind); 10] = [
    ("gh200x2_allreduce_2.17.8_wrong96_FAILED_issue369.txt", Kind::WrongData),
    ("gh200x8_allreduce_2.17.8_cuda-busy_no-rows_issue369.txt", Kind::GpuBusy),
    ("v100_allreduce_segfault_mpirun_interleaved.txt", Kind::Crashed),
    ("h100x8_allreduce_2.19.7_rank-failure_no-table.txt", Kind::InvalidDevice),
    ("h200x4_allreduce_2.19.7_illegal-access_no-rows.txt", Kind::GpuFault),
    ("perlmutter_a100x8_ofi_gdrdma_crash.txt", Kind::RegistrationFailed),
    ("alps_gh200_iallreduce_cuda_v7.5.txt", Kind::Crashed),
    ("gb200x4_mnnvl0_cumem_runB_2.30.7_issue2303.txt", Kind::GpuFault),
    // Single-size runs, of which some ended with exit code 139.
    ("rtx3090x32_iallreduce_cuda_v5.9_overlap.txt", Kind::Crashed),
    // A page of the manual that quotes one failing run.
    ("nccl-docs_logging_example_h100.rst.txt", Kind::NetworkMissing),
];

fn read(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            read(&path, files);
        } else if !matches!(name.as_str(), "INDEX.tsv" | "README.md" | "limits.tsv") {
            let bytes = std::fs::read(&path).expect("a file");
            files.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

#[test]
fn healthy_logs_have_no_cause_and_failed_ones_theirs() {
    let failed: BTreeMap<&str, Kind> = FAILED.into();
    assert_eq!(failed.len(), FAILED.len());
    let Some(corpus) = std::env::var_os("BUSBW_CORPUS") else {
        eprintln!("BUSBW_CORPUS is not set: the collection itself was not read");
        return;
    };
    let corpus = Path::new(&corpus);
    let mut files = Vec::new();
    read(corpus, &mut files);
    let reports = corpus.with_file_name("field-reports");
    if reports.is_dir() {
        read(&reports, &mut files);
    }
    assert!(files.len() > 80, "{} files", files.len());
    let mut wrong = Vec::new();
    for (name, text) in &files {
        let facts = failure::parse(text, &nccl::parse(text));
        let cause = facts.cause();
        if cause.map(|one| one.kind) != failed.get(name.as_str()).copied() {
            wrong.push(format!("{name}: {:?}", cause.map(|one| sentence(one, &facts))));
        }
        assert_eq!(facts.ending() == Ending::Failed, cause.is_some(), "{name}");
        // A healthy log that ends early hangs at most.
        let lines: Vec<&str> = text.lines().collect();
        for tenths in 1..10 * usize::from(cause.is_none()) {
            let cut = lines[..lines.len() * tenths / 10].join("\n");
            let facts = failure::parse(&cut, &nccl::parse(&cut));
            if let Some(one) = facts.cause().filter(|one| one.kind != Kind::InitHang) {
                wrong.push(format!("{name}, {tenths} tenths: {}", sentence(one, &facts)));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}
