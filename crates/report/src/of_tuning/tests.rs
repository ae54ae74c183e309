//! The page's data of a small tuning whose figures are known by hand.
//! Not whether its recommendation holds (`busbw-tune`).

use serde_json::{Value, json};

use super::*;
use crate::{KnownNames, Sources, data::Level, page, redacted, report};
use busbw_analysis::explain::Hardware;

fn compared(gain: f64, low: f64, high: f64, p: f64) -> Value {
    let interval = json!({"low": low, "high": high, "coverage": 0.96});
    json!({"gain": gain, "interval": interval, "p": p, "decides_below": 0.0006, "launches": [7, 7]})
}

fn sets(value: &str) -> Value {
    json!([{"name": "NCCL_BUFFSIZE", "value": value}, {"name": "NCCL_ALGO", "value": null}])
}

/// Two calls: the defaults take 4 and 8 us, the recommendation half of each.
fn launch(number: u64, purpose: Value, environment: Value, speed: f64) -> Value {
    let time =
        |size: u64, us: f64| json!({"operation": "all_reduce", "size": size, "seconds": us * 1e-6});
    let times = [time(8, 4.0 / speed), time(1 << 20, 8.0 / speed)];
    json!({"number": number, "environment": environment, "purpose": purpose, "took_s": 1.0, "times": times, "failed": null})
}

fn tuning_json() -> Value {
    let mut crashed = launch(3, json!({"rung": 1}), sets("1"), 1.0);
    crashed["times"] = json!([]);
    crashed["failed"] = json!({"failure": "crashed", "text": "a signal ended it"});
    let at = |size: u64, compared: Value| json!({"operation": "all_reduce", "size": size, "default_s": 4e-6, "with_it_s": 2e-6, "compared": compared});
    let step =
        |value: &str, gain: Value| json!({"sets": sets(value), "gain": gain, "failed": null});
    let own = |name: &str, compared: Value| json!({"variable": {"name": name, "value": "8 M"}, "compared": compared});
    json!({
        "tune_schema": 1, "busbw": "0.1.0", "started": "2026-11-25 18:00:00",
        "args": ["tune", "all_reduce", "-x", "NCCL_IB_TC=unset,106"],
        "is_ladder": true, "backend": "nccl", "ranks": 8, "nccl": "2.32.3", "took_s": 12.4, "interrupted": false,
        "parts": [{"name": "as it is", "sets": [], "said": ["3.1 GB/s at 256 MiB"]}],
        "before": [{"rule": "gdr-off", "severity": "slow", "cause": "GPUDirect RDMA is off", "evidence": [], "remedy": "load nvidia-peermem"}],
        "variables_left_out": [{"name": "NCCL_IB_SL", "reason": "only with -x"}],
        "rungs_left_out": [{"name": "rails", "reason": "one host"}],
        "outcome": {
            "advice": "set", "environment": sets("8 M"),
            "best": {"environment": sets("8 M"), "compared": compared(1.0, 0.9, 1.1, 0.0005)}, "within": 1.1,
            "variables": [
                own("NCCL_BUFFSIZE", compared(0.5, 0.4, 0.6, 0.03)),
                own("NCCL_PROTO", compared(0.01, -0.1, 0.1, 0.9)),
                own("NCCL_NTHREADS", Value::Null),
            ],
            "calls": [
                at(8, compared(-0.2, -0.3, -0.1, 0.0005)),
                at(1 << 20, compared(1.0, 0.9, 1.1, 0.0005)),
                at(1 << 30, compared(0.01, -0.1, 0.1, 0.5)),
            ],
            "choices": [],
            "rungs": [
                {"name": "buffer size", "steps": [step("1", Value::Null), step("4", json!(0.3)), step("8 M", json!(0.9))],
                 "compared": compared(1.0, 0.9, 1.1, 0.008), "kept": sets("8 M")},
                {"name": "channels", "steps": [step("2", json!(-0.01))], "compared": null, "kept": []},
            ],
            "rungs_unreached": ["relaxed ordering"],
            "disqualified": [{"trial": 3, "environment": sets("1"), "failure": "crashed", "text": "a signal ended it"}],
            "suspected": [{"values": sets("1"), "failed": 2}],
            "trials": 5,
        },
        "by_call": null, "tuner_file": [], "with_file": null, "file_settings": [], "remains": ["half of the limit remains"],
        "history": [
            launch(0, json!("baseline"), json!([]), 1.0),
            launch(1, json!({"final": 0}), json!([]), 1.0),
            launch(2, json!({"final": 1}), sets("8 M"), 2.0),
            crashed,
            launch(4, json!("explore"), json!([]), 0.9),
        ],
        "history_by_call": [], "history_with_file": [],
    })
}

fn tuned(value: &Value) -> Tuned {
    busbw_tune::tuned::read(&value.to_string()).unwrap()
}

