//! The strict comparison of `-J` reports: the same keys in the same order, values of the same form,
//! and the same values where they do not depend on time.
//! Not a reader for others: it keeps keys in order and numbers as text, which serde_json does not.

use super::{
    run::{Backend, Case},
    table::digits,
};

/// A JSON value as it was written.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Object(Vec<(String, Value)>),
    List(Vec<Value>),
    /// With its escapes as they are.
    Text(String),
    /// A number, true, false or null.
    Word(String),
}

/// Everything that is not as expected.
pub fn compare(expected: &str, got: &str, case: &Case, backend: Backend) -> Vec<String> {
    let (Some(mut expected), Some(mut got)) = (parse(expected), parse(got)) else {
        return vec![format!("the report is no JSON:\n{got}")];
    };
    own_arguments(&mut got, case);
    only_what_matters_of_the_environment(&mut expected, case);
    every_rank_is_a_device(&mut expected, case);
    graph_is_waived(&mut expected, backend);
    failed_gate_without_an_average(&mut expected, case);
    one_error(&mut expected, case);
    let mut found = Vec::new();
    if backend == Backend::Host {
        every_device_is_a_process(&mut got, case, &mut found);
    }
    walk("", &expected, &got, &mut found);
    found
}

fn walk(path: &str, want: &Value, got: &Value, found: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            let keys = |members: &[(String, Value)]| {
                members.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>()
            };
            if keys(want) != keys(got) {
                found.push(format!("{path}: keys {:?} instead of {:?}", keys(got), keys(want)));
                return;
            }
            for ((key, want), (_, got)) in want.iter().zip(got) {
                walk(&format!("{path}/{key}"), want, got, found);
            }
        }
        (Value::List(want), Value::List(got)) if want.len() == got.len() => {
            for (want, got) in want.iter().zip(got) {
                walk(path, want, got, found);
            }
        }
        _ if alike(path, want, got) => {}
        _ => found.push(format!("{path}: {got:?}, not like {want:?}")),
    }
}

/// Whether two plain values are the same, or of the same form where they depend on time, on the
/// library or on the machine.
fn alike(path: &str, want: &Value, got: &Value) -> bool {
    let decimals =
        |word: &str| word.parse::<f64>().ok().and_then(|_| Some(word.split_once('.')?.1.len()));
    match (want, got) {
        (Value::Text(want), Value::Text(got)) => match path {
            "/start_time" | "/end_time" | "/config/devices/device_hex" => {
                digits(want) == digits(got)
            }
            "/config/devices/hostname" | "/config/devices/device_info" => !got.is_empty(),
            _ => want == got,
        },
        (Value::Word(want), Value::Word(got)) => match path {
            "/nccl_version" | "/config/devices/pid" => got.parse::<u32>().is_ok(),
            "/config/devices/device" => got.parse::<u32>().is_ok(),
            _ if path.ends_with("/nwrong") => want == got,
            _ => match decimals(want) {
                Some(_) => decimals(want) == decimals(got),
                None => want == got,
            },
        },
        _ => false,
    }
}

fn member<'v>(value: &'v mut Value, path: &[&str]) -> &'v mut Value {
    path.iter().fold(value, |value, key| match value {
        Value::Object(members) => {
            &mut members.iter_mut().find(|(k, _)| k == key).unwrap_or_else(|| panic!("no {key}")).1
        }
        other => panic!("{other:?} has no {key}"),
    })
}

fn list(value: &mut Value) -> &mut Vec<Value> {
    match value {
        Value::List(values) => values,
        other => panic!("{other:?} is no list"),
    }
}

/// Not a difference: ours was called by another path and with options of its own in front.
fn own_arguments(got: &mut Value, case: &Case) {
    let arguments = list(member(got, &["args"]));
    let theirs = arguments.len() - case.arguments.len();
    arguments.drain(..theirs);
    arguments.insert(0, Value::Text(case.program.clone()));
}

/// Theirs holds the whole environment with every secret in it; ours the variables that change
/// results, and no value of a secret.
fn only_what_matters_of_the_environment(expected: &mut Value, case: &Case) {
    let mut kept = vec!["NCCL_API_TOKEN=***".to_owned(), "NCCL_DEBUG=WARN".to_owned()];
    let theirs = case.variables.iter().filter(|(name, _)| name.starts_with("NCCL_"));
    kept.extend(theirs.map(|(name, value)| format!("{name}={value}")));
    kept.sort();
    *member(expected, &["env"]) = Value::List(kept.into_iter().map(Value::Text).collect());
}

/// Theirs lists the first device of a process only; ours all.
fn every_rank_is_a_device(expected: &mut Value, case: &Case) {
    let devices = list(member(expected, &["config", "devices"]));
    assert_eq!(devices.len(), 1, "the original lists one device");
    devices.resize(case.ranks(), devices[0].clone());
    for (rank, device) in devices.iter_mut().enumerate() {
        *member(device, &["rank"]) = Value::Word(rank.to_string());
    }
}

