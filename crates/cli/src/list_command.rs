//! `busbw list`: past runs, when, on what, how fast and how they ended.
//! Not one run's table (`show`), and not which of them is faster (`compare`).

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;
use busbw_core::{
    exit::Exit,
    printable::Printable,
    record::{Folded, Status},
};
use busbw_logs::measurement::{Figure, Measurement};
use jiff::{Span, Timestamp, Zoned, civil::DateTime, tz::TimeZone};
use serde::Serialize;

use crate::options::ListArguments;
use busbw_core::exit::ExitError;
use busbw_core::{
    columns::aligned,
    quantity::{bytes, count, rate, time},
};
use busbw_render::answer::{answer, json_line};
use busbw_store as store;
use busbw_store::ReadError;

/// A run as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    /// The name that other commands take.
    id: String,
    #[serde(flatten)]
    about: About,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum About {
    Run(Box<Summary>),
    /// A record that cannot be read, and why.
    Damaged {
        damaged: String,
    },
}

#[derive(Debug, Serialize)]
struct Summary {
    started: String,
    host: String,
    device: String,
    collective: String,
    ranks: usize,
    rows: usize,
    /// GB/s, and the size at which, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_busbw: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_size: Option<u64>,
    /// Of a latency test: microseconds of its smallest message, and the size, bytes.
    #[serde(skip)]
    latency: Option<(f64, u64)>,
    verdict: String,
}

/// Lists the records of the data folder, the newest last.
///
/// # Errors
/// There is no data folder, or stdout cannot be written.
pub fn run(arguments: &ListArguments) -> Result<Exit> {
    let since = match &arguments.since {
        Some(text) => Some(
            since(text, &Zoned::now())
                .ok_or_else(|| ExitError::new(Exit::Usage, not_a_time(text)))?,
        ),
        None => None,
    };
    let paths =
        store::last(usize::MAX).map_err(|e| ExitError::new(Exit::Usage, format!("{e:#}")))?;
    let mut listed: Vec<Listed> = paths
        .iter()
        .map(|path| read_record(path))
        .filter(|one| arguments.takes(one, since))
        .collect();
    let left_out = listed.len().saturating_sub(arguments.newest.unwrap_or(usize::MAX));
    listed.drain(..left_out);
    answer(|out, _| match arguments.json {
        true => listed.iter().try_for_each(|one| json_line(out, one)),
        false => print(out, &listed),
    })?;
    if paths.is_empty() {
        print_remark("there is no run yet: a benchmark leaves one, such as busbw all_reduce");
    } else if listed.is_empty() {
        print_remark(&format!("none of {} matches", count(paths.len() as u64, "run")));
    }
    Ok(Exit::Ok)
}

/// A time of the command line, on this machine's clock: a date, a date with a time (in a zone, if one is
/// named), or how long before `now`.
fn since(text: &str, now: &Zoned) -> Option<DateTime> {
    let text = text.trim();
    let zone = || TimeZone::system();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.to_zoned(zone()).datetime());
    }
    // A date alone is its midnight. What ends with Z is of no zone but UTC, and was read above.
    if !text.ends_with(['Z', 'z'])
        && let Ok(time) = text.parse::<DateTime>()
    {
        return Some(time);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let span: Span = text.parse().ok()?;
    now.checked_sub(span).ok().map(|time| time.datetime())
}

fn not_a_time(text: &str) -> String {
    format!(
        "--since {text} is no time: give a date (2026-11-20), a date with a time (2026-11-20T10:00, or 2026-11-20T10:00Z for UTC), or how long ago (2d, 3h, 30m)"
    )
}

fn read_record(path: &Path) -> Listed {
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let about = match store::read(path) {
        Ok(record) => About::Run(Box::new(summary(record))),
        Err(error) => About::Damaged { damaged: shorter(&error, path) },
    };
    Listed { id, about }
}

/// Why a record cannot be read, without its path, which stands beside it.
fn shorter(error: &ReadError, path: &Path) -> String {
    let text = error.to_string();
    let path = path.display().to_string();
    text.replace(&format!("{path}, "), "")
        .replace(&format!("{path}: "), "")
        .replace(&format!("{path} "), "")
}

