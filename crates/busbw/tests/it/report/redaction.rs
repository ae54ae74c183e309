//! Redacted pages: what they keep, and what they do not.
//! Not the rest of a page.

use std::fs;

use serde_json::Value;

use super::Folder;

#[test]
fn redacted_pages_name_nobody() {
    let folder = Folder::new();
    folder.record("a.jsonl");
    let record = fs::read_to_string(folder.at("a.jsonl")).unwrap();
    let first: Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    let host = first["machine"]["host"].as_str().unwrap();
    folder.file("b.jsonl", record.replace(&format!("\"{host}\""), "\"gpunode-0815\""));
    let whole = folder.data("b.jsonl");
    assert!(whole.to_string().contains("gpunode-0815"));
    assert_eq!(whole["redacted"], false);
    let data = folder.data("b.jsonl --redact --title gpunode-0815");
    assert!(!data.to_string().contains("gpunode"), "{data}");
    assert!(!fs::read_to_string(folder.at("page.html")).unwrap().contains("gpunode"));
    assert_eq!((&data["redacted"], &data["title"]), (&Value::Bool(true), &Value::from("host-1")));
    // Figures are what they were.
    assert_eq!(data["series"], whole["series"]);
}

/// A log as people send it: what is named on lines that no measurement keeps is gone as well.
#[test]
fn redacted_logs_name_nobody() {
    let folder = Folder::new();
    folder.file(
        "alyssa-gn07.log",
        "[alyssa@login-b ~]$ mpirun -H gn07:4,gn08:4 --mca plm_rsh_args \"-l bobby\" /fsx/alyssa/nccl-tests/build/all_reduce_perf -b 1G\n\
         \x1b[1mgn07:812:812 [0] NCCL INFO Bootstrap : Using eth0:10.20.30.41<0>\x1b[0m\n\
         # nThread 1 nGpus 1 minBytes 1073741824 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n\
         #\n# Using devices\n\
         #  Rank  0 Group  0 Pid    812 on       gn07 device  0 [0x1b] NVIDIA H200\n\
         #  Rank  1 Group  0 Pid    813 on       gn08 device  0 [0x1b] NVIDIA H200\n\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         1073741824     268435456     float     sum      -1   3000.0  357.91  357.91      0   3000.0  357.91  357.91      0\n\
         gn08: Test NCCL failure common.cu:892 'remote process exited or there was a network error' on board sn=1650522012345, hca guid 0x0c42a10300112233, mac 0c:42:a1:00:11:22, home /users/bobby\n\
         ssh: connect to host storagehead port 22: Connection refused\n\
         # Avg bus bandwidth    : 357.91\n",
    );
    let whole = folder.data("alyssa-gn07.log").to_string();
    assert!(whole.contains("gn08") && whole.contains("1650522012345"), "{whole}");
    let data = folder.data("alyssa-gn07.log --redact").to_string();
    let page = fs::read_to_string(folder.at("page.html")).unwrap();
    // The charting library knows the colour aliceblue: a name that the page has of its own tells nothing.
    for secret in [
        "alyssa",
        "login-b",
        "gn07",
        "gn08",
        "bobby",
        "10.20.30.41",
        "1650522012345",
        "0c42a103",
        "0c:42:a1",
        "storagehead",
    ] {
        assert!(!data.contains(secret) && !page.contains(secret), "{secret} in {data}");
    }
}
