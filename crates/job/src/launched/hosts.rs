//! Which process a launcher put on which host, as far as its variables tell.
//! Not the hosts that the joined processes report.

use super::nodes;
use crate::hosts::Hosts;
use busbw_core::environment::HOSTS;

/// The host of each of `size` processes that busbw started for its own -H.
pub(super) fn of_ours(size: usize, lookup: impl Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let hosts: Hosts = lookup(HOSTS)?.parse().ok()?;
    let each = hosts.0.into_iter().flat_map(|host| std::iter::repeat_n(host.name, host.slots));
    Some(each.collect::<Vec<_>>()).filter(|each| each.len() == size)
}

/// The host of each of `size` processes of a Slurm step: its hosts, the processes on each, and in which order
/// they were dealt out (man srun, SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, SLURM_DISTRIBUTION).
pub(super) fn of_slurm(
    size: usize,
    lookup: impl Fn(&str) -> Option<String>,
) -> Option<Vec<String>> {
    let hosts = nodes::all(&lookup("SLURM_STEP_NODELIST")?)?;
    let counts = counts(&lookup("SLURM_STEP_TASKS_PER_NODE")?)?;
    if hosts.len() != counts.len()
        || counts.iter().try_fold(0, |sum: usize, count| sum.checked_add(*count)) != Some(size)
    {
        return None;
    }
    // Its first word is about hosts; without it, as srun does by itself.
    let order = lookup("SLURM_DISTRIBUTION").unwrap_or_else(|| "block".to_owned());
    let at_once = match order.split([':', ',']).next()? {
        "block" | "pack" => *counts.iter().max()?,
        "cyclic" => 1,
        _ => return None,
    };
    let mut left = counts;
    let mut dealt = Vec::with_capacity(size);
    while dealt.len() < size {
        for (host, left) in hosts.iter().zip(&mut left) {
            let taken = at_once.min(*left);
            *left -= taken;
            dealt.extend(std::iter::repeat_n(host.clone(), taken));
        }
    }
    Some(dealt)
}

/// "2(x3),1" as 2, 2, 2, 1.
fn counts(text: &str) -> Option<Vec<usize>> {
    let mut counts = Vec::new();
    for word in text.trim().split(',') {
        let (count, times) = match word.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse::<usize>().ok()?),
            None => (word, 1),
        };
        let count = count.parse::<usize>().ok().filter(|count| *count > 0)?;
        if times > nodes::MAX_HOSTS - counts.len() {
            return None;
        }
        counts.extend(std::iter::repeat_n(count, times));
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slurm(size: usize, list: &str, tasks: &str, order: Option<&str>) -> Option<String> {
        let lookup = |name: &str| match name {
            "SLURM_STEP_NODELIST" => Some(list.to_owned()),
            "SLURM_STEP_TASKS_PER_NODE" => Some(tasks.to_owned()),
            "SLURM_DISTRIBUTION" => order.map(str::to_owned),
            _ => None,
        };
        of_slurm(size, lookup).map(|hosts| hosts.join(" "))
    }

    #[test]
    fn as_slurm_deals_them_out() {
        let is = |size, list, tasks, order, hosts: &str| {
            assert_eq!(slurm(size, list, tasks, order).as_deref(), Some(hosts), "{list} {tasks}");
        };
        is(5, "n[1-3]", "2(x2),1", None, "n1 n1 n2 n2 n3");
        is(5, "n[1-3]", "2(x2),1", Some("cyclic"), "n1 n2 n3 n1 n2");
        is(4, "n[1-2]", "3,1", Some("cyclic:block"), "n1 n2 n1 n1");
        is(4, "n[1-2]", "3,1", Some("block:cyclic"), "n1 n1 n1 n2");
    }

    #[test]
    fn what_cannot_be_known() {
        for (size, list, tasks, order) in [
            (4, "n[1-2]", "2(x2)", Some("plane")),
            (4, "n[1-2]", "2(x2)", Some("arbitrary")),
            (5, "n[1-2]", "2(x2)", None),
            (4, "n[1-3]", "2(x2)", None),
            (4, "n[1-2]", "2(x", None),
            (4, "n[1-2]", "0,4", None),
            (4, "n[1-2]", "2(x9999999999)", None),
        ] {
            assert_eq!(slurm(size, list, tasks, order), None, "{list} {tasks} {order:?}");
        }
    }

    proptest! {
        /// However they are dealt out, each host gets as many processes as the variables give it.
        #[test]
        fn every_host_gets_its_own(tasks in prop::collection::vec(1usize..9, 1..20), cyclic: bool) {
            let size = tasks.iter().sum();
            let list = format!("n[1-{}]", tasks.len());
            let text = tasks.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            let dealt = slurm(size, &list, &text, cyclic.then_some("cyclic")).unwrap();
            for (at, count) in tasks.iter().enumerate() {
                let name = format!("n{}", at + 1);
                prop_assert_eq!(dealt.split(' ').filter(|host| *host == name).count(), *count);
            }
        }
    }
}
