//! The communicators of a run whose ranks were split among several (NCCL_TESTS_SPLIT), which work at the
//! same time.
//! Not repetitions: figures of two groups are never launches or cycles of one thing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Device, Known, Measurement, Row};
use busbw_core::record::Figures;

impl Measurement {
    /// Takes the group of the rows that do not say theirs from the list of devices: nccl-tests prints
    /// the rows of rank 0's communicator only. A run of one communicator has rows without a group.
    pub(crate) fn settle_groups(&mut self) {
        let listed: BTreeSet<u64> = self.devices.iter().filter_map(|device| device.group).collect();
        let first = first_of(&self.devices);
        let said = self.rows.iter().filter_map(|row| row.group);
        let all: BTreeSet<u64> = listed.into_iter().chain(said).chain(first).collect();
        for row in &mut self.rows {
            row.group = if all.len() > 1 { row.group.or(first) } else { None };
        }
    }

    /// The rows of the communicator whose row is the first: what an average is stated of.
    pub fn first_rows(&self) -> impl Iterator<Item = &Row> {
        let first = self.rows.first().and_then(|row| row.group);
        self.rows.iter().filter(move |row| row.group == first)
    }

    /// The ranks of a row's communicator, as far as they are known.
    pub fn ranks_of(&self, row: &Row) -> Option<usize> {
        let first = self.rows.first().and_then(|row| row.group);
        if row.group == first {
            return self.rank_count();
        }
        let members = |group| self.devices.iter().filter(|device| device.group == group).count();
        // A list that was cut counts nothing.
        let whole = self.rank_count().is_some_and(|ranks| ranks == members(first));
        Some(members(row.group)).filter(|members| whole && *members > 0)
    }

    /// A run for each communicator, in the order of their rows, with its own ranks and devices; the run
    /// itself where it had one.
    pub fn communicators(self) -> Vec<Measurement> {
        let mut groups: Vec<Option<u64>> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group) {
                groups.push(row.group);
            }
        }
        match groups.as_slice() {
            [] | [None] => vec![self],
            groups => groups.iter().map(|group| self.only(*group)).collect(),
        }
    }

    fn only(&self, group: Option<u64>) -> Measurement {
        let rows: Vec<Row> = self.rows.iter().filter(|row| row.group == group).cloned().collect();
        let wrong = |row: &Row| row.both().any(|half: &Figures| half.wrong.is_some_and(|n| n > 0));
        let is_first = self.rows.first().is_some_and(|row| row.group == group);
        let blamed = rows.iter().any(wrong) || (is_first && !self.rows.iter().any(wrong));
        let ranks = rows.first().and_then(|row| self.ranks_of(row));
        let devices: Vec<Device> = self
            .devices
            .iter()
            .filter(|device| device.group == group || device.group.is_none())
            .cloned()
            .collect();
        let hosts = if is_first { self.hosts } else { ranks.and(hosts_of(&devices)) };
        let this = Measurement { rows: Vec::new(), devices: Vec::new(), ..self.clone() };
        let mut one = Measurement {
            ranks: if is_first { self.ranks } else { ranks.map(Known::stated) },
            hosts,
            devices,
            rows,
            // What a text says of the whole is of the first (nccl-tests), or of whom it applies to.
            rows_left_out: if is_first { self.rows_left_out } else { 0 },
            stated_average: self.stated_average.filter(|_| is_first),
            out_of_bounds: self.out_of_bounds.filter(|count| blamed || *count == 0),
            ..this
        };
        super::deduce(&mut one);
        one
    }

    /// The group of this communicator, where the run had several.
    pub fn group(&self) -> Option<u64> {
        self.rows.first()?.group
    }
}

/// The group of rank 0.
fn first_of(devices: &[Device]) -> Option<u64> {
    devices.iter().min_by_key(|device| device.rank)?.group
}

/// The devices of rank 0's communicator; all of them where the list knows no groups.
pub(crate) fn first_group(devices: &[Device]) -> Vec<&Device> {
    let first = first_of(devices);
    devices.iter().filter(|device| device.group == first).collect()
}

/// How many hosts devices are on; none of no device.
pub(crate) fn hosts_of<'a>(devices: impl IntoIterator<Item = &'a Device>) -> Option<usize> {
    let hosts: BTreeSet<&str> = devices.into_iter().map(|device| device.host.as_str()).collect();
    Some(hosts.len()).filter(|hosts| *hosts > 0)
}

