//! The report of nccl-tests' `-J` (src/util.cu, JSON_FILE_VERSION 1 to 3).
//! Not the table, and not which JSON it is (`json`).

use std::collections::BTreeMap;

use crate::measurement::{
    self, Device, Form, Known, Measurement, Row, Source, Test, first_group, hosts_of,
};
use busbw_core::{DataType, record::Figures};
use serde_json::Value;

use super::nccl_tests::collective_in;

/// A report; none where it has no results.
pub(super) fn report(head: &Value, name: &str) -> Option<Measurement> {
    let config = head.get("config")?;
    let program = head.pointer("/args/0").and_then(Value::as_str).unwrap_or_default();
    let arguments: Vec<&str> = head
        .get("args")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let code =
        head.get("nccl_version").and_then(Value::as_u64).and_then(|code| u32::try_from(code).ok());
    let devices = config.get("devices").and_then(Value::as_array).into_iter().flatten();
    // `-g 8` lists one device instead of 8: the list says nothing about the ranks then.
    let per_process = ["ngpus", "nthreads"]
        .iter()
        .filter_map(|key| config.get(key).and_then(Value::as_u64))
        .product::<u64>();
    let devices: Vec<Device> = devices.filter_map(device).collect();
    // Results are those of rank 0's communicator.
    let first = first_group(&devices);
    let listed = (per_process == 1 && !first.is_empty()).then_some(first.len());
    let hosts = hosts_of(first);
    let average = ["/average_bus_bandwidth/bandwidth", "/average_bus_bandwidith/bandwidith"];
    let mut measurement = Measurement {
        source: Source { name: name.to_owned(), line: 0, form: Form::NcclTestsJson, version: None },
        test: Test {
            name: program.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned),
            collective: collective_in(program).map(Known::stated),
            ..Test::default()
        },
        ranks: listed.map(Known::stated),
        hosts,
        devices,
        nccl: code.map(measurement::version_text),
        options: options(config),
        started: head.get("start_time").and_then(Value::as_str).map(str::to_owned),
        command: Some(arguments.join(" ")).filter(|command| !command.is_empty()),
        rows: head.get("results")?.as_array()?.iter().filter_map(row).collect(),
        out_of_bounds: head.pointer("/out_of_bounds/count").and_then(Value::as_u64),
        stated_average: average.iter().find_map(|key| head.pointer(key)?.as_f64()),
        errors: head
            .get("errors")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|error| !error.is_empty())
            .map(str::to_owned)
            .take(16)
            .collect(),
        ..Measurement::default()
    };
    measurement.settle_groups();
    measurement::deduce(&mut measurement);
    Some(measurement)
}

/// How it was measured, by the options' names.
fn options(config: &Value) -> BTreeMap<String, String> {
    [
        ("-t", "nthreads"),
        ("-g", "ngpus"),
        ("-n", "iterations"),
        ("-m", "aggregated_iterations"),
        ("-w", "warmup_iters"),
        ("-c", "validation"),
        ("-G", "graph"),
    ]
    .iter()
    .filter_map(|(option, key)| {
        Some(((*option).to_owned(), config.get(key)?.as_u64()?.to_string()))
    })
    .collect()
}

fn device(value: &Value) -> Option<Device> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |key: &str| value.get(key)?.as_u64().and_then(|n| usize::try_from(n).ok());
    Some(Device {
        rank: number("rank")?,
        host: text("hostname"),
        device: number("device")?,
        address: text("device_hex"),
        name: text("device_info"),
        group: value.get("group").and_then(Value::as_u64),
    })
}

fn row(value: &Value) -> Option<Row> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::trim);
    let root = text("root").and_then(|root| root.parse().ok()).filter(|root: &i64| *root >= 0);
    Some(Row {
        size: value.get("size")?.as_u64()?,
        count: value.get("count").and_then(Value::as_u64),
        datatype: text("type").and_then(DataType::from_name),
        op: text("redop").filter(|op| !op.is_empty() && *op != "none").map(str::to_owned),
        root,
        out_of_place: value.get("out_of_place").and_then(half),
        in_place: value.get("in_place").and_then(half),
        ..Row::default()
    })
}

fn half(value: &Value) -> Option<Figures> {
    let figure = |key: &str| value.get(key)?.as_f64();
    Some(Figures {
        time_us: figure("time").or_else(|| figure("cpu_time")),
        rounding_us: 0.5e-6,
        algbw: figure("alg_bw"),
        busbw: Some(figure("bus_bw")?),
        wrong: figure("nwrong").filter(|wrong| *wrong >= 0.0).map(|wrong| wrong as u64),
        ..Figures::default()
    })
}
