//! Pages of checks: what they show, and files that are none.
//! Not the decision (`check`).

use std::fs;

use serde_json::Value;

use super::Folder;

const CHECK: &str = "check --backend host -g 2 -b 4K -e 4K --only collective";

#[test]
fn a_check_is_a_page() {
    let folder = Folder::new();
    let done = folder.busbw(&format!("{CHECK} --json"));
    assert!(done.status.success(), "{done:?}");
    folder.file("check.json", &done.stdout);
    let json: Value = serde_json::from_slice(&done.stdout).unwrap();
    let data = folder.data("check.json");
    let told = &data["checks"][0];
    let lines = json["lines"].as_array().unwrap();
    assert_eq!(told["lines"].as_array().unwrap().len(), lines.len());
    for (told, line) in told["lines"].as_array().unwrap().iter().zip(lines) {
        assert_eq!((&told["kind"], &told["text"]), (&line["check"], &line["text"]));
        assert_eq!(told["status"], line["verdict"].as_str().unwrap().replace('-', " "));
    }
    assert_eq!((&told["hosts"], &told["answer"]), (&json["hosts"], &data["answer"]));
    assert_eq!(data["answer"]["word"], "Fit");
    let page = fs::read_to_string(folder.at("page.html")).unwrap();
    let (page, _) = page.split_once("id=\"data\">").unwrap();
    // Without a script the page has every line.
    for line in lines.iter().filter(|line| line["verdict"] == "waived") {
        assert!(
            page.contains("waived") && page.contains(line["check"].as_str().unwrap()),
            "{line}"
        );
    }
    let redacted = folder.data("check.json --redact");
    assert_eq!(redacted["checks"][0]["hosts"][0], "host-1");
}

/// The folder of `--record` has the launches, too.
#[test]
fn a_check_with_its_records_is_one_page() {
    let folder = Folder::new();
    let done = folder.busbw(&format!("{CHECK} --record good"));
    assert!(done.status.success(), "{done:?}");
    let data = folder.data("good");
    assert_eq!(data["checks"].as_array().unwrap().len(), 1, "{}", data["unread"]);
    let runs = data["runs"].as_array().unwrap();
    assert!(runs.len() >= 2 && runs.iter().all(|run| run["test"] == "all_reduce"), "{runs:?}");
}

#[test]
fn a_file_that_is_no_check_is_refused() {
    let folder = Folder::new();
    folder.file("newer.json", "{\"check_schema\":99}");
    folder.file("torn.json", "{\"check_schema\":1,\"busbw\":\"0.1.0\"}");
    folder.file("cut.json", "{\"check_schema\":1,");
    for (name, why) in [
        ("newer.json", "this check has form 99, and this busbw reads 1"),
        ("torn.json", "this is no result of busbw check"),
        ("cut.json", "damaged JSON"),
    ] {
        let said = folder.refusal(&format!("report {name} -o page.html"));
        assert!(said.contains(name) && said.contains(why), "{name}: {said}");
        assert!(!folder.at("page.html").exists(), "{name}");
    }
}
