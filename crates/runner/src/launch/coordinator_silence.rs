//! Process 0 as a worker hears it: since when it is silent, and who of the workers says so.
//! Not the workers' silence: process 0 hears that (`supervisor::workers`).

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use busbw_core::{
    environment::RELAYED,
    exit::{Exit, ExitError},
    printable::Printable,
};
use busbw_ffi::mpi::Launcher;
use busbw_job::{
    heartbeat::{Heartbeat, SILENCE_TIMEOUT, Silence},
    launched::Launched,
    leftover,
};

/// How much longer workers other than process 1 wait. As a rule its exit code makes the launcher end them: one message
/// instead of a thousand.
const OTHERS_DELAY: Duration = Duration::from_secs(3);
/// How much longer workers wait where the busbw that started the job hears process 0 as well, and ends the run.
const RELAYED_DELAY: Duration = Duration::from_secs(10);

/// What a worker knows of process 0.
pub struct CoordinatorSilence {
    /// Its last heartbeat and the silence since; none before the first one: until then it may load libraries.
    heard: Option<(Heartbeat, Silence)>,
    limit: Duration,
    /// Whether this worker says so: one of each host.
    tells: bool,
    /// Whether nobody else ends a process 0 of this host that does not answer.
    ends_it: bool,
    host: String,
}

impl CoordinatorSilence {
    /// For the worker that `launched` describes, on `host`.
    pub fn new(launched: &Launched, host: &str) -> CoordinatorSilence {
        let relayed = std::env::var_os(RELAYED).is_some();
        CoordinatorSilence {
            heard: None,
            limit: limit(launched.rank, relayed),
            tells: launched.rank == 1 || launched.local_rank.is_none_or(|place| place == 0),
            // Open MPI's mpirun kills all processes when this one exits, and exits with its code.
            ends_it: launched.by != Launcher::OpenMpi,
            host: host.to_owned(),
        }
    }

    /// A heartbeat came.
    pub fn heartbeat(&mut self, heartbeat: Heartbeat) {
        let now = Instant::now();
        let mut silence = self.heard.take().map_or(Silence::begin(now), |(_, silence)| silence);
        silence.end(heartbeat.heard(now));
        self.heard = Some((heartbeat, silence));
    }

    /// Checks how long process 0 has been silent. To be called several times a second.
    ///
    /// # Errors
    /// When that is too long. The error was printed, if this worker is one that says so.
    pub fn check(&mut self) -> Result<(), ExitError> {
        let Some((heartbeat, silence)) = &mut self.heard else { return Ok(()) };
        let length = silence.length(Instant::now());
        if length < self.limit {
            return Ok(());
        }
        let text = text(heartbeat, length);
        if self.tells {
            // Without a stderr there is nobody to tell.
            let _ = writeln!(Printable::new(io::stderr(), false), "busbw: {text}");
        }
        if self.ends_it && heartbeat.host == self.host {
            leftover::end(heartbeat.pid);
        }
        Err(ExitError::new(Exit::RankLost, text))
    }
}

fn limit(process: usize, relayed: bool) -> Duration {
    let others = if process == 1 { Duration::ZERO } else { OTHERS_DELAY };
    SILENCE_TIMEOUT + others + if relayed { RELAYED_DELAY } else { Duration::ZERO }
}

fn text(heartbeat: &Heartbeat, length: Duration) -> String {
    let Heartbeat { pid, host, idle_ms } = heartbeat;
    let hangs = if *idle_ms >= 1000 {
        format!(
            "its last heartbeat said that it had been busy with one thing for {} s, such as writing to a disk that does not answer",
            idle_ms / 1000
        )
    } else {
        "it is stopped, or its host or the network between hangs".to_owned()
    };
    format!(
        "process 0 of this run (process {pid} on {host}) has not answered for {} s: {hangs}; the run is ended. `ps -o stat= -p {pid}` on {host} prints T for a stopped process; if it is left there, kill -KILL {pid} ends it",
        length.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_how_long() {
        // Named within 15 s, by few.
        assert_eq!(limit(1, false), Duration::from_secs(10));
        assert_eq!(limit(999, false), Duration::from_secs(13));
        assert!(limit(1, true) > limit(999, false));
    }

    #[test]
    fn it_is_named_with_what_was_heard_last() {
        let launched = Launched { rank: 1, ..Launched::planned(2, true) };
        let mut silence = CoordinatorSilence::new(&launched, "b");
        assert!(silence.check().is_ok());
        silence.heartbeat(Heartbeat { pid: 77, host: "a".to_owned(), idle_ms: 0 });
        assert!(silence.check().is_ok());
        silence.heartbeat(Heartbeat { pid: 77, host: "a".to_owned(), idle_ms: 60_000 });
        let said = silence.check().unwrap_err().to_string();
        assert!(said.contains("(process 77 on a) has not answered for 60 s"), "{said}");
        assert!(said.contains("busy with one thing for 60 s"), "{said}");
    }
}