fn summary(record: Folded) -> Summary {
    let verdict = match &record.end {
        None => {
            let pending = record.unsettled() as u64;
            let rows = match pending {
                0 => String::new(),
                _ => format!("; {} of launches before the last", count(pending, "row")),
            };
            format!("no end: killed, or still running{rows}")
        }
        Some(end) if end.out_of_bounds > 0 => {
            format!("WRONG data in {}", count(end.out_of_bounds, "check"))
        }
        Some(end) => match end.status {
            Status::Complete => "ok".to_owned(),
            Status::Interrupted => "interrupted".to_owned(),
            Status::ReaderGone => "reader gone".to_owned(),
            Status::Failed => format!("failed (exit {})", end.exit.code()),
        },
    };
    let (started, host) = (record.run.started.clone(), record.run.machine.host.clone());
    let run = Measurement::from_record(record, "");
    let peak = run.peak().map(|peak| (peak.figure(), peak.row.size));
    let is_latency = run.test.figure == Figure::Latency;
    let smallest = run.rows.iter().min_by_key(|row| row.size).filter(|_| is_latency);
    let latency = smallest.and_then(|row| Some((row.out_of_place.as_ref()?.time_us?, row.size)));
    let device = run.devices.first().map_or(String::new(), |device| device.name.clone());
    Summary {
        started,
        host,
        device,
        collective: run.test_name().to_owned(),
        ranks: run.rank_count().unwrap_or(0),
        rows: run.rows.len(),
        peak_busbw: peak.and_then(|(busbw, _)| busbw),
        peak_size: peak.map(|(_, size)| size),
        latency,
        verdict,
    }
}

impl ListArguments {
    fn takes(&self, one: &Listed, since: Option<DateTime>) -> bool {
        let has = |text: &str, part: &Option<String>| {
            part.as_ref().is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
        };
        match &one.about {
            About::Run(run) => {
                has(&run.collective, &self.collective)
                    && has(&format!("{} {}", run.host, run.device), &self.on)
                    && since.is_none_or(|since| {
                        run.started.parse::<DateTime>().is_ok_and(|started| started >= since)
                    })
                    && (!self.failed || run.verdict != "ok")
            }
            // Its test is not known: a filter by it leaves it out.
            About::Damaged { .. } => {
                self.collective.is_none() && self.on.is_none() && self.since.is_none()
            }
        }
    }
}

fn print(out: &mut impl Write, listed: &[Listed]) -> io::Result<()> {
    if listed.is_empty() {
        return Ok(());
    }
    let head = ["when", "collective", "ranks", "on", "rows", "best GB/s", "at", "verdict", "id"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for one in listed {
        lines.push(match &one.about {
            About::Run(run) => vec![
                run.started.clone(),
                run.collective.clone(),
                run.ranks.to_string(),
                format!("{} ({})", run.host, run.device),
                run.rows.to_string(),
                match run.latency {
                    Some((us, _)) => time(us),
                    None => run.peak_busbw.map_or("-".to_owned(), rate),
                },
                run.latency
                    .map(|(_, size)| size)
                    .or(run.peak_size)
                    .map_or("-".to_owned(), |size| bytes(size).replace(' ', "")),
                run.verdict.clone(),
                one.id.clone(),
            ],
            About::Damaged { damaged } => {
                let mut line = vec!["-".to_owned(); 7];
                line.extend([format!("DAMAGED: {damaged}"), one.id.clone()]);
                line
            }
        });
    }
    write!(out, "{}", aligned(&lines))
}

fn print_remark(text: &str) {
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let now: Zoned = "2026-11-22T10:00:00[UTC]".parse().unwrap();
        for (text, meant) in [
            ("2026-11-20", "2026-11-20T00:00:00"),
            ("2026-11-20T10:00", "2026-11-20T10:00:00"),
            ("2026-11-20 10:00", "2026-11-20T10:00:00"),
            (" 2026-11-20 10:00:30 ", "2026-11-20T10:00:30"),
            ("2d", "2026-11-20T10:00:00"),
            ("3h", "2026-11-22T07:00:00"),
            ("1h30m", "2026-11-22T08:30:00"),
            ("2 weeks", "2026-11-08T10:00:00"),
        ] {
            assert_eq!(since(text, &now), Some(meant.parse().unwrap()), "{text}");
        }
        // The same moment in two zones, whatever this machine's is.
        let utc = since("2026-11-20T10:00Z", &now);
        assert!(utc.is_some());
        assert_eq!(utc, since("2026-11-20 12:00:00+02:00", &now));
        for nonsense in
            ["", "yesterdayish", "2026", "2026-13-01", "2026-11-20T25:00", "-2d", "2", "99999999y"]
        {
            assert_eq!(since(nonsense, &now), None, "{nonsense}");
        }
    }
}
