//! `report` and `show --plot` as commands: what they write, and what they refuse.
//! Not the page in a browser (tests/browser.sh).

mod checks;
mod jobs;
mod redaction;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.at(name), bytes).unwrap();
    }

    /// A record of the fake backend.
    fn record(&self, name: &str) {
        let line = "all_reduce --backend fake -g 8 -b 8 -e 1G -f 2 -n 5 --batches 8 --record";
        let made = self.busbw(&format!("{line} {name}"));
        assert!(made.status.success(), "{made:?}");
    }

    fn busbw(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_busbw"));
        command.current_dir(self.0.path()).env("XDG_DATA_HOME", self.0.path());
        command.env_remove("BUSBW_NO_RECORD").args(line.split_whitespace()).output().unwrap()
    }

    /// The data of a page that a command line writes to `page.html`.
    fn data(&self, line: &str) -> Value {
        let done = self.busbw(&format!("report {line} --force -o page.html"));
        assert!(done.status.success(), "{done:?}");
        let page = fs::read_to_string(self.at("page.html")).unwrap();
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    /// The one line that a refused command line says.
    fn refusal(&self, line: &str) -> String {
        let done = self.busbw(line);
        assert_eq!(done.status.code(), Some(2), "{line}: {done:?}");
        assert!(done.stdout.is_empty(), "{line}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(said.trim_end().lines().count(), 1, "{line}: {said}");
        said
    }
}

fn log(name: &str) -> String {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain");
    logs.join(name).display().to_string()
}

/// Runs of one name and line, as of several texts from stdin, and tables of one size each that are
/// joined: every run's figures are its own.
#[test]
fn runs_of_one_name_keep_their_figures() {
    let folder = Folder::new();
    let table = |time: f64, bandwidth: f64| {
        let size = 1u64 << 30;
        format!(
            "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n\
             {size} {} float sum -1 {time} {bandwidth} {bandwidth} 0 {time} {bandwidth} {bandwidth} 0\n\
             # Avg bus bandwidth : {bandwidth}\n",
            size / 4
        )
    };
    let mut folded = String::new();
    for (time, bandwidth) in [(3000.0, 357.91), (9000.0, 119.30)] {
        folder.file("one.log", table(time, bandwidth));
        folded += &String::from_utf8(folder.busbw("import one.log --json").stdout).unwrap();
    }
    folder.file("both.jsonl", folded);
    let data = folder.data("both.jsonl");
    let text = data.to_string();
    assert!(text.contains("3000") && text.contains("9000"), "{text}");
    assert_eq!(data["series"].as_array().unwrap().len(), 2, "{text}");
    folder.file(
        "secret.log",
        format!(
            "mpirun -x HF_TOKEN=hf_1 ./all_reduce_perf --token abc -b 8\n{}",
            table(3000.0, 357.91)
        ),
    );
    let text = folder.data("secret.log").to_string();
    assert!(!text.contains("hf_1") && !text.contains("abc -b"), "{text}");
}

#[test]
fn the_data_are_the_records() {
    let folder = Folder::new();
    folder.record("a.jsonl");
    let data = folder.data("a.jsonl");
    let rows = data["series"][0]["rows"].as_array().unwrap();
    let record = fs::read_to_string(folder.at("a.jsonl")).unwrap();
    let lines: Vec<Value> =
        record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let measured: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "row").collect();
    assert_eq!(rows.len(), measured.len());
    for (told, row) in rows.iter().zip(measured) {
        for fact in ["size", "count", "datatype", "redop"] {
            assert_eq!(told[fact], row[fact], "{fact}");
        }
        for place in ["out_of_place", "in_place"] {
            let (told, half) = (&told[place], &row[place]);
            for figure in ["time_us", "algbw", "busbw", "wrong"] {
                assert_eq!(told[figure], half[figure], "{figure}");
            }
            assert_eq!(told["interval_us"], half["summary"]["interval"]);
            assert!(half["batches_us"].is_array() && told.get("samples_us").is_none(), "{told}");
        }
    }
    let command = data["runs"][0]["command"].as_str().unwrap();
    assert!(command.contains("all_reduce --backend fake -g 8"), "{command}");
}