#[test]
fn launches_are_held_against_the_median_of_the_defaults() {
    let tuning = tuning("Tuning", &tuned(&tuning_json()));
    let near = |gain: Option<f64>, wanted: f64| (gain.unwrap() - wanted).abs() < 1e-9;
    let [baseline, again, winner, crashed, slow] = tuning.launches.as_slice() else { panic!() };
    assert!(near(baseline.gain, 0.0) && near(again.gain, 0.0), "{:?}", tuning.launches);
    assert!(near(winner.gain, 1.0) && near(slow.gain, -0.1), "{:?}", tuning.launches);
    assert_eq!((winner.number, winner.kind), (3, LaunchKind::Final));
    assert_eq!(crashed.gain, None);
    assert_eq!(crashed.failed.as_deref(), Some("crashed: a signal ended it"));
    assert_eq!(crashed.sets, "NCCL_BUFFSIZE=1 NCCL_ALGO not set");
}

#[test]
fn the_final_comparison_line_by_line() {
    let tuning = tuning("Tuning", &tuned(&tuning_json()));
    let lines: Vec<String> = tuning
        .sides
        .iter()
        .map(|side| {
            let gain = side.gain.map_or("-".to_owned(), |gain| gain.text());
            format!("{}: {} {} {gain}, {}", side.name, side.default(), side.with_it(), side.status)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    the recommendation:   +100.0 % (90.0 to 110.0), faster
    NCCL_BUFFSIZE=8 M:   +50.0 % (40.0 to 60.0), faster
    NCCL_PROTO=8 M:   +1.0 % (-10.0 to 10.0), not decided
    NCCL_NTHREADS=8 M:   -, not measured
    all_reduce 8 B: 4.00 µs 2.00 µs -20.0 % (-30.0 to -10.0), slower
    all_reduce 1 MiB: 4.00 µs 2.00 µs +100.0 % (90.0 to 110.0), faster
    all_reduce 1 GiB: 4.00 µs 2.00 µs +1.0 % (-10.0 to 10.0), not decided
    ");
    let rungs: Vec<String> = tuning
        .rungs
        .iter()
        .map(|one| {
            let gain = one.gain.map_or("-".to_owned(), |gain| gain.text());
            format!("{}: {}, {}, {gain}, {}", one.name, one.steps, one.kept, one.best)
        })
        .collect();
    insta::assert_snapshot!(rungs.join("\n"), @r"
    buffer size: 3, yes, +100.0 % (90.0 to 110.0), NCCL_BUFFSIZE=8 M NCCL_ALGO not set
    channels: 1, no, -1.0 %, NCCL_BUFFSIZE=2 NCCL_ALGO not set
    relaxed ordering: 0, waived, -, no launches were left: --time, --trials
    rails: 0, waived, -, one host
    ");
    assert_eq!(tuning.set.as_deref(), Some("export NCCL_BUFFSIZE='8 M'\nunset NCCL_ALGO"));
}

#[test]
fn the_first_screen_says_what_to_do() {
    let mut value = tuning_json();
    let told = |value: &Value| answer("Tuning", &tuned(value));
    let losing = told(&value);
    assert_eq!(losing.level, Level::Slow);
    assert_eq!((losing.figure.as_deref(), losing.unit.as_deref()), (Some("+100.0"), Some("%")));
    let remedy = losing.remedy.unwrap();
    assert!(remedy.text.contains("all_reduce 8 B: slower there"), "{}", remedy.text);
    assert!(remedy.command.unwrap().starts_with("export NCCL_BUFFSIZE="));
    value["outcome"]["calls"] = json!([]);
    assert_eq!(told(&value).word, "Faster settings found");
    value["outcome"]["advice"] = json!("leave");
    value["outcome"]["environment"] = json!([]);
    let leave = told(&value);
    assert_eq!(
        (leave.level, leave.word.as_str(), leave.figure),
        (Level::Good, "Leave the defaults", None)
    );
    assert_eq!(leave.remedy.unwrap().command, None);
    value["outcome"]["advice"] = json!("undecided");
    assert_eq!(told(&value).level, Level::Unknown);
    value["outcome"]["advice"] = json!("repair");
    let repair = told(&value);
    assert_eq!(repair.level, Level::Bad);
    assert!(repair.remedy.unwrap().text.contains("a signal ended it"));
    value["outcome"] = Value::Null;
    assert_eq!(told(&value).word, "Interrupted");
}

/// Where a tuner's file is recommended beside the environment, the first screen is of both together.
#[test]
fn a_tuners_file_is_set_beside_the_environment() {
    let mut value = tuning_json();
    let mut with_file = value["outcome"].clone();
    with_file["best"]["compared"]["gain"] = json!(1.2);
    with_file["calls"] = json!([]);
    value["with_file"] = with_file;
    value["tuner_file"] = json!(["allreduce,8,8,tree,ll,0,1,8"]);
    let without = answer("Tuning", &tuned(&value));
    assert_eq!((without.level, without.figure.as_deref()), (Level::Slow, Some("+100.0")));
    assert_eq!(tuning("Tuning", &tuned(&value)).file.unwrap().set, None);
    value["file_settings"] = json!([{"name": "BUSBW_TUNER", "value": "tuner.csv#sha256=00"}]);
    let both = answer("Tuning", &tuned(&value));
    assert_eq!((both.level, both.figure.as_deref()), (Level::Good, Some("+120.0")));
    let command = both.remedy.unwrap().command.unwrap();
    for line in ["export NCCL_BUFFSIZE=", "$(busbw plugin path tuner)", "BUSBW_TUNER="] {
        assert!(command.contains(line), "no {line} in {command}");
    }
}

/// Whoever a tuning names is gone from every text of its section.
#[test]
fn nobody_is_named_on_a_redacted_page() {
    let mut value = tuning_json();
    value["args"] = json!(["tune", "all_reduce", "-H", "gn07:8,gn08:8"]);
    value["before"][0]["cause"] = json!("gn07 has a slow NIC");
    value["remains"] = json!(["on gn08 the path of 10.20.30.41 remains"]);
    value["outcome"]["disqualified"][0]["text"] = json!("gn08: cannot open /home/alyssa/topo.xml");
    value["history"][3]["failed"]["text"] = json!("gn08: cannot open /home/alyssa/topo.xml");
    value["outcome"]["environment"][0]["value"] = json!("/home/alyssa/libnccl-net.so");
    value["history"][2]["environment"][0]["value"] = json!("/home/alyssa/libnccl-net.so");
    value["outcome"]["rungs"][0]["steps"][2]["sets"][0]["value"] =
        json!("/home/alyssa/libnccl-net.so");
    let made = |is_redacted: bool| {
        let sources = Sources { tunings: vec![tuned(&value)], ..Sources::default() };
        let known = KnownNames::of(&sources);
        let whole = report(sources, &Hardware::default(), None);
        if is_redacted { redacted(whole, &known).unwrap() } else { whole }
    };
    let secrets = ["gn07", "gn08", "alyssa", "10.20.30.41"];
    let whole = serde_json::to_string(&made(false)).unwrap();
    assert!(secrets.iter().all(|secret| whole.contains(secret)), "{whole}");
    let report = made(true);
    let data = serde_json::to_string(&report).unwrap();
    let page = page(&report).unwrap();
    for secret in secrets {
        assert!(!data.contains(secret) && !page.contains(secret), "{secret} in {data}");
    }
    assert_eq!(report.tunings[0].launches[2].gain, made(false).tunings[0].launches[2].gain);
    assert_eq!(report.tunings[0].sides[0].status, "faster");
}

/// A tuning under way and one of another form are refused with what to do.
#[test]
fn what_is_no_result_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune.json");
    let refused = |value: Value| {
        std::fs::write(&path, value.to_string()).unwrap();
        format!("{:#}", Sources::read([path.as_path()]).unwrap_err())
    };
    // The order of keys tells what a file is.
    let first = |rest: &str| format!("{{\"tune_schema\": 1, {rest}}}");
    std::fs::write(&path, first("\"search\": {}")).unwrap();
    let under_way = format!("{:#}", Sources::read([path.as_path()]).unwrap_err());
    assert!(under_way.contains("busbw tune --resume"), "{under_way}");
    let other = refused(json!({"tune_schema": 99}));
    assert!(other.contains("form 99, and this busbw reads 1"), "{other}");
    let torn = refused(json!({"tune_schema": 1}));
    assert!(torn.contains("lacks parts"), "{torn}");
}

/// Every number of a result from outside, made absurd: the page is made all the same.
#[test]
fn absurd_numbers_do_no_harm() {
    fn numbers(value: &Value, at: String, found: &mut Vec<String>) {
        match value {
            Value::Number(_) => found.push(at),
            Value::Array(all) => {
                all.iter()
                    .enumerate()
                    .for_each(|(n, one)| numbers(one, format!("{at}/{n}"), found));
            }
            Value::Object(all) => {
                all.iter().for_each(|(key, one)| numbers(one, format!("{at}/{key}"), found));
            }
            _ => {}
        }
    }
    let whole = tuning_json();
    let mut places = Vec::new();
    numbers(&whole, String::new(), &mut places);
    let mut read = 0;
    for place in &places {
        for absurd in [json!(0), json!(-1.0), json!(1e308), json!(5e-324), json!(u64::MAX)] {
            let mut value = whole.clone();
            *value.pointer_mut(place).unwrap() = absurd;
            let Some(tuned) = busbw_tune::tuned::read(&value.to_string()) else { continue };
            read += 1;
            let sources = Sources { tunings: vec![tuned], ..Sources::default() };
            let report = report(sources, &Hardware::default(), None);
            let again = redacted(report, &KnownNames::default()).unwrap();
            assert_eq!(again.tunings.len(), 1, "{place}");
        }
    }
    assert!(places.len() > 50 && read > 2 * places.len(), "{read} of {}", places.len());
}
