//! Converts a watched job into the data of the page.
//! Not what is found in its files (`busbw-watch`), and not its first screen (`answer`).

mod answer;
mod lateness;

use busbw_analysis::{
    explain::Hardware,
    job_speeds::{earlier, limit},
};
use busbw_core::{
    finding::Finding,
    quantity::{bytes, count, ranged},
};
use busbw_logs::measurement::Measurement;
use busbw_watch::{ClassOverTime, Group, InWindow, Job, OverTime, Speed, View};

use crate::{
    data::{CallClass, ClassWindow, Watched},
    summary,
};

/// Classes that a chart draws.
const MOST_DRAWN: usize = 12;
/// Classes that the table lists.
const MOST_CLASSES: usize = 100;
/// Communicators that a sentence names.
const MOST_NAMED: usize = 4;

/// The data of jobs; with a number where there are several. `runs` are beside them.
pub(super) fn jobs(jobs: &[Job], runs: &[Measurement], hardware: &Hardware) -> Vec<Watched> {
    let title = |number: usize| match jobs.len() {
        1 => "Job".to_owned(),
        _ => format!("Job {}", number + 1),
    };
    let each = jobs.iter().enumerate();
    each.map(|(number, one)| job(&title(number), one, runs, hardware)).collect()
}

fn job(title: &str, job: &Job, runs: &[Measurement], hardware: &Hardware) -> Watched {
    let (view, time) = View::over_time(job);
    let mut classes: Vec<CallClass> = Vec::new();
    for (number, class) in time.classes.iter().take(MOST_CLASSES).enumerate() {
        let ranks = job.groups[class.groups[0]].ranks;
        let mut speed = class.speed.clone();
        speed.limit = limit(ranks, class.hosts, &speed, hardware);
        speed.earlier = runs.iter().find_map(|run| earlier(run, ranks, &speed));
        let windows = if number < MOST_DRAWN { class.windows.as_slice() } else { &[] };
        classes.push(self::class(job, class, &speed, windows));
    }
    let span = time.windows as f64 * time.window as f64 / 1e9;
    let lasted =
        if time.windows > 0 { format!(", {} of calls", seconds(span)) } else { String::new() };
    let sentence = summary::sentence(&view.sentence());
    Watched {
        title: title.to_owned(),
        subject: format!(
            "{}, {}{lasted}",
            summary::of_job(job),
            count(job.groups.len() as u64, "communicator")
        ),
        answer: answer::answer(title, &view, &sentence, classes.first()),
        sentence,
        findings: view.findings.iter().cloned().map(begun).collect(),
        untold: untold(job, &view, &time, &classes),
        window_s: time.window as f64 / 1e9,
        classes_left_out: time.classes.len() - classes.len(),
        classes,
        together: time.together,
        per_row: lateness::per_row(job),
        lateness: lateness::rows(job, &view, &time),
        late_left_out: lateness::late(job, &time).len().saturating_sub(lateness::MOST_LATEST),
        latest: lateness::latest(job, &view, &time),
    }
}

fn class(
    job: &Job,
    class: &ClassOverTime,
    speed: &Speed,
    windows: &[Option<InWindow>],
) -> CallClass {
    let size = match speed.least == speed.most {
        true => bytes(speed.most),
        false => format!("{} to {}", bytes(speed.least), bytes(speed.most)),
    };
    let call = format!("{} {size}", speed.operation);
    let of = communicator(job, &class.groups);
    CallClass {
        name: match speed.choice.is_empty() {
            true => format!("{call}, {of}"),
            false => format!("{call} {}, {of}", speed.choice),
        },
        call,
        choice: speed.choice.clone(),
        communicator: of,
        calls: speed.calls,
        time_us: speed.time_us.map(rounded),
        p99_us: speed.p99_us.map(rounded),
        busbw: speed.busbw.map(rounded),
        limit: speed.limit.map(rounded),
        earlier: speed.earlier.map(rounded),
        waiting: speed.waited.map(|part| rounded(part * 100.0)),
        windows: windows.iter().map(|one| one.as_ref().map(window)).collect(),
    }
}

