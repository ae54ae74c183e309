//! Records from outside: every number and every string of real records replaced in turn, through every command that
//! reads records. Nothing panics, asks for much memory, or reaches a terminal or a page unescaped.
//! Not damaged JSON in general: that is fuzzed.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const BUSBW: &str = env!("CARGO_BIN_EXE_busbw");
/// What a reading command may ask the system for, in KiB: address space, which is more than memory.
const MOST_KIB: u64 = 256 << 10;
/// Stands for NaN, which JSON has no word for.
const NAN: &str = "@NaN@";
/// Control characters of C0 and C1, a title and a colour of terminals, a reversal, markup.
const FOREIGN: &str =
    "\0\u{1b}]0;t\u{7}\u{1b}[31m\u{9b}2J\u{202e}\r</script><img src=x onerror=alert(1)>\"'&";
/// Files of one process.
const BATCH: usize = 120;
/// Of a list, its first members stand for all.
const MEMBERS: usize = 2;

/// Every place of a value that holds a number or a string.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(all) => {
            let first = all.iter().take(MEMBERS).enumerate();
            first.for_each(|(at, one)| leaves(one, &format!("{path}/{at}"), found));
        }
        Value::Object(all) => all.iter().for_each(|(key, one)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            leaves(one, &format!("{path}/{key}"), found);
        }),
        Value::Number(_) | Value::String(_) => found.push(path.to_owned()),
        Value::Null | Value::Bool(_) => {}
    }
}

fn replacements(leaf: &Value) -> Vec<Value> {
    if leaf.is_string() {
        return vec![json!(FOREIGN)];
    }
    let numbers = [json!(0), json!(-1), json!(1_u64 << 31), json!(1_u64 << 32), json!(1_u64 << 63)];
    let more = [json!(u64::MAX), json!(1e308), json!(NAN), json!("1")];
    numbers.into_iter().chain(more).collect()
}

/// A record with one leaf replaced, and which: the first line of each kind, and two rows.
fn mutants(record: &str) -> Vec<(String, String)> {
    let lines: Vec<Value> = record.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let earlier = lines[..at].iter().filter(|other| other["kind"] == line["kind"]).count();
        if earlier >= MEMBERS {
            continue;
        }
        let mut paths = Vec::new();
        leaves(line, "", &mut paths);
        for path in paths {
            for replacement in replacements(line.pointer(&path).unwrap()) {
                let name = format!("line {}, {path} = {replacement}", at + 1);
                let mut changed = line.clone();
                *changed.pointer_mut(&path).unwrap() = replacement;
                let text = lines.iter().enumerate().map(|(number, other)| {
                    let line = if number == at { &changed } else { other };
                    line.to_string().replace(&format!("\"{NAN}\""), "NaN") + "\n"
                });
                all.push((name, text.collect()));
            }
        }
    }
    all
}

