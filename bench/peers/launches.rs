//! Launches of each side: busbw's ranks as processes of this program, the peers' by their mpirun.
//! Every side gets the same binding: a core each, or none when there are more ranks than cores.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

use super::{
    ours,
    points::{MAX_BUFFER_BYTES, Point},
};

/// Who is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// busbw.
    Busbw,
    /// busbw again, as its own opponent.
    Again,
    /// Open MPI.
    OpenMpi,
    /// MPICH.
    Mpich,
}

impl Side {
    /// A peer's compiler and name.
    fn mpi(self) -> Option<(&'static str, &'static str)> {
        match self {
            Side::OpenMpi => Some(("mpicc.openmpi", "openmpi")),
            Side::Mpich => Some(("mpicc.mpich", "mpich")),
            Side::Busbw | Side::Again => None,
        }
    }

    /// Whether it is busbw's own or one of the `peers`.
    pub fn is_wanted(self, peers: &[String]) -> bool {
        self.mpi().is_none_or(|(_, name)| peers.iter().any(|peer| peer == name))
    }
}

/// The order within a round.
pub const SIDES: [Side; 4] = [Side::Busbw, Side::OpenMpi, Side::Again, Side::Mpich];

/// Seconds after which a launch has failed: a peer that spins may take for ever on a busy machine.
const RUN_TIMEOUT_S: &str = "300";

/// Times of one point in one mode, microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// Mean over ranks.
    pub mean: f64,
    /// The slowest rank's.
    pub slowest: f64,
}

/// Of a launch: mode, collective, size.
pub type Lines = BTreeMap<(String, String, u64), Time>;

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The peers, compiled.
pub struct Peers {
    folder: TempDir,
}

impl Peers {
    /// Compiles the loop with each MPI's compiler.
    pub fn build(sides: &[Side], source: &Path) -> Result<Peers, String> {
        let folder = TempDir::new().map_err(|e| format!("cannot make a folder: {e}"))?;
        for (compiler, name) in sides.iter().filter_map(|side| side.mpi()) {
            let mut command = Command::new(compiler);
            command.args(["-O3", "-march=native", "-o"]).arg(folder.path().join(name)).arg(source);
            finish(&mut command)?;
        }
        Ok(Peers { folder })
    }

    /// One launch of one side over all points; its lines.
    pub fn launch(
        &self,
        side: Side,
        ranks: usize,
        points: &[Point],
        budget_us: f64,
    ) -> Result<Lines, String> {
        let arguments = || {
            let fixed = [MAX_BUFFER_BYTES.to_string(), budget_us.to_string()];
            fixed.into_iter().chain(points.iter().map(Point::to_string))
        };
        let output = match side {
            Side::Busbw | Side::Again => ours::launch(ranks, arguments())?,
            Side::OpenMpi => finish(self.open_mpi(ranks).args(arguments()))?,
            Side::Mpich => finish(self.mpich(ranks).args(arguments()))?,
        };
        read(&String::from_utf8_lossy(&output.stdout))
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open_mpi(&self, ranks: usize) -> Command {
        let mut command = Command::new("timeout");
        command.args([RUN_TIMEOUT_S, "mpirun.openmpi", "-n", &ranks.to_string()]);
        // It refuses root, in containers too, unless told twice.
        for allowed in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            command.env(allowed, "1");
        }
        if ranks <= cores() {
            command.args(["--bind-to", "core"]);
        } else {
            command.args(["--oversubscribe", "--bind-to", "none"]);
        }
        command.arg(self.program("openmpi"));
        command
    }

    fn mpich(&self, ranks: usize) -> Command {
        let mut command = Command::new("timeout");
        let binding = if ranks <= cores() { "core" } else { "none" };
        command.args([
            RUN_TIMEOUT_S,
            "mpiexec.hydra",
            "-n",
            &ranks.to_string(),
            "-bind-to",
            binding,
        ]);
        command.arg(self.program("mpich"));
        command
    }
}

/// Runs a command to its end; what it wrote, when it succeeded.
pub fn finish(command: &mut Command) -> Result<Output, String> {
    let name = format!("{:?}", command.get_program());
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {name}: {e}; is its package installed?"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{name}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn read(text: &str) -> Result<Lines, String> {
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let garbled = || format!("not a line of times: {line}");
            let [mode, collective, size, mean, slowest] = words[..] else { return Err(garbled()) };
            let time = Time {
                mean: mean.parse().map_err(|_| garbled())?,
                slowest: slowest.parse().map_err(|_| garbled())?,
            };
            let size = size.parse().map_err(|_| garbled())?;
            Ok(((mode.to_owned(), collective.to_owned(), size), time))
        })
        .collect()
}
