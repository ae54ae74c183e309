//! The calls of a job and the lateness of its processes, window by window of its time.
//! Not what follows from them (`findings`), and not a picture.

use std::collections::BTreeMap;

use crate::{
    Job, Lateness, Matched, Speed,
    lateness::is_compared,
    speeds::{by_class, doublings},
    timeline::Timeline,
};

/// The most windows.
pub const MOST_WINDOWS: usize = 60;
/// The shortest window, ns.
const SHORTEST: f64 = 1e6;
/// Up to so many classes those of each communicator are by themselves; from then on communicators of as many ranks on as many
/// hosts are taken together.
const MOST_APART: usize = 12;

/// A job over its time.
#[derive(Debug, Clone, PartialEq)]
pub struct OverTime {
    /// The length of a window, ns: 1, 2 or 5 times a power of ten.
    pub window: u64,
    /// Windows, of which the first begins when the first call was asked for; none where there is no call.
    pub windows: usize,
    /// When the first window begins, ns since 1970 by the clock of the first process's host.
    pub begins: u64,
    /// Whether calls align the clocks of all processes; else those of hosts are taken as they are for some.
    pub aligned: bool,
    /// Whether communicators of as many ranks on as many hosts are taken together.
    pub together: bool,
    /// Classes of calls, those that took most time first.
    pub classes: Vec<ClassOverTime>,
    /// By process and window.
    pub lateness: Vec<Vec<LateInWindow>>,
}

/// The calls of one operation and size class over the time.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassOverTime {
    /// The communicators whose calls these are: places in [`Job::groups`].
    pub groups: Vec<usize>,
    /// Hosts of each of these.
    pub hosts: usize,
    /// All of the calls.
    pub speed: Speed,
    /// Those that were asked for in each window; none where there were none.
    pub windows: Vec<Option<InWindow>>,
}

/// The calls of a class in one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InWindow {
    /// Calls.
    pub calls: usize,
    /// As [`Speed::time_us`].
    pub time_us: Option<f64>,
    /// As [`Speed::busbw`].
    pub busbw: Option<f64>,
    /// As [`Speed::waited`].
    pub waited: Option<f64>,
}

/// A process in one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LateInWindow {
    /// Calls of which it can be told who entered last.
    pub calls: usize,
    /// Of these, those that it entered last by its own doing.
    pub last: usize,
    /// What the last but one waited for it in these, ns.
    pub caused: u64,
}

impl OverTime {
    /// `calls` and `lateness` have each communicator of the job in turn.
    #[must_use]
    pub fn of(job: &Job, calls: &[Vec<Matched<'_>>], lateness: &[Lateness]) -> Self {
        let timeline = Timeline::of(job, calls);
        let at = |group: usize, call: &Matched<'_>| -> Option<f64> {
            let (member, one) = call.entries.first()?;
            Some(timeline.at(job.groups[group].members[*member].peer, one.enqueued))
        };
        let each = || (0..job.groups.len().min(calls.len())).map(|group| (group, &calls[group]));
        let times =
            each().flat_map(|(group, calls)| calls.iter().filter_map(move |call| at(group, call)));
        let (first, last) =
            times.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), t| (a.min(t), b.max(t)));
        let axis = Axis::of(first, last);
        let placed: Vec<Vec<usize>> = each()
            .map(|(group, calls)| {
                calls.iter().map(|call| axis.window(at(group, call).unwrap_or(first))).collect()
            })
            .collect();
        let apart: usize = each()
            .map(|(group, calls)| by_class(job.groups[group].ranks, calls, doublings).len())
            .sum();
        let together = apart > MOST_APART;
        let mut pools: BTreeMap<(u32, usize, usize), Vec<usize>> = BTreeMap::new();
        for (group, _) in each() {
            let key = (
                job.groups[group].ranks,
                job.hosts_of(&job.groups[group]),
                if together { 0 } else { group },
            );
            pools.entry(key).or_default().push(group);
        }
        let mut classes: Vec<(f64, ClassOverTime)> = Vec::new();
        for ((ranks, hosts, _), groups) in pools {
            classes.extend(of_pool(ranks, hosts, &groups, calls, &placed, axis.windows));
        }
        classes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let began = job.peers.first().map_or(0, |peer| peer.process.began);
        Self {
            window: axis.window as u64,
            windows: axis.windows,
            // A number that no clock shows becomes the nearest that there is.
            begins: (began as f64 + if axis.windows > 0 { first } else { 0.0 }) as u64,
            aligned: timeline.aligned,
            together,
            classes: classes.into_iter().map(|(_, class)| class).collect(),
            lateness: late(job, calls, lateness, &placed, axis.windows),
        }
    }
}

