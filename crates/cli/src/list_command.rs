//! `busbw list`: past runs, when, on what, how fast and how they ended; and the removal of old ones.
//! Not one run's table (`show`), and not which of them is faster (`compare`).

mod prune;
mod summary;
mod times;
mod tunings;

use std::io::{self, Write};

use anyhow::Result;
use busbw_core::{
    columns::aligned,
    exit::{Exit, ExitError},
    printable::Printable,
    quantity::{bytes, count, rate, time},
};
use busbw_render::answer::{answer, json_line};
use busbw_store as store;
use jiff::{Zoned, civil::DateTime};

use self::{
    prune::Prune,
    summary::{About, Listed, Summary, folded, read_record},
};
use crate::options::ListArguments;

/// Lists the records of the data folder, the newest last.
///
/// # Errors
/// There is no data folder, or stdout cannot be written.
pub fn run(arguments: &ListArguments) -> Result<Exit> {
    let read = |option: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => times::before(text, &Zoned::now())
            .map(Some)
            .ok_or_else(|| ExitError::new(Exit::Usage, times::not_a_time(option, text))),
    };
    let since = read("--since", &arguments.since)?;
    let before = read("--prune", &arguments.prune)?;
    let paths =
        store::last(usize::MAX).map_err(|e| ExitError::new(Exit::Usage, format!("{e:#}")))?;
    let mut listed: Vec<Listed> = paths.iter().map(|path| read_record(path)).collect();
    if !arguments.all {
        listed = folded(listed);
    }
    for tuning in tunings::all() {
        let place = listed.iter().position(|one| one.started() > tuning.started());
        listed.insert(place.unwrap_or(listed.len()), tuning);
    }
    let is_empty = listed.is_empty();
    listed.retain(|one| arguments.takes(one, since));
    let mut pruned = Prune::default();
    if let Some(before) = before {
        listed.retain(|one| pruned.take(one, before));
    }
    let left_out = listed.len().saturating_sub(arguments.newest.unwrap_or(usize::MAX));
    listed.drain(..left_out);
    answer(|out, _| match arguments.json {
        true => listed.iter().try_for_each(|one| json_line(out, one)),
        false => print(out, &listed),
    })?;
    if before.is_some() {
        return Ok(if pruned.finish(arguments.yes) { Exit::Ok } else { Exit::Internal });
    }
    if is_empty {
        print_remark("there is no run yet: a benchmark leaves one, such as busbw all_reduce");
    } else if listed.is_empty() {
        print_remark(&format!("none of {} matches", count(paths.len() as u64, "run")));
    }
    Ok(Exit::Ok)
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
    let head =
        ["when", "collective", "ranks", "on", "backend", "rows", "best", "at", "verdict", "id"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for one in listed {
        lines.push(match &one.about {
            About::Run(run) => vec![
                run.started.clone(),
                run.collective.clone(),
                run.ranks.to_string(),
                if run.is_tuning {
                    "-".to_owned()
                } else {
                    format!("{} ({})", run.host, run.device)
                },
                backend(run),
                run.rows.to_string(),
                best(run),
                run.peak_size
                    .or(run.latency_size)
                    .map_or("-".to_owned(), |size| bytes(size).replace(' ', "")),
                verdict(run),
                one.id.clone(),
            ],
            About::Damaged { damaged } => {
                let mut line = vec!["-".to_owned(); 8];
                line.extend([format!("DAMAGED: {damaged}"), one.id.clone()]);
                line
            }
        });
    }
    write!(out, "{}", aligned(&lines))
}

/// `nccl 2.28.9`.
fn backend(run: &Summary) -> String {
    match &run.nccl {
        Some(version) => format!("{} {version}", run.backend),
        None => run.backend.clone(),
    }
}

fn best(run: &Summary) -> String {
    match (run.latency_us, run.peak_busbw) {
        (Some(us), _) => time(us),
        (None, Some(busbw)) => format!("{} GB/s", rate(busbw)),
        (None, None) => "-".to_owned(),
    }
}

/// How it ended; of a sweep or a tuning, how many launches there were.
fn verdict(run: &Summary) -> String {
    match run.launches {
        Some(launches) => {
            format!(
                "{}; {}, {}",
                run.verdict,
                if run.is_tuning { "tuning" } else { "sweep" },
                if launches == 1 { "1 launch".to_owned() } else { format!("{launches} launches") }
            )
        }
        None => run.verdict.clone(),
    }
}

fn print_remark(text: &str) {
    let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
}
