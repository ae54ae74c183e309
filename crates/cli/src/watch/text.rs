//! A job as text: what `--once` prints, and what the page shows.
//! Not what it is made of (`busbw_watch::View`).

use std::io::{self, Write};

use busbw_core::{
    columns::aligned,
    quantity::{bytes, count, percent, rate, time},
};
use busbw_render::findings;
use busbw_watch::{GroupView, Speed, View};

/// Rows of speeds and of ranks that are shown of a communicator; JSON has all.
const MOST_ROWS: usize = 12;
/// Communicators that are shown; JSON has all.
const MOST_GROUPS: usize = 8;

/// Prints all of it.
pub(super) fn print(out: &mut impl Write, view: &View, colour: bool) -> io::Result<()> {
    head(out, view)?;
    // Those that cost most first; the others in the order of their size.
    let cost =
        |group: &GroupView| -> f64 { group.by_lateness.iter().map(|one| one.caused_ms).sum() };
    let mut groups: Vec<&GroupView> =
        view.groups.iter().filter(|group| !group.speeds.is_empty()).collect();
    groups.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let count_of_groups = groups.len();
    for group in groups.into_iter().take(MOST_GROUPS) {
        out.write_all(group_text(group).as_bytes())?;
    }
    if count_of_groups > MOST_GROUPS {
        let more = (count_of_groups - MOST_GROUPS) as u64;
        writeln!(out, "\n{} more: --json has all", count(more, "communicator"))?;
    }
    writeln!(out)?;
    findings(out, &view.findings, colour)?;
    writeln!(out, "{}", view.sentence())
}

fn head(out: &mut impl Write, view: &View) -> io::Result<()> {
    let name = view.job.as_deref().map_or_else(|| "a job".to_owned(), |name| format!("job {name}"));
    let (processes, hosts) = (view.processes.len() as u64, view.hosts as u64);
    writeln!(out, "{name}: {} on {}", processes_text(processes), count(hosts, "host"))
}

fn processes_text(processes: u64) -> String {
    match processes {
        1 => "1 process".to_owned(),
        some => format!("{some} processes"),
    }
}

/// A communicator's tables.
pub(super) fn group_text(group: &GroupView) -> String {
    let name = if group.name.is_empty() { String::new() } else { format!(" {}", group.name) };
    let mut text = format!("\ncommunicator {}{name}, {}", group.id, count(group.ranks, "rank"));
    if !group.missing.is_empty() {
        text += &format!(", of which {} have no file here", group.missing.len());
    }
    text += "\n";
    let mut lines = vec![
        [
            "operation",
            "size",
            "algorithm",
            "calls",
            "median",
            "p99",
            "algbw",
            "busbw",
            "% of limit",
            "% of run",
            "% waiting",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    lines.extend(group.speeds.iter().take(MOST_ROWS).map(speed));
    text += &aligned(&lines);
    let ranks: Vec<_> =
        group.by_lateness.iter().filter(|rank| rank.last > 0).take(MOST_ROWS).collect();
    if !ranks.is_empty() {
        let mut lines = vec![
            ["rank", "host", "pid", "last", "others waited", "it waited"]
                .map(str::to_owned)
                .to_vec(),
        ];
        lines.extend(ranks.iter().map(|rank| {
            vec![
                rank.rank.to_string(),
                rank.host.clone(),
                rank.pid.to_string(),
                format!("{} of {}", rank.last, group.compared),
                time(rank.caused_ms * 1e3),
                time(rank.suffered_ms * 1e3),
            ]
        }));
        text += &aligned(&lines);
    }
    text
}

fn speed(speed: &Speed) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let size = match speed.least == speed.most {
        true => bytes(speed.most),
        false => format!("{} to {}", bytes(speed.least), bytes(speed.most)),
    };
    let share = |other: Option<f64>| {
        or_dash(
            speed
                .busbw
                .zip(other)
                .filter(|(_, other)| *other > 0.0)
                .map(|(own, other)| percent(own / other * 100.0)),
        )
    };
    vec![
        speed.operation.clone(),
        size,
        if speed.choice.is_empty() { "-".to_owned() } else { speed.choice.clone() },
        speed.calls.to_string(),
        or_dash(speed.time_us.map(time)),
        or_dash(speed.p99_us.map(time)),
        or_dash(speed.algbw.map(rate)),
        or_dash(speed.busbw.map(rate)),
        share(speed.limit),
        share(speed.earlier),
        or_dash(speed.waited.map(|part| percent(part * 100.0))),
    ]
}