fn window(one: &InWindow) -> ClassWindow {
    ClassWindow {
        calls: one.calls,
        time_us: one.time_us.map(rounded),
        busbw: one.busbw.map(rounded),
    }
}

/// Four significant digits: a page of many windows needs no more.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// The name of a communicator, or how many of how many ranks.
fn communicator(job: &Job, groups: &[usize]) -> String {
    match groups {
        [only] => named(&job.groups[*only]),
        several => {
            let ranks = job.groups[several[0]].ranks;
            format!("{} communicators of {}", several.len(), count(ranks, "rank"))
        }
    }
}

fn named(group: &Group) -> String {
    match (group.name.as_str(), group.id.as_str()) {
        ("", "") => "a communicator without a name".to_owned(),
        ("", id) => format!("communicator {id}"),
        (name, _) => format!("communicator {name}"),
    }
}

/// Seconds in words.
fn seconds(s: f64) -> String {
    match s {
        _ if s >= 7_200.0 => format!("{:.1} h", s / 3_600.0),
        _ if s >= 180.0 => format!("{:.0} min", s / 60.0),
        _ if s >= 1.0 => format!("{s:.0} s"),
        _ => format!("{:.0} ms", s * 1e3),
    }
}

/// A finding whose cause and remedy are sentences.
fn begun(finding: Finding) -> Finding {
    Finding {
        cause: summary::sentence(&finding.cause),
        remedy: finding.remedy.map(|remedy| summary::sentence(&remedy)),
        ..finding
    }
}

/// What the files do not tell, and why.
fn untold(job: &Job, view: &View, time: &OverTime, classes: &[CallClass]) -> Vec<String> {
    let mut said = Vec::new();
    let missing: Vec<&busbw_watch::GroupView> =
        view.groups.iter().filter(|group| !group.missing.is_empty()).collect();
    if !missing.is_empty() {
        let named: Vec<String> = missing
            .iter()
            .take(MOST_NAMED)
            .map(|group| {
                let ranks: Vec<String> = group.missing.iter().map(ToString::to_string).collect();
                format!("{} (of {})", ranged(&ranks), group.id)
            })
            .collect();
        let more = missing.len().saturating_sub(MOST_NAMED);
        let more =
            if more > 0 { format!(" and of {more} more communicators") } else { String::new() };
        said.push(format!(
            "There is no file of ranks {}{more}: whether these are late is not known, and times are from when the last of the others entered.",
            named.join(", ")
        ));
    }
    let gone: u64 = job.peers.iter().map(busbw_watch::Peer::gone).fold(0, u64::saturating_add);
    if gone > 0 {
        said.push(format!(
            "Of {} only the number is left, not the time: a process keeps its last 30 to 60 MiB.",
            count(gone, "older call")
        ));
    }
    let calls: usize = time.classes.iter().map(|class| class.speed.calls).sum();
    let timed: usize = time.classes.iter().map(|class| class.speed.timed).sum();
    if calls == 0 {
        said.push("No call has ended: there are no times and no lateness to show.".to_owned());
    } else if timed < calls {
        said.push(format!(
            "Of {} of {} the time on the GPU is not known: small calls were sampled (BUSBW_WATCH=sampled), or this NCCL does not \
             give it, or a wrong one (2.31 and newer, after kernels that were not timed).",
            calls - timed,
            count(calls as u64, "call")
        ));
    }
    if calls > 0 && classes.iter().all(|class| class.limit.is_none()) {
        said.push(
            "What the hardware allows is not known: name the machine by --machine.".to_owned(),
        );
    }
    if calls > 0 && classes.iter().all(|class| class.earlier.is_none()) {
        said.push(
            "No run beside the job has the same collective, ranks and size: name its record, too, to have the share of it."
                .to_owned(),
        );
    }
    if view.paths.is_empty() {
        said.push(
            "What the network's steps waited for was not recorded: that takes BUSBW_WATCH=full."
                .to_owned(),
        );
    }
    if !time.aligned {
        said.push(
            "Some processes share no call with the others: where they stand in time is by the clocks of their hosts."
                .to_owned(),
        );
    }
    said
}

#[cfg(test)]
mod tests;