#[test]
fn everything_that_is_read_stands_on_one_page() {
    let folder = Folder::new();
    folder.record("a.jsonl");
    let swept = folder.busbw(
        "sweep -x UCX_TLS=self,tcp --launches 1 --record swept all_reduce --backend fake -g 2 -b 1M -e 2M -f 2 -n 2",
    );
    assert!(swept.status.success(), "{swept:?}");
    folder.file(
        "pairs.json",
        r#"{"pairs_schema":1,"labels":["a","b"],"size":8,"unit":"us","values":[[null,1.5],[2,null]]}"#,
    );
    let nccl_tests = log("16x-h100-nvlink-8x-400gbps-ib-all-reduce.txt");
    let line = format!(
        "a.jsonl swept pairs.json {nccl_tests} {} --machine dgx-h100",
        log("oci-h100-osu_bw-host.txt")
    );
    let data = folder.data(&line);
    let count = |what: &str| data[what].as_array().unwrap().len();
    assert_eq!((count("runs"), count("sweeps"), count("pairs"), count("series")), (3, 1, 1, 5));
    let told = &data["runs"][1];
    assert!(told["percent"].as_f64().unwrap() > 90.0, "{told}");
    assert_eq!(data["series"][1]["lines"][1]["busbw"], 400.0);
    assert_eq!(data["sweeps"][0]["environments"][1]["settings"], "UCX_TLS=tcp");
    assert_eq!(data["pairs"][0]["unit"], "us");
}

