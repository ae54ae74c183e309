//! How many ranks and hosts a list of devices means, also where it is cut: by hand, or by nccl-tests.
//! Not how one of its lines is read (`nccl_tests::head`).

use crate::measurement::{Device, Known, Measurement, first_group, hosts_of, hosts_of_cut_names};

/// The ranks of rank 0's communicator, where every rank is listed.
pub(super) fn listed(devices: &[Device], per_process: usize) -> Option<usize> {
    let highest = devices.iter().map(|device| device.rank).max()?;
    let whole = highest < devices.len() && devices.len().is_multiple_of(per_process.max(1));
    whole.then(|| first_group(devices).len())
}

/// The hosts: of the device list where it is whole, else as NCCL counts nodes.
pub(super) fn hosts(this: &Measurement, ranks: Option<usize>) -> Option<usize> {
    let first = first_group(&this.devices);
    if ranks == Some(first.len()) {
        return if this.rows.is_empty() { hosts_of(first) } else { hosts_of_cut_names(first) };
    }
    // NCCL_HOSTID makes several nodes of one host, or one of several.
    let communicators =
        this.library.iter().filter(|facts| !facts.environment.contains_key("NCCL_HOSTID"));
    let largest =
        communicators.flat_map(|facts| &facts.communicators).max_by_key(|one| one.nranks)?;
    // NVLink across hosts (MNNVL) makes one node of them.
    if largest.mnnvl == Some(true) {
        return None;
    }
    largest.nodes.map(|nodes| nodes as usize)
}

/// Fills in what a list that was cut still means, together with the table's figures.
pub(super) fn complete(this: &mut Measurement) {
    let groups = this.devices.iter().filter_map(|device| device.group);
    if this.devices.is_empty() || groups.clone().any(|group| Some(group) != groups.clone().next()) {
        return;
    }
    let by_figures = this.ranks_by_figures();
    if let Some(each) = cut_within_a_host(&this.devices)
        && let Some(ranks) = by_figures.filter(|ranks| *ranks > this.devices.len())
        && ranks.is_multiple_of(each)
    {
        this.ranks = Some(Known::deduced(ranks));
        this.hosts = Some(ranks / each);
    } else if let Some((ranks, each)) = cut_in_the_middle(&this.devices)
        && by_figures.is_none_or(|figures| figures == ranks)
    {
        this.ranks = this.ranks.or(Some(Known::deduced(ranks)));
        if this.rank_count() == Some(ranks) {
            this.hosts = this.hosts.or(Some(ranks / each));
        }
    }
}

/// Ranks a host, where the list ends in the middle of one: every host before it has as many.
fn cut_within_a_host(devices: &[Device]) -> Option<usize> {
    let mut hosts = devices.chunk_by(|a, b| a.host == b.host).map(<[Device]>::len);
    let last = hosts.next_back()?;
    let each = hosts.next()?;
    let in_order = devices.iter().enumerate().all(|(at, device)| device.rank == at);
    (in_order && last < each && hosts.all(|next| next == each)).then_some(each)
}

/// All ranks and those of a host, where ranks in the middle of the list are left out and its last line is kept: the last rank
/// has its host's last device, and so all others have the devices that follow from it.
fn cut_in_the_middle(devices: &[Device]) -> Option<(usize, usize)> {
    let last = devices.iter().max_by_key(|device| device.rank)?;
    let (ranks, each) = (last.rank.checked_add(1)?, last.device.checked_add(1)?);
    let fits = |device: &Device| device.rank % each == device.device;
    let hosts = hosts_of(devices)?;
    let left_out = devices.len() < ranks && ranks.is_multiple_of(each);
    (left_out && devices.iter().all(fits) && hosts <= ranks / each).then_some((ranks, each))
}

#[cfg(test)]
mod tests {
    use busbw_core::{Collective, DataType, record::Figures};

    use super::*;
    use crate::measurement::Row;

    /// A list of these ranks, eight a host, and a row of reduce_scatter over `ranks`.
    fn run(listed: impl IntoIterator<Item = usize>, ranks: u64) -> Measurement {
        let device = |rank: usize| Device {
            rank,
            host: format!("h{}", rank / 8),
            device: rank % 8,
            ..Device::default()
        };
        let row = Row {
            size: ranks * 4096,
            count: Some(1024),
            datatype: Some(DataType::Float),
            out_of_place: Some(Figures::default()),
            ..Row::default()
        };
        let mut made = Measurement {
            devices: listed.into_iter().map(device).collect(),
            rows: vec![row],
            ..Measurement::default()
        };
        made.test.collective = Some(Known::stated(Collective::ReduceScatter));
        made.ranks = self::listed(&made.devices, 1).map(Known::stated);
        made.hosts = hosts(&made, made.rank_count());
        crate::measurement::deduce(&mut made);
        complete(&mut made);
        made
    }

    #[test]
    fn lists_that_are_cut() {
        for (listed, by_figures, expected) in [
            ((0..19).collect::<Vec<usize>>(), 32, (Some(32), Some(4))),
            (vec![0, 1, 2, 63], 64, (Some(64), Some(8))),
            // Whole ones, also where the figures are of other ranks: that is said, not corrected.
            ((0..16).collect(), 16, (Some(16), Some(2))),
            ((0..16).collect(), 32, (Some(16), Some(2))),
            // The last line that is kept is not the last one.
            (vec![0, 1, 2, 60], 64, (Some(64), None)),
            (vec![0, 1, 2, 63], 128, (Some(128), None)),
        ] {
            let made = run(listed.clone(), by_figures);
            assert_eq!((made.rank_count(), made.hosts), expected, "{listed:?} {by_figures}");
        }
    }
}