/// Stored records of GPUs and MPI, and new ones of the cost model.
fn records(folder: &Path) -> Vec<String> {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records");
    let mut all: Vec<PathBuf> =
        fs::read_dir(stored).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    let lines = [
        "all_reduce -b 8 -e 64 -f 8 -g 4 --batches 2 -I 1",
        "all_gather --latency -b 8 -e 8 -g 2",
        "mbw_mr -b 8 -e 8 -g 4",
        "pairs -g 4",
    ];
    for (number, line) in lines.iter().enumerate() {
        let path = folder.join(format!("fake-{number}.jsonl"));
        let made = Command::new(BUSBW)
            .args(line.split(' '))
            .args(["--backend", "fake", "--record"])
            .arg(&path)
            .output()
            .unwrap();
        // The cost model has no messages between pairs: every row is waived, and nothing is known.
        let code = if line.starts_with("pairs") { 5 } else { 0 };
        let said = String::from_utf8_lossy(&made.stderr);
        assert_eq!(made.status.code(), Some(code), "{line}: {said}");
        all.push(path);
    }
    all.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// Runs a reading command on files, within the limit of memory.
fn read(words: &str, files: &[PathBuf], home: &Path) -> Output {
    let limited = format!("ulimit -v {MOST_KIB}; exec \"$0\" {words} \"$@\"");
    Command::new("sh")
        .args(["-c", &limited, BUSBW])
        .args(files)
        .env("XDG_DATA_HOME", home)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap()
}

/// What is wrong with a command's end or its output.
fn wrong(output: &Output) -> Option<String> {
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if let Some(signal) = output.status.signal() {
        return Some(format!("signal {signal}: {stderr}"));
    }
    if output.status.code() == Some(101) || stderr.contains("panicked") {
        return Some(stderr.into_owned());
    }
    let unescaped = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || c == '\u{202e}';
    if stdout.contains(unescaped) || stderr.contains(unescaped) {
        return Some("a control character is printed".to_owned());
    }
    stdout
        .contains("</script><img")
        .then_some(())
        .filter(|()| stdout.contains("<html"))
        .map(|()| "markup of a record is in the page".to_owned())
}

#[test]
fn no_number_and_no_string_of_a_record_does_harm() {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let mut files = Vec::new();
    // Without optimisation a sample has to do.
    let step = if cfg!(debug_assertions) { 11 } else { 1 };
    for (of, record) in records(folder.path()).iter().enumerate() {
        for (number, (name, text)) in mutants(record).into_iter().enumerate().step_by(step) {
            let path = folder.path().join(format!("{of}-{number:05}.jsonl"));
            fs::write(&path, text).unwrap();
            files.push((name, path));
        }
    }
    let mut failures = Vec::new();
    // Commands that take many files, then those that take one, on a sample.
    let many = ["import --json", "import", "explain -v", "explain --markdown", "report -o -"];
    for batch in files.chunks(BATCH) {
        let paths: Vec<PathBuf> = batch.iter().map(|(_, path)| path.clone()).collect();
        for words in many {
            if wrong(&read(words, &paths, folder.path())).is_none() {
                continue;
            }
            for (name, path) in batch {
                let why = wrong(&read(words, std::slice::from_ref(path), folder.path()));
                failures.extend(why.map(|why| format!("{words}: {name}: {why}")));
                if failures.len() > 40 {
                    break;
                }
            }
        }
    }
    // The data folder is read as a whole: whoever writes there must not break its list.
    let runs = folder.path().join("busbw/runs");
    fs::create_dir_all(&runs).unwrap();
    for batch in files.chunks(BATCH) {
        for (_, path) in batch {
            fs::hard_link(path, runs.join(path.file_name().unwrap())).unwrap();
        }
        for words in ["list", "list --json", "list --all --failed", "list --prune 1d"] {
            let why = wrong(&read(words, &[], folder.path()));
            failures.extend(why.map(|why| {
                format!("{words}: {} to {}: {why}", batch[0].0, batch[batch.len() - 1].0)
            }));
        }
        fs::remove_dir_all(&runs).unwrap();
        fs::create_dir(&runs).unwrap();
    }
    for (at, (name, path)) in files.iter().enumerate().step_by(17) {
        let words =
            ["show", "show --csv", "show --json", "show --plot", "topo", "compare", "report -o -"]
                [at / 17 % 7];
        let (_, other) = &files[0];
        let pair = [path.clone(), other.clone()];
        let count = if words == "compare" { 2 } else { 1 };
        let why = wrong(&read(words, &pair[..count], folder.path()));
        failures.extend(why.map(|why| format!("{words}: {name}: {why}")));
    }
    println!("{} records in {:?}", files.len(), begun.elapsed());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), files.len(), failures.join("\n"));
    // Some 25 s on an idle machine; a record that is read in a time that is not linear takes much longer.
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 600 } else { 300 });
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
}

/// The result of a sweep as it is written: `report` knows one by its first key, and `Value` sorts them.
fn schema_first(text: &str) -> String {
    let (key, rest) = ("\"sweep_schema\":2", text.replacen(",\"sweep_schema\":2", "", 1));
    if rest.len() == text.len() { rest } else { rest.replacen('{', &format!("{{{key},"), 1) }
}

