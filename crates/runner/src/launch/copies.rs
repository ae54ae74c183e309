//! Refuses independent copies of busbw that a launcher started instead of the ranks of one run: each sees a job of
//! one process. Copies with the same launcher process as ancestor detect each other.
//! Not processes of one job (`busbw_job::rendezvous`): those wait for each other.

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
use busbw_job::rendezvous::hashed_name;

/// Programs that start a launcher's processes on a host. Not shells: a shell may start many runs.
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
/// Variables that distinguish the jobs of one launcher process.
const JOBS: [&str; 3] = ["PMIX_NAMESPACE", "PMI_JOBID", "SLURM_STEP_ID"];
/// How long a copy waits for another one: a launcher starts all processes of a host within that.
const COPY_TIMEOUT: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Makes sure that no other copy of busbw has come from the same launcher. `variables` is what its variables say
/// of this process.
///
/// # Errors
/// When there is another copy: neither is to measure anything.
pub(super) fn refuse_copies(variables: Option<&str>) -> Result<(), ExitError> {
    let Some(parent) = machine::parent(&machine::Root::system(), &LAUNCHERS) else { return Ok(()) };
    // One daemon may start several jobs.
    let job = JOBS.map(|name| std::env::var(name).unwrap_or_default()).join(" ");
    let name =
        format!("busbw-alone-{}", hashed_name(&format!("{} {parent} {job}", getuid().as_raw())));
    match only_one(&name) {
        Ok(Some(listener)) => {
            // Kept until this process exits, for copies that start late.
            std::mem::forget(listener);
            Ok(())
        }
        Ok(None) => Err(ExitError::new(Exit::Usage, copies(&parent, variables))),
        // Without abstract sockets copies cannot be detected.
        Err(_) => Ok(()),
    }
}

/// A listener that shows later copies that this one exists; none if another copy exists.
fn only_one(name: &str) -> io::Result<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = match UnixListener::bind_addr(&address) {
        Ok(listener) => listener,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let _ = UnixStream::connect_addr(&address);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + COPY_TIMEOUT;
    while Instant::now() < deadline {
        if listener.accept().is_ok() {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(Some(listener))
}

fn copies(parent: &str, variables: Option<&str>) -> String {
    let mut words = parent.split(' ');
    let (launcher, pid) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let why = match variables {
        Some(variables) => format!(
            "its variables say so ({variables}): are they left over from another launcher, within whose job this one runs? Then unset them"
        ),
        None => "none of its variables that busbw knows says how many there are: set WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each".to_owned(),
    };
    format!(
        "{launcher} (process {pid}) started copies of busbw instead of ranks of one run: each is a job of one process, since {why}. Nothing was measured. To start ranks without this launcher: busbw all_reduce -H hostA:8,hostB:8"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copies_are_refused_and_a_late_one() {
        let name = format!("busbw-test-{}", std::process::id());
        let (one, other) = std::thread::scope(|scope| {
            let [one, other] = [(); 2].map(|()| scope.spawn(|| only_one(&name).unwrap()));
            (one.join().unwrap(), other.join().unwrap())
        });
        assert!(one.is_none() && other.is_none());
        let first = only_one(&name).unwrap();
        assert!(first.is_some());
        assert!(only_one(&name).unwrap().is_none());
        drop(first);
        assert!(only_one(&name).unwrap().is_some());
    }

    #[test]
    fn what_is_said() {
        let text = copies("hydra_pmi_proxy 77 123", Some("OMPI_COMM_WORLD_SIZE=1"));
        assert!(text.starts_with("hydra_pmi_proxy (process 77) started copies"), "{text}");
        assert!(text.contains("(OMPI_COMM_WORLD_SIZE=1)"), "{text}");
    }
}