/// All that a folder holds is one page: what is none of busbw's is named, and the rest is read.
#[test]
fn a_folder_is_one_page() {
    let folder = Folder::new();
    fs::create_dir_all(folder.at("bundle/deep")).unwrap();
    folder.record("bundle/a.jsonl");
    fs::copy(log("8x-h100-nvlink-all2all.txt"), folder.at("bundle/deep/alltoall.log")).unwrap();
    fs::copy(log("rtx4090-cx5-topo-ib.xml"), folder.at("bundle/topology.xml")).unwrap();
    folder.file("bundle/ibstat.txt", "CA 'mlx5_0'\n\tCA type: MT4129\n");
    folder.file("bundle/notes.txt", "Nothing was measured here.\n");
    let data = folder.data("bundle");
    let tests: Vec<&str> =
        data["runs"].as_array().unwrap().iter().map(|run| run["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["all_reduce", "alltoall"]);
    let unread: Vec<&Value> = data["unread"].as_array().unwrap().iter().collect();
    assert!(unread.len() == 1 && unread[0].as_str().unwrap().contains("notes.txt"), "{unread:?}");
    let texts = data["texts"].to_string();
    assert!(texts.contains("ibstat.txt (ibstat)") && texts.contains("MT4129"), "{texts}");
    assert!(texts.contains("topology.xml"), "{texts}");
    fs::create_dir(folder.at("none")).unwrap();
    folder.file("none/notes.txt", "Nothing was measured here.\n");
    let said = folder.refusal("report none -o none.html");
    assert!(
        said.contains("in the folder none there is no run") && said.contains("1 file"),
        "{said}"
    );
}

/// The same test on the same machine before, at the same size; no other test, and no later run.
#[test]
fn against_last_time() {
    let folder = Folder::new();
    folder.record("made.jsonl");
    let record = fs::read_to_string(folder.at("made.jsonl")).unwrap();
    let first: Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    let (started, id) = (first["started"].as_str().unwrap(), first["id"].as_str().unwrap());
    fs::create_dir_all(folder.at("busbw/runs")).unwrap();
    let keep = |name: &str, time: &str, text: &str| {
        folder.file(
            &format!("busbw/runs/{name}.jsonl"),
            text.replace(started, time).replace(id, name),
        );
    };
    keep("older", "2026-11-18 10:00:00", &record);
    keep("old", "2026-11-19 10:00:00", &record);
    keep("other", "2026-11-19 11:00:00", &record.replace("all_reduce", "broadcast"));
    keep("now", "2026-11-20 10:00:00", &record);
    keep("later", "2026-11-21 10:00:00", &record);
    let answer = &folder.data("now")["answer"];
    let said = answer["last"]["sentence"].as_str().unwrap();
    assert!(
        said.starts_with("Last time (2026-11-19 10:00:00) ") && said.contains("now the same"),
        "{said}"
    );
    assert!(
        answer["last"]["command"].as_str().unwrap().starts_with("busbw compare old "),
        "{answer}"
    );
    assert!(folder.data("older")["answer"]["last"].is_null());
}

/// A test of latency has no bandwidth to show, though its record computes one.
#[test]
fn latency_is_in_microseconds() {
    let folder = Folder::new();
    let made = folder.busbw("latency --backend host -g 2 -b 8 -e 64 -f 2 -n 5");
    assert!(made.status.success(), "{made:?}");
    let text = |line: &str| {
        let done = folder.busbw(line);
        assert!(done.status.success(), "{line}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let id = text("list").split_whitespace().last().unwrap().to_owned();
    let listed = text("list");
    assert!(listed.lines().last().unwrap().contains(" us"), "{listed}");
    let page = folder.busbw(&format!("report {id} -o latency.html"));
    assert!(page.status.success(), "{page:?}");
    assert_eq!(folder.data(&id)["answer"]["unit"], "µs");
    let record = folder.at("busbw/runs").join(format!("{id}.jsonl"));
    let record = record.display();
    for line in [
        format!("explain {record}"),
        format!("show {record} --plot"),
        format!("compare {record} {record}"),
    ] {
        let said = text(&line);
        assert!(said.contains("us"), "{line}: {said}");
        // The head of compare names both units.
        let figures: Vec<&str> = said.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!figures.join("\n").contains("GB/s"), "{line}: {said}");
    }
}

/// What two H200 gave: three results, a line each.
#[test]
fn transports_with_their_limits() {
    let folder = Folder::new();
    let kept =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/data/h200x2-transports.jsonl");
    let data = folder.data(&kept.display().to_string());
    assert_eq!(data["sweeps"].as_array().unwrap().len(), 3);
    let p2p = &data["series"][0];
    assert_eq!(p2p["name"], "p2p (Transports 1)");
    assert!((p2p["lines"][0]["busbw"].as_f64().unwrap() - 450.0).abs() < 0.1, "{}", p2p["lines"]);
    let last = data["sweeps"][0]["sizes"].as_array().unwrap().last().unwrap();
    let cells: Vec<&Value> =
        last["cells"].as_array().unwrap().iter().filter(|c| c.is_object()).collect();
    assert_eq!(cells[0]["multiple"], 1.0);
    assert!(cells[1]["multiple"].as_f64().unwrap() < 0.1 && cells[1]["against"] == "slower");
}

#[test]
fn without_a_file_the_newest_run() {
    let folder = Folder::new();
    assert!(folder.refusal("report -o page.html").contains("no"));
    folder.busbw("broadcast --backend fake -g 2 -b 8 -e 8 -n 2");
    assert_eq!(folder.data("")["title"], "broadcast");
    let records = fs::read_dir(folder.at("busbw/runs")).unwrap();
    let name = records.flatten().next().unwrap().file_name().into_string().unwrap();
    let id = name.strip_suffix(".jsonl").unwrap();
    assert_eq!(folder.data(id)["title"], "broadcast");
}

#[test]
fn what_was_not_read_is_said() {
    let folder = Folder::new();
    let text = fs::read_to_string(log("8x-h800-nvlink-all-reduce.txt")).unwrap();
    folder.file("cut.txt", format!("Good morning.\n{text}"));
    let data = folder.data("cut.txt");
    let said = data["unread"][0].as_str().unwrap();
    assert!(said.starts_with("cut.txt: 1 of ") && said.contains("were not recognised"), "{said}");
}

#[test]
fn an_output_is_not_lost() {
    let folder = Folder::new();
    folder.record("a.jsonl");
    folder.file("page.html", "mine");
    assert!(folder.refusal("report a.jsonl -o page.html").contains("--force"));
    assert_eq!(fs::read_to_string(folder.at("page.html")).unwrap(), "mine");
    assert!(folder.refusal("report a.jsonl -o .").contains("folder"));
    assert!(folder.refusal("report a.jsonl -o no/such/page.html").contains("no/such/page.html"));
    let said = folder.refusal("report a.jsonl --force -o no/such/page.html");
    assert!(said.contains("the folder no/such does not exist") && !said.contains(".tmp"), "{said}");
    let done = folder.busbw("report a.jsonl -o -");
    assert!(
        done.status.success() && done.stdout.starts_with(b"<!doctype html>"),
        "{:?}",
        done.stderr
    );
    assert!(!folder.at("-").exists());
}

#[test]
fn bad_input_is_one_line() {
    let folder = Folder::new();
    fs::create_dir(folder.at("folder")).unwrap();
    folder.file("empty", "");
    folder.file("binary", b"\x7fELF\x02\x01\x00\x00");
    folder.file("binary.json", b"\xff\xfe\x00\x01");
    folder.file("latin.txt", b"caf\xe9 au lait\n");
    folder.file("prose.txt", "Nothing was measured here.\n");
    folder.file("cut.json", "{\"sweep_schema\":1,");
    folder.file("newer.jsonl", "{\"kind\":\"run\",\"schema\":99}\n");
    folder.file("newer-sweep.json", "{\"sweep_schema\":99}");
    folder.file(
        "newer-pairs.json",
        r#"{"pairs_schema":9,"labels":[],"size":1,"unit":"us","values":[]}"#,
    );
    folder.file(
        "torn-pairs.json",
        r#"{"pairs_schema":1,"labels":["a"],"size":1,"unit":"us","values":[]}"#,
    );
    for (name, word) in [
        ("folder", "folder"),
        ("empty", "empty"),
        ("binary", "is binary"),
        ("binary.json", "binary.json"),
        ("latin.txt", "latin.txt"),
        ("prose.txt", "not a log"),
        ("cut.json", "cut.json"),
        ("newer.jsonl", "schema 99"),
        ("newer-sweep.json", "newer-sweep.json"),
        ("newer-pairs.json", "newer one"),
        ("torn-pairs.json", "do not fit"),
        ("missing", "missing"),
    ] {
        let said = folder.refusal(&format!("report {name} -o page.html"));
        assert!(said.contains(word), "{name}: {said}");
        assert!(!folder.at("page.html").exists(), "{name}");
    }
}

#[test]
fn rows_that_are_left_out_are_said() {
    let folder = Folder::new();
    let head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    let row = "8 2 float sum -1 3.0 0.00 0.00 0 3.0 0.00 0.00 0\n";
    folder.file("long.log", format!("{head}{}", row.repeat((1 << 16) + 7)));
    let data = folder.data("long.log");
    let said = data["unread"].to_string();
    assert!(said.contains("7 rows beyond the first 65536"), "{said}");
}

/// Names of others cannot move the cursor, colour the terminal, or break a drawing.
#[test]
fn names_with_control_characters_are_seen() {
    let folder = Folder::new();
    folder.record("a.jsonl");
    let record = fs::read_to_string(folder.at("a.jsonl")).unwrap();
    let hostile = record
        .replace("\"name\":\"fake\"", "\"name\":\"f\\u001b]0;x\\u0007\\u0001\\u009b2J\\u202e\"");
    assert_ne!(record, hostile);
    fs::create_dir_all(folder.at("busbw/runs")).unwrap();
    folder.file("busbw/runs/20261120-100000-x-1.jsonl", hostile);
    let run = "busbw/runs/20261120-100000-x-1.jsonl";
    for line in [
        "list".to_owned(),
        format!("import {run}"),
        format!("show {run}"),
        format!("show {run} --plot"),
        format!("compare {run} {run}"),
        format!("explain {run}"),
        format!("report {run} --force -o page.html"),
    ] {
        let done = folder.busbw(&line);
        assert!(done.status.success(), "{line}: {done:?}");
        let text =
            String::from_utf8(done.stdout).unwrap() + &String::from_utf8(done.stderr).unwrap();
        let odd =
            text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
        assert_eq!(odd, None, "{line}: {text:?}");
        let named = !line.contains("compare") && !line.starts_with("report");
        assert!(!named || text.contains("f\\u001b]0;x"), "{line}: {text}");
    }
}

/// The newest run is the one that began last, wherever its file came from; a pipe is no record.
#[test]
fn runs_are_listed_by_when_they_began() {
    let folder = Folder::new();
    folder.record("a.jsonl");
    let record = fs::read_to_string(folder.at("a.jsonl")).unwrap();
    let first: Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    let started = first["started"].as_str().unwrap();
    let runs = folder.at("busbw/runs");
    fs::create_dir_all(&runs).unwrap();
    // Written in another order than they were measured in.
    for (name, time) in [
        ("new", "2026-11-20 10:00:00"),
        ("old", "2026-11-18 10:00:00"),
        ("mid", "2026-11-19 10:00:00"),
    ] {
        fs::write(runs.join(format!("{name}.jsonl")), record.replace(started, time)).unwrap();
    }
    assert!(Command::new("mkfifo").arg(runs.join("pipe.jsonl")).status().unwrap().success());
    let ids = |line: &str| -> Vec<String> {
        let done = folder.busbw(line);
        assert!(done.status.success(), "{line}: {done:?}");
        let text = String::from_utf8(done.stdout).unwrap();
        let id = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
        };
        text.lines().map(id).collect()
    };
    assert_eq!(ids("list --json"), ["old", "mid", "new"]);
    assert_eq!(ids("list --json -n 1"), ["new"]);
    assert_eq!(ids("list --json --since 2026-11-19"), ["mid", "new"]);
    assert_eq!(ids("list --json --since 2026-11-19T10:01"), ["new"]);
    assert!(folder.refusal("list --since tuesday").contains("--since tuesday is no time"));
    assert_eq!(
        folder.data("")["runs"][0]["source"].as_str().map(|s| s.ends_with("new.jsonl")),
        Some(true)
    );
}

/// A run of several launches that was killed: its rows are in no table, and that is said.
#[test]
fn rows_of_unfinished_launches_are_said() {
    let folder = Folder::new();
    let line = "all_reduce --backend fake -g 2 -b 8 -e 64 -f 2 -n 2 --repeat 3 --record a.jsonl";
    assert!(folder.busbw(line).status.success());
    let record = fs::read_to_string(folder.at("a.jsonl")).unwrap();
    let early: Vec<&str> = record
        .lines()
        .filter(|line| !line.contains("\"shown\":true") && !line.contains("\"kind\":\"end\""))
        .collect();
    let rows = early.iter().filter(|line| line.contains("\"kind\":\"row\"")).count();
    assert!(rows > 0, "{record}");
    fs::create_dir_all(folder.at("busbw/runs")).unwrap();
    folder.file("busbw/runs/killed.jsonl", early.join("\n") + "\n");
    let listed = String::from_utf8(folder.busbw("list").stdout).unwrap();
    assert!(listed.contains(&format!("{rows} rows of launches before the last")), "{listed}");
    let shown = String::from_utf8(folder.busbw("show killed").stderr).unwrap();
    assert!(shown.contains(&format!("{rows} rows of launches before the last")), "{shown}");
}

#[test]
fn drawings() {
    let folder = Folder::new();
    folder.record("a.jsonl");
    let plot = folder.busbw("show a.jsonl --plot");
    let text = String::from_utf8(plot.stdout).unwrap();
    assert!(plot.status.success() && text.contains("1 GiB") && text.contains("in place"), "{text}");
    assert!(!text.contains('\x1b'), "colours where nobody sees them");
}
