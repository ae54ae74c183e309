//! `busbw plugin check`: a plugin that keeps every rule passes, and one that breaks a rule fails that very rule.
//! Not runs.

use std::{collections::BTreeMap, process::Command, sync::Mutex};

use serde_json::Value;

use crate::{built_shims::folder, processes::bench::BUSBW};

/// What `plugin check` says of the shim with these variables: its exit code, and the severity of each rule with
/// its cause.
fn check(words: &[&str], variables: &[(&str, &str)]) -> (i32, BTreeMap<String, (String, String)>) {
    let output = Command::new(BUSBW)
        .args(["plugin", "check", "--json"])
        .arg(folder().join("libnccl-net-shim.so"))
        .args(words)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let findings = all["findings"].as_array().unwrap().iter();
    let verdicts = findings.map(|f| (text(&f["rule"]), (text(&f["severity"]), text(&f["cause"]))));
    (output.status.code().unwrap(), verdicts.collect())
}

/// Interfaces that no rule checks are named.
#[test]
fn other_interfaces_are_named() {
    let output = Command::new(BUSBW)
        .args(["plugin", "check", "--rule", "sizes"])
        .arg(folder().join("libnccl-net-shim.so"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = "# not checked: ncclGinPlugin_v13 (sends that a GPU begins), ncclRmaPlugin_v15 (one-sided operations)";
    assert!(text.lines().any(|one| one == line), "{text}");
}

const BREAK: &str = "BUSBW_SHIM_NET_BREAK";
const DEVICES: (&str, &str) = ("BUSBW_SHIM_NET_DEVICES", "2");
const GROUPED: (&str, &str) = ("BUSBW_SHIM_NET_GROUPED", "1");

#[test]
fn who_keeps_the_contract_passes() {
    for version in ["12", "11", "10", "9", "8"] {
        let (code, verdicts) = check(&["--table", version], &[]);
        let not: Vec<_> = verdicts.iter().filter(|(_, (verdict, _))| verdict != "fine").collect();
        assert_eq!(code, 0, "v{version}: {not:?}");
        assert_eq!(not.len(), 2, "v{version}: {not:?}");
        assert_eq!(verdicts["grouped"].0, "absent", "maxRecvs is 1");
        assert_eq!(verdicts["merged"].0, "absent", "it has one device");
    }
    let rules = ["--rule", "grouped", "--rule", "sizes", "--rule", "merged"];
    let (code, verdicts) = check(&rules, &[GROUPED, DEVICES]);
    assert_eq!((code, verdicts.len()), (0, 3));
    assert!(verdicts.values().all(|(verdict, _)| verdict == "fine"), "{verdicts:?}");
}

/// Each rule by a plugin that breaks it and nothing else on purpose.
#[test]
fn who_breaks_a_rule_fails_it() {
    let (_, all) = check(&[], &[]);
    let rules: Vec<&String> = all.keys().collect();
    assert!(rules.len() >= 20, "{rules:?}");
    let next = Mutex::new(rules.into_iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        // Some of them hang, and wait for the end of their time.
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(rule) = next.lock().unwrap().next() else { return };
                    let (code, verdicts) =
                        check(&["--rule", rule], &[(BREAK, rule), GROUPED, DEVICES]);
                    let (verdict, why) = &verdicts[rule];
                    if (code, verdict.as_str()) != (1, "error") || why.is_empty() {
                        wrong.lock().unwrap().push((
                            rule.clone(),
                            code,
                            verdict.clone(),
                            why.clone(),
                        ));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "these were not found: {wrong:?}");
}

/// A crash and a hang are reported as such.
#[test]
fn what_a_broken_plugin_does_is_said() {
    let (_, crashed) = check(&["--rule", "without-sizes"], &[(BREAK, "without-sizes")]);
    assert!(crashed["without-sizes"].1.contains("signal 11"), "{crashed:?}");
    let (_, hung) = check(&["--rule", "close-open"], &[(BREAK, "close-open")]);
    assert!(hung["close-open"].1.contains("hangs"), "{hung:?}");
}

#[test]
fn what_is_no_plugin() {
    for (word, code, why) in
        [("libc.so.6", 3, "ncclNetPlugin_v12"), ("/nowhere.so", 3, "/nowhere.so")]
    {
        let output = Command::new(BUSBW).args(["plugin", "check", word]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(why) && output.stdout.is_empty(), "{said}");
    }
    let output = Command::new(BUSBW).args(["plugin", "check", "x", "--rule", "none"]).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}

/// The file is a plugin of this program, named as NCCL and RCCL look for it.
#[test]
fn our_own_plugin_is_written_out() {
    let cache = tempfile::tempdir().unwrap();
    let path = || {
        let output = Command::new(BUSBW)
            .args(["plugin", "path"])
            .env("XDG_CACHE_HOME", cache.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        std::path::PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
    };
    let first = path();
    assert_eq!(path(), first);
    assert!(first.starts_with(cache.path()) && first.ends_with("libnccl-net-busbw.so"));
    assert!(first.with_file_name("librccl-net-busbw.so").is_file());
    let symbols = std::fs::read(&first).unwrap();
    for version in 8..=12 {
        let name = format!("ncclNetPlugin_v{version}\0");
        assert!(symbols.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name}");
    }
}
