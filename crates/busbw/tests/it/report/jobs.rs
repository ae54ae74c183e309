//! Pages of watched jobs: what they show of the profiler's files, and whom they do not name.
//! Not what is found in these files (`watch`).

use std::{fs, path::Path};

use serde_json::Value;

use super::Folder;

impl Folder {
    /// The files of a made-up job, on a host of this name.
    fn job(&self, name: &str, host: &str) {
        fs::create_dir(self.at("job")).unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watch").join(name);
        for entry in fs::read_dir(from).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap();
            let text = text.replace("\"host\":\"h0\"", &format!("\"host\":\"{host}\""));
            let file = entry.file_name().into_string().unwrap();
            self.file(&format!("job/{}", file.replace("h0", host)), text);
        }
    }
}

#[test]
fn a_job_is_a_page_with_the_sentences_of_watch() {
    let folder = Folder::new();
    folder.job("late", "h0");
    let data = folder.data("job --machine dgx-h100");
    let [job] = data["jobs"].as_array().unwrap().as_slice() else { panic!("{data}") };
    let watch = folder.busbw("watch --once --json job");
    let view: Value = serde_json::from_slice(&watch.stdout).unwrap();
    // As sentences they begin with a capital letter and have an end.
    let causes = |from: &Value| -> Vec<String> {
        let all = from["findings"].as_array().unwrap().iter();
        all.map(|one| one["cause"].as_str().unwrap()[1..].trim_end_matches('.').to_owned())
            .collect()
    };
    assert!(!causes(job).is_empty());
    assert_eq!(causes(job), causes(&view));
    assert_eq!(job["lateness"].as_array().unwrap().len(), 4);
    assert!(job["classes"][0]["limit"].as_f64().unwrap() > 100.0, "{job}");
    // The files of a job are no runs of a benchmark.
    assert_eq!((&data["runs"], &data["answer"]), (&Value::from([0; 0].as_slice()), &job["answer"]));
    assert_eq!(data["answer"]["level"], "slow");
    let page = fs::read_to_string(folder.at("page.html")).unwrap();
    let (page, _) = page.split_once("id=\"data\">").unwrap();
    for word in ["enters calls of communicator", "What the files do not tell", "by a finding"] {
        assert!(page.contains(word), "without a script the page lacks: {word}");
    }

    let files = "job/h0.0.jsonl job/h0.1.jsonl job/h0.2.jsonl job/h0.3.jsonl";
    assert_eq!(folder.data(&format!("{files} --machine dgx-h100"))["jobs"][0], *job);
    let alone = folder.data("job/h0.3.jsonl");
    assert_eq!(alone["jobs"][0]["answer"]["word"], "Cannot tell who is late");
}

/// A record of the same collective and ranks is what the job is held against.
#[test]
fn a_run_stands_beside() {
    let folder = Folder::new();
    folder.job("healthy", "h0");
    let line = "all_reduce --backend fake -g 2 -b 16M -e 16M --record run.jsonl";
    assert!(folder.busbw(line).status.success());
    let data = folder.data("job run.jsonl");
    let classes = data["jobs"][0]["classes"].as_array().unwrap();
    let small = classes.iter().find(|one| one["call"] == "AllReduce 16 MiB").unwrap();
    let large = classes.iter().find(|one| one["call"] == "AllReduce 64 MiB").unwrap();
    assert!(small["earlier"].as_f64().unwrap() > 0.0, "{small}");
    assert!(large["earlier"].is_null(), "four times the size is no measure: {large}");
    assert_eq!(data["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn redacted_jobs_name_nobody() {
    let folder = Folder::new();
    folder.job("late", "gpunode-0815");
    assert!(folder.data("job").to_string().contains("gpunode-0815"));
    let data = folder.data("job --redact --title gpunode-0815");
    let page = fs::read_to_string(folder.at("page.html")).unwrap();
    assert!(!data.to_string().contains("gpunode") && !page.contains("gpunode"), "{data}");
    assert_eq!(data["jobs"][0]["latest"][0]["host"], "host-1");
    assert!(data["jobs"][0]["lateness"][3]["name"] == "rank 3 (host-1)", "{data}");
}

/// A file that cannot be read hides no other; named by itself it is refused.
#[test]
fn damaged_files_are_named() {
    let folder = Folder::new();
    folder.job("healthy", "h0");
    let first = fs::read_to_string(folder.at("job/h0.0.jsonl")).unwrap();
    let head = first.lines().next().unwrap().replace("\"version\":1", "\"version\":9");
    folder.file("job/newer.jsonl", format!("{head}\n"));
    let data = folder.data("job");
    let unread = data["unread"].to_string();
    assert!(unread.contains("newer.jsonl: it has version 9"), "{unread}");
    assert_eq!(data["jobs"][0]["answer"]["word"], "Nobody is late");
    let said = folder.refusal("report job/newer.jsonl -o other.html");
    assert!(said.contains("it has version 9 of the format"), "{said}");
}

/// Two processes a host and more than a thousand hosts: no file is left out of a folder.
#[test]
fn a_folder_of_more_than_a_thousand_files() {
    let folder = Folder::new();
    fs::create_dir(folder.at("job")).unwrap();
    for rank in 0..1_100 {
        folder.file(
            &format!("job/n{rank}.jsonl"),
            format!(
                "{{\"kind\":\"process\",\"version\":1,\"busbw\":\"0\",\"host\":\"n{rank}\",\"pid\":{rank},\"rank\":{rank},\"began\":5,\"interface\":6,\"mask\":70}}\n\
                 {{\"kind\":\"communicator\",\"number\":0,\"id\":\"0xab\",\"nodes\":0,\"ranks\":1100,\"rank\":{rank},\"at\":1}}\n"
            ),
        );
    }
    let data = folder.data("job");
    assert_eq!(data["unread"].as_array().unwrap().len(), 0, "{}", data["unread"]);
    let said = data["jobs"][0]["subject"].as_str().unwrap();
    assert_eq!(said, "a job, 1100 processes on 1100 hosts, 1 communicator");
    assert!(data["jobs"][0]["untold"][0].as_str().unwrap().starts_with("No call has ended"));
}