/// What `import --json` wrote and results of sweeps come from outside, too.
#[test]
fn no_number_of_an_imported_run_or_of_a_sweep_does_harm() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let log = read("import --json", &[stored.join("explain/made-up-rtx4090-roce-5.81.txt")], home);
    let gpu = read("import --json", &[stored.join("records/gpu-all_reduce.jsonl")], home);
    let sweep = read(
        "sweep -x BUSBW_X=1,2 --launches 2 --baseline 1 --json --no-record all_reduce --backend fake -g 2 -b 8 -e 64",
        &[],
        home,
    );
    let reading: [(&Output, &[&str]); 3] = [
        (&log, &["import --json", "explain -v", "compare", "report -o -"]),
        (&gpu, &["import", "explain", "explain --markdown", "report -o -"]),
        (&sweep, &["show", "show --csv", "show --json", "show --plot", "report -o -"]),
    ];
    let step = if cfg!(debug_assertions) { 7 } else { 1 };
    let mut failures = Vec::new();
    for (of, (source, commands)) in reading.iter().enumerate() {
        assert!(source.status.success(), "{}", String::from_utf8_lossy(&source.stderr));
        let text = String::from_utf8(source.stdout.clone()).unwrap();
        let extension = if of == 2 { "json" } else { "jsonl" };
        for (number, (name, text)) in mutants(&text).into_iter().enumerate().step_by(step) {
            let path = home.join(format!("{of}-{number}.{extension}"));
            fs::write(&path, schema_first(&text)).unwrap();
            let words = commands[number / step % commands.len()];
            let files = vec![path; if words == "compare" { 2 } else { 1 }];
            let why = wrong(&read(words, &files, home));
            failures.extend(why.map(|why| format!("{words}: {name}: {why}")));
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));

    // By the field's name.
    let refused = |text: String, field: &str, value: Value, extension: &str, command: &str| {
        let mut json: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        *json.pointer_mut(field).unwrap() = value;
        let path = home.join(format!("absurd.{extension}"));
        fs::write(&path, schema_first(&format!("{json}\n"))).unwrap();
        let output = read(command, std::slice::from_ref(&path), home);
        assert_eq!(output.status.code(), Some(2), "{field}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let imported = String::from_utf8(gpu.stdout).unwrap();
    for (field, name) in [("/run/ranks/value", "run.ranks.value"), ("/rows/0/size", "rows.size")] {
        for command in ["import", "explain", "report -o -", "compare"] {
            let said = refused(imported.clone(), field, json!(1_u64 << 63), "jsonl", command);
            assert!(said.contains(&format!("{name} is 9223372036854775808")), "{said}");
        }
    }
    let result = String::from_utf8(sweep.stdout).unwrap();
    for (field, name) in
        [("/rows/0/size", "rows.size"), ("/environments/0/launches", "environments.launches")]
    {
        for command in ["show", "report -o -"] {
            let said = refused(result.clone(), field, json!(1_u64 << 63), "json", command);
            assert!(said.contains(&format!("{name} is 9223372036854775808")), "{said}");
        }
    }
    let said = refused(result, "/took_s", json!(1e308), "json", "show");
    assert!(said.contains("took_s is 1e308 s"), "{said}");
}

/// A count that no run has is refused by its field's name.
#[test]
fn an_absurd_count_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let record = include_str!("../records/gpu-all_reduce.jsonl");
    for (field, name) in [
        ("threads", "plan.threads"),
        ("devices", "plan.devices"),
        ("launched", "plan.launched"),
        ("virtual_nodes", "plan.virtual_nodes"),
    ] {
        let (first, rest) = record.split_once('\n').unwrap();
        let mut run: Value = serde_json::from_str(first).unwrap();
        run["plan"][field] = json!(1_u64 << 32);
        fs::write(&path, format!("{run}\n{rest}")).unwrap();
        for command in ["show", "import", "explain", "topo", "report -o -", "compare"] {
            let output = read(command, std::slice::from_ref(&path), folder.path());
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}: {said}");
            assert!(said.contains(&format!("{name} is 4294967296")), "{command}: {said}");
        }
    }
}