/// There are no CUDA graphs in host memory.
fn graph_is_waived(expected: &mut Value, backend: Backend) {
    if backend == Backend::Host {
        *member(expected, &["config", "graph"]) = Value::Word("0".to_owned());
    }
}

/// A missing average passes no gate: their table says OK then and their report "false"; both of ours
/// say that it failed.
fn failed_gate_without_an_average(expected: &mut Value, case: &Case) {
    if case.name == "J_minbw_nan" {
        let okay = member(expected, &["average_bus_bandwidth", "okay"]);
        assert_eq!(*okay, Value::Text("false".to_owned()));
    }
}

/// Not a difference: their library was told to make STUB_WRONG errors, ours to make one.
fn one_error(expected: &mut Value, case: &Case) {
    if case.variable("STUB_WRONG").is_none() {
        return;
    }
    for row in list(member(expected, &["results"])) {
        for half in ["out_of_place", "in_place"] {
            *member(row, &[half, "nwrong"]) = Value::Word("1.000000".to_owned());
        }
    }
}

/// Theirs has a list of times for every process when there are several, and -g devices are one
/// process; in host memory they are -g processes. Their number is checked and the lists removed.
fn every_device_is_a_process(got: &mut Value, case: &Case, found: &mut Vec<String>) {
    let processes: usize = case.value("-g").map_or(1, |g| g.parse().unwrap());
    for row in list(member(got, &["results"])) {
        let Value::Object(members) = row else { panic!("a result is no object") };
        for (name, report) in members.iter_mut().filter(|(key, _)| key.ends_with("_per_iter")) {
            let iterations = list(member(report, &["times_us"])).len();
            let Value::Object(members) = report else { panic!("{name} is no object") };
            let Some((_, mut lists)) = members.pop_if(|(k, _)| k == "per_process_max_times_us")
            else {
                found.push(format!("{name} ends without per_process_max_times_us"));
                continue;
            };
            let lengths: Vec<usize> = list(&mut lists).iter_mut().map(|l| list(l).len()).collect();
            if lengths != vec![iterations; processes] {
                found.push(format!("{name} lists {lengths:?} times for {processes} processes"));
            }
        }
    }
}

fn parse(text: &str) -> Option<Value> {
    let mut rest = text;
    let parsed = value(&mut rest)?;
    rest.is_empty().then_some(parsed)
}

/// One value from the front of `rest`. There are no blanks between tokens in either report.
fn value(rest: &mut &str) -> Option<Value> {
    match rest.chars().next()? {
        '{' => {
            let members = sequence(rest, '}', |rest| {
                let key = text(rest)?;
                *rest = rest.strip_prefix(':')?;
                Some((key, value(rest)?))
            })?;
            Some(Value::Object(members))
        }
        '[' => sequence(rest, ']', value).map(Value::List),
        '"' => text(rest).map(Value::Text),
        _ => {
            let end = rest.find([',', '}', ']'])?;
            let (word, after) = rest.split_at(end);
            *rest = after;
            let known = matches!(word, "true" | "false" | "null") || word.parse::<f64>().is_ok();
            known.then(|| Value::Word(word.to_owned()))
        }
    }
}

fn sequence<T>(
    rest: &mut &str,
    close: char,
    mut item: impl FnMut(&mut &str) -> Option<T>,
) -> Option<Vec<T>> {
    *rest = &rest[1..];
    let mut items = Vec::new();
    if let Some(after) = rest.strip_prefix(close) {
        *rest = after;
        return Some(items);
    }
    loop {
        items.push(item(rest)?);
        if let Some(after) = rest.strip_prefix(',') {
            *rest = after;
        } else {
            *rest = rest.strip_prefix(close)?;
            return Some(items);
        }
    }
}

fn text(rest: &mut &str) -> Option<String> {
    let inside = rest.strip_prefix('"')?;
    let mut escaped = false;
    let end = inside.find(|c| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    })?;
    *rest = &inside[end + 1..];
    Some(inside[..end].to_owned())
}

#[test]
fn finds_what_differs() {
    let same = |a: &str, b: &str| {
        let mut found = Vec::new();
        walk("", &parse(a).unwrap(), &parse(b).unwrap(), &mut found);
        found.is_empty()
    };
    assert!(same(r#"{"a":1.000000,"b":["x\"",null]}"#, r#"{"a":2.500000,"b":["x\"",null]}"#));
    for other in [
        r#"{"b":["x\"",null],"a":1.000000}"#,
        r#"{"a":1.00000,"b":["x\"",null]}"#,
        r#"{"a":1,"b":["x\"",null]}"#,
        r#"{"a":"1.000000","b":["x\"",null]}"#,
        r#"{"a":1.000000,"b":["y",null]}"#,
        r#"{"a":1.000000,"b":["x\""]}"#,
    ] {
        assert!(!same(r#"{"a":1.000000,"b":["x\"",null]}"#, other), "{other}");
    }
    assert_eq!(parse(r#"{"a":1"#), None);
}
