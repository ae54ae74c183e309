//! Copies of busbw that a launcher started where it was to start ranks of one run: each is told that it is
//! alone. They come from the same process of the launcher, and find each other by that.
//! Not processes that know of each other (`party`): those wait for whoever is missing.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::{Duration, Instant},
};

use busbw_core::exit::Exit;
use rustix::process::getuid;

use busbw_core::exit::ExitError;
use busbw_host::machine;
use busbw_job::rendezvous::name;

/// Processes that start a launcher's processes on a host, and nothing else: a shell may start many runs.
const LAUNCHERS: [&str; 13] = [
    "mpirun",
    "mpirun.openmpi",
    "mpirun.mpich",
    "mpiexec",
    "mpiexec.openmpi",
    "mpiexec.hydra",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "prte",
    "hydra_pmi_proxy",
    "slurmstepd",
];
/// What tells a launcher's jobs apart.
const JOBS: [&str; 3] = ["PMIX_NAMESPACE", "PMI_JOBID", "SLURM_STEP_ID"];
/// How long the first copy waits for another one: a launcher starts all of a host's within that.
const MOMENT: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(5);

/// Makes sure that no other copy of busbw has come from the same launcher. `said` is what its variables say
/// of this process.
///
/// # Errors
/// When there is another copy: neither is to measure anything.
pub(super) fn refuse_copies(said: Option<&str>) -> Result<(), ExitError> {
    let Some(parent) = machine::parent(&machine::Root::system(), &LAUNCHERS) else { return Ok(()) };
    // One daemon may start several jobs.
    let job = JOBS.map(|name| std::env::var(name).unwrap_or_default()).join(" ");
    let place = format!("busbw-alone-{}", name(&format!("{} {parent} {job}", getuid().as_raw())));
    match only_one(&place) {
        Ok(Some(listener)) => {
            // Until the end of this process, for copies that come late.
            std::mem::forget(listener);
            Ok(())
        }
        Ok(None) => Err(ExitError::new(Exit::Usage, copies(&parent, said))),
        // A system without such sockets tells nothing.
        Err(_) => Ok(()),
    }
}

/// What shows others that there is one already; nothing where there is another.
fn only_one(place: &str) -> io::Result<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(place)?;
    let listener = match UnixListener::bind_addr(&address) {
        Ok(listener) => listener,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let _ = UnixStream::connect_addr(&address);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    listener.set_nonblocking(true)?;
    let by = Instant::now() + MOMENT;
    while Instant::now() < by {
        if listener.accept().is_ok() {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
    Ok(Some(listener))
}

fn copies(parent: &str, said: Option<&str>) -> String {
    let mut words = parent.split(' ');
    let (launcher, pid) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let why = match said {
        Some(said) => format!(
            "its variables say so ({said}): are they left over from another launcher, within whose job this one runs? Then unset them"
        ),
        None => "none of its variables that busbw knows says how many there are: set WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each".to_owned(),
    };
    format!(
        "{launcher} (process {pid}) started copies of busbw instead of ranks of one run: each takes itself for the only one, since {why}. Nothing is measured; busbw all_reduce -H hostA:8,hostB:8 starts ranks without it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copies_are_refused_and_a_late_one() {
        let place = format!("busbw-test-{}", std::process::id());
        let (one, other) = std::thread::scope(|scope| {
            let [one, other] = [(); 2].map(|()| scope.spawn(|| only_one(&place).unwrap()));
            (one.join().unwrap(), other.join().unwrap())
        });
        assert!(one.is_none() && other.is_none());
        let first = only_one(&place).unwrap();
        assert!(first.is_some());
        assert!(only_one(&place).unwrap().is_none());
        drop(first);
        assert!(only_one(&place).unwrap().is_some());
    }

    #[test]
    fn what_is_said() {
        let text = copies("hydra_pmi_proxy 77 123", Some("OMPI_COMM_WORLD_SIZE=1"));
        assert!(text.starts_with("hydra_pmi_proxy (process 77) started copies"), "{text}");
        assert!(text.contains("(OMPI_COMM_WORLD_SIZE=1)"), "{text}");
    }
}
