//! Limits, machine files and topologies, on files as they really come: one binary, linked once.
//! Not the single rules: those are tested beside the code.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod fabric_file;
mod forecast;
mod limits;
mod limits_of_fabrics;
mod machine_file;
mod plan_curves;
mod plan_points;
mod topology;

/// docs/plan.md has this table between these two lines. With UPDATE_PLAN_TABLE it is written there.
fn document_has(begin: &str, end: &str, wanted: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(begin).expect("the beginning of the table");
    let (table, after) = rest.split_once(end).expect("the end of the table");
    if std::env::var_os("UPDATE_PLAN_TABLE").is_some() {
        std::fs::write(&file, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
        return;
    }
    assert!(table == wanted, "docs/plan.md has another table; it is now:\n{wanted}");
}