/// The windows of a time.
struct Axis {
    first: f64,
    window: f64,
    windows: usize,
}

impl Axis {
    /// From the first call to the last, ns.
    fn of(first: f64, last: f64) -> Self {
        if first > last {
            return Self { first: 0.0, window: SHORTEST, windows: 0 };
        }
        let span = last - first;
        let (mut window, mut steps) = (SHORTEST, [2.0, 2.5, 2.0].into_iter().cycle());
        while span / window >= MOST_WINDOWS as f64 {
            window *= steps.next().unwrap_or(2.0);
        }
        Self { first, window, windows: (span / window) as usize + 1 }
    }

    fn window(&self, at: f64) -> usize {
        (((at - self.first) / self.window) as usize).min(self.windows.saturating_sub(1))
    }
}

/// The classes of communicators that are taken together, with the time that the job spent in each, us.
fn of_pool(
    ranks: u32,
    hosts: usize,
    groups: &[usize],
    calls: &[Vec<Matched<'_>>],
    placed: &[Vec<usize>],
    windows: usize,
) -> Vec<(f64, ClassOverTime)> {
    let key =
        |speed: &Speed| (speed.operation.clone(), doublings(speed.most), speed.choice.clone());
    let all = || groups.iter().flat_map(|group| calls[*group].iter().zip(&placed[*group]));
    let mut by_window: Vec<Vec<&Matched<'_>>> = vec![Vec::new(); windows];
    for (call, window) in all() {
        by_window[*window].push(call);
    }
    let mut found: BTreeMap<_, Vec<Option<InWindow>>> = BTreeMap::new();
    for (window, calls) in by_window.into_iter().enumerate() {
        for (_, speed) in by_class(ranks, calls, doublings) {
            let of_class = found.entry(key(&speed)).or_insert_with(|| vec![None; windows]);
            of_class[window] = Some(InWindow {
                calls: speed.calls,
                time_us: speed.time_us,
                busbw: speed.busbw,
                waited: speed.waited,
            });
        }
    }
    let classes = by_class(ranks, all().map(|(call, _)| call), doublings).into_iter();
    classes
        .map(|(time, speed)| {
            let of_class = found.remove(&key(&speed)).unwrap_or_default();
            let groups = of_these(groups, calls, &speed);
            (time, ClassOverTime { groups, hosts, speed, windows: of_class })
        })
        .collect()
}

/// Those of the communicators that have calls of a class.
fn of_these(groups: &[usize], calls: &[Vec<Matched<'_>>], speed: &Speed) -> Vec<usize> {
    let is = |call: &Matched<'_>| {
        let message = call.class.peer.is_some();
        (if message { "Send" } else { call.class.operation.as_str() }) == speed.operation
            && doublings(call.class.size) == doublings(speed.most)
    };
    groups.iter().copied().filter(|group| calls[*group].iter().any(is)).collect()
}

fn late(
    job: &Job,
    calls: &[Vec<Matched<'_>>],
    lateness: &[Lateness],
    placed: &[Vec<usize>],
    windows: usize,
) -> Vec<Vec<LateInWindow>> {
    let mut found = vec![vec![LateInWindow::default(); windows]; job.peers.len()];
    for (((group, calls), placed), late) in job.groups.iter().zip(calls).zip(placed).zip(lateness) {
        for (call, window) in calls.iter().zip(placed).filter(|(call, _)| is_compared(call)) {
            for (member, _) in call.durations() {
                found[group.members[member].peer][*window].calls += 1;
            }
        }
        for entry in &late.entries {
            let one = &mut found[group.members[entry.member].peer][placed[entry.call]];
            one.last += 1;
            one.caused = one.caused.saturating_add(entry.by);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_round_and_few() {
        for (span, window, windows) in [
            (0.0, 1e6, 1),
            (59.9e6, 1e6, 60),
            (60e6, 2e6, 31),
            (90e6, 2e6, 46),
            (150e6, 5e6, 31),
            (3_600e9, 100e9, 37),
            (1.8e19, 5e17, 37),
        ] {
            let axis = Axis::of(7.0, 7.0 + span);
            assert_eq!((axis.window, axis.windows), (window, windows), "{span}");
            assert_eq!((axis.window(7.0), axis.window(7.0 + span)), (0, windows - 1), "{span}");
        }
        assert_eq!(Axis::of(f64::INFINITY, f64::NEG_INFINITY).windows, 0);
    }
}
