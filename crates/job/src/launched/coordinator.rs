//! The coordinator's address: as variables tell it, or the host on which the launcher runs.
//! Not the rendezvous (`rendezvous`).

use std::path::PathBuf;

use busbw_core::environment::COORDINATOR_FILE;
use busbw_ffi::mpi::Launcher;

use super::{nodes, variables::LauncherVariables};

/// Ports that are computed from a job's number: below the kernel's ephemeral ports (32768 and up).
pub(super) const PORTS: std::ops::Range<u16> = 20000..30000;

/// The port where a pod's variables tell the host alone: that of torch.distributed
/// (torch/distributed/launcher/api.py), Kubeflow's, too.
const POD_PORT: u16 = 29500;

/// The coordinator's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorAddress {
    /// Its host: one name or address, or every known one. Empty where only `file` tells.
    pub hosts: Vec<String>,
    /// A file that holds its address, or will hold it: BUSBW_COORDINATOR_FILE.
    pub file: Option<PathBuf>,
    /// Its port.
    pub port: u16,
    /// Whether this is an assumption: process 0 checks that it runs there.
    pub assumed: bool,
}

impl CoordinatorAddress {
    /// From MASTER_ADDR and MASTER_PORT, a pod's variables (`first` is the name of the first pod among several that a
    /// variable holds) or the file; else the first host of a Slurm step or allocation, or the host of Open MPI's
    /// mpirun, which fills its own host first.
    pub(super) fn read(
        names: &LauncherVariables,
        first: Option<String>,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Option<CoordinatorAddress> {
        let file = lookup(COORDINATOR_FILE).map(PathBuf::from);
        let (host, port) = (lookup("MASTER_ADDR"), lookup("MASTER_PORT"));
        let is_told = host.is_some() && port.is_some();
        let host = host.or_else(|| lookup(names.address)).or(first);
        if is_told || file.is_some() || (names.pod && host.is_some()) {
            let port = port.or_else(|| lookup(names.port));
            let port = port.map_or(Some(POD_PORT), |port| port.trim().parse::<u16>().ok())?;
            // Then torchrun's agent listens there itself (torch/distributed/rendezvous.py).
            let taken = lookup("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|v| v.trim() == "True");
            let port = port.checked_add(u16::from(taken))?;
            let hosts = host.iter().map(|host| bare(host.trim())).collect();
            return Some(CoordinatorAddress { hosts, file, port, assumed: false });
        }
        let by = names.by;
        if let (Launcher::OpenMpi, Some(job)) = (by, lookup("PMIX_NAMESPACE")) {
            return CoordinatorAddress::of_open_mpi(&job, lookup);
        }
        let host = nodes::first(&lookup("SLURM_STEP_NODELIST")?)?;
        let number = |name: &str| lookup(name)?.trim().parse::<u32>().ok();
        let (job, step) = (number("SLURM_JOB_ID")?, number("SLURM_STEP_ID")?);
        // Steps of a job, which may run at once, get ports next to each other.
        let port = port_of(job.wrapping_mul(17).wrapping_add(step));
        Some(CoordinatorAddress { hosts: vec![host], file: None, port, assumed: false })
    }

    /// Under Open MPI's mpirun. Slurm's step is not asked: it is the one by which mpirun came to the other hosts.
    fn of_open_mpi(
        job: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Option<CoordinatorAddress> {
        // "1103691777", or of 5.0 "prterun-node1-15276@1", by host and process.
        let (head, number) = match job.split_once('@') {
            Some((head, _)) => head.rsplit_once('-')?,
            None => ("", job.trim()),
        };
        let port = port_of(number.parse().ok()?);
        let hosts = lookup("SLURM_JOB_NODELIST")
            .and_then(|list| Some(vec![nodes::first(&list)?]))
            .or_else(|| addresses(&lookup("OMPI_MCA_orte_hnp_uri")?))
            .or_else(|| Some(vec![head.strip_prefix("prterun-")?.to_owned()]))?;
        Some(CoordinatorAddress { hosts, file: None, port, assumed: true })
    }

    /// Where mpiexec.hydra runs, by the command line of its process on this host.
    pub fn of_hydra(proxy: &[String]) -> Option<CoordinatorAddress> {
        let mut words = proxy.iter();
        words.find(|word| *word == "--control-port")?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let port = port_of(port.parse().ok()?);
        (!host.is_empty()).then(|| CoordinatorAddress {
            hosts: vec![bare(host)],
            file: None,
            port,
            assumed: true,
        })
    }
}

/// `[fd00::1]` as well as `fd00::1`.
pub(crate) fn bare(host: &str) -> String {
    host.trim_matches(['[', ']']).to_owned()
}

fn port_of(number: u32) -> u16 {
    PORTS.start + (number % u32::from(PORTS.end - PORTS.start)) as u16
}

/// All of `1103691776.0;tcp://10.0.0.1,10.1.0.1:59351;tcp6://[fd00::1]:59352` (orte/mca/oob/tcp of Open MPI 4.1).
fn addresses(uri: &str) -> Option<Vec<String>> {
    let ways = uri.split(';').skip(1);
    let hosts = ways.filter_map(|way| way.split_once("://")?.1.rsplit_once(':'));
    let all: Vec<String> = hosts.flat_map(|(hosts, _)| hosts.split(',')).map(bare).collect();
    (!all.is_empty() && all.iter().all(|host| !host.is_empty())).then_some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(by: Launcher, variables: &[(&str, &str)]) -> Option<(String, u16, bool)> {
        let names = super::super::variables::LAUNCHERS.iter().find(|names| names.by == by)?;
        let first = CoordinatorAddress::read(names, None, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })?;
        Some((first.hosts.join(" "), first.port, first.assumed))
    }

    #[test]
    fn where_mpirun_runs() {
        let of = |variables: &[(&str, &str)]| read(Launcher::OpenMpi, variables);
        let here = |hosts: &str, port| Some((hosts.to_owned(), port, true));
        let job = ("PMIX_NAMESPACE", "1103691777");
        let uri = ("OMPI_MCA_orte_hnp_uri", "1103691776.0;tcp://10.91.0.1:59351");
        assert_eq!(of(&[job, uri]), here("10.91.0.1", 21777));
        let uri = ("OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1,10.1.0.1:5;tcp6://[fd00::1]:6");
        assert_eq!(of(&[job, uri]), here("10.0.0.1 10.1.0.1 fd00::1", 21777));
        // Open MPI 5.
        let job = ("PMIX_NAMESPACE", "prterun-host-a-15276@1");
        assert_eq!(of(&[job]), here("host-a", 25276));
        // Of an allocation's step mpirun's own host is no part.
        let step = ("SLURM_STEP_NODELIST", "gpu[08-09]");
        let allocation = ("SLURM_JOB_NODELIST", "gpu[07-09]");
        assert_eq!(of(&[job, step, allocation]), here("gpu07", 25276));
        let said = [("MASTER_ADDR", " [fd00::1] "), ("MASTER_PORT", "29500")];
        assert_eq!(of(&[&said[..], &[job]].concat()), Some(("fd00::1".to_owned(), 29500, false)));
        assert_eq!(of(&[uri]), None);
        assert_eq!(of(&[("PMIX_NAMESPACE", "1103691777")]), None);
    }

    #[test]
    fn where_mpiexec_runs() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            CoordinatorAddress::of_hydra(&words)
                .map(|first| (first.hosts.join(" "), first.port, first.assumed))
        };
        let line = "/usr/bin/hydra_pmi_proxy --control-port host-a:39179 --rmk user --proxy-id 1";
        assert_eq!(of(line), Some(("host-a".to_owned(), 29179, true)));
        assert_eq!(of("hydra_pmi_proxy --rmk user"), None);
        assert_eq!(of("hydra_pmi_proxy --control-port"), None);
        assert_eq!(of("hydra_pmi_proxy --control-port :1"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_place_or_none(job in ".{0,40}", uri in "[0-9;:/,a-z.\\[\\]]{0,40}") {
            let variables = [("PMIX_NAMESPACE", &*job), ("OMPI_MCA_orte_hnp_uri", &*uri)];
            if let Some((_, port, assumed)) = read(Launcher::OpenMpi, &variables) {
                prop_assert!(PORTS.contains(&port) && assumed);
            }
        }
    }
}