/// The same of nccl-tests' list, which cuts a host's name at its first dot, so that 10.0.0.5 and 10.0.0.6 are both `10`. NCCL
/// refuses two ranks on one GPU: a GPU that such a name has twice in a run that measured is one of another host. Older
/// lists have the bus alone (`0x01`), which GPUs in several PCI domains share: those tell nothing.
pub(crate) fn hosts_of_cut_names<'a>(
    devices: impl IntoIterator<Item = &'a Device>,
) -> Option<usize> {
    let mut seen: BTreeMap<&str, BTreeMap<(usize, &str), usize>> = BTreeMap::new();
    for device in devices {
        let gpu = (device.device, device.address.as_str());
        *seen.entry(&device.host).or_default().entry(gpu).or_default() += 1;
    }
    let is_cut = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    // Ranks on processors have no address of their own.
    let is_gpu = |address: &str| address.contains(':') && address != "0000:00:00";
    let of_name = |(name, gpus): (&&str, &BTreeMap<(usize, &str), usize>)| {
        let times =
            gpus.iter().filter(|((_, address), _)| is_gpu(address)).map(|(_, times)| *times);
        times.max().filter(|_| is_cut(name)).unwrap_or(1)
    };
    Some(seen.iter().map(of_name).sum()).filter(|hosts| *hosts > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_cut_are_told_apart_by_their_gpus() {
        let device = |host: &str, device: usize, address: &str| Device {
            host: host.to_owned(),
            device,
            address: address.to_owned(),
            ..Device::default()
        };
        let cut = [
            device("10", 0, "0000:41:00"),
            device("10", 0, "0000:41:00"),
            device("10", 1, "0000:42:00"),
        ];
        assert_eq!((hosts_of(&cut), hosts_of_cut_names(&cut)), (Some(1), Some(2)));
        let plain = [
            device("a", 0, "0000:41:00"),
            device("a", 1, "0000:42:00"),
            device("b", 0, "0000:41:00"),
        ];
        assert_eq!(hosts_of_cut_names(&plain), Some(2));
        // Four GPUs of one host in four PCI domains, each the only one that its process sees.
        let buses = ["0x01"; 4].map(|bus| device("nid006676", 0, bus));
        assert_eq!(hosts_of_cut_names(&buses), Some(1));
        assert_eq!(
            hosts_of_cut_names(&[device("10", 0, "0x01"), device("10", 0, "0x01")]),
            Some(1)
        );
        let cores = [device("a", 0, "0000:00:00"), device("a", 0, "0000:00:00")];
        assert_eq!(hosts_of_cut_names(&cores), Some(1));
        assert_eq!(hosts_of_cut_names(&[]), None);
    }

    /// Three ranks in group 0 on two hosts, one in group 1.
    fn split() -> Measurement {
        let device = |rank: usize, group: u64| Device {
            rank,
            host: format!("h{}", rank / 2),
            group: Some(group),
            ..Device::default()
        };
        let row = |group: Option<u64>, wrong: u64| Row {
            size: 8,
            group,
            out_of_place: Some(Figures { wrong: Some(wrong), ..Figures::default() }),
            ..Row::default()
        };
        Measurement {
            ranks: Some(Known::stated(3)),
            hosts: Some(2),
            devices: vec![device(0, 0), device(1, 0), device(2, 0), device(3, 1)],
            rows: vec![row(None, 0), row(Some(1), 4)],
            stated_average: Some(1.0),
            out_of_bounds: Some(4),
            ..Measurement::default()
        }
    }

    #[test]
    fn a_run_of_several_communicators_is_several_runs() {
        let mut run = split();
        run.settle_groups();
        assert_eq!([run.rows[0].group, run.rows[1].group], [Some(0), Some(1)]);
        assert_eq!([&run.rows[0], &run.rows[1]].map(|row| run.ranks_of(row)), [Some(3), Some(1)]);
        let [first, second] = &run.communicators()[..] else { panic!("two communicators") };
        let told = |one: &Measurement| {
            (one.group(), one.rank_count(), one.hosts, one.devices.len(), one.rows.len())
        };
        assert_eq!(told(first), (Some(0), Some(3), Some(2), 3, 1));
        assert_eq!(told(second), (Some(1), Some(1), Some(1), 1, 1));
        assert_eq!((first.stated_average, second.stated_average), (Some(1.0), None));
        assert_eq!((first.out_of_bounds, second.out_of_bounds), (None, Some(4)));
    }

    #[test]
    fn one_communicator_has_no_group() {
        let mut run = split();
        run.devices.pop();
        run.rows.pop();
        run.rows[0].group = Some(0);
        run.settle_groups();
        assert_eq!(run.rows[0].group, None);
        assert_eq!(run.clone().communicators(), [run]);
    }

    #[test]
    fn a_list_that_was_cut_counts_nothing() {
        let mut run = split();
        run.devices.remove(2);
        run.settle_groups();
        assert_eq!(run.ranks_of(&run.rows[1]), None);
    }
}
