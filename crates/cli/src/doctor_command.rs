//! `busbw doctor`: looks at this node, and with `-g` or under a launcher has every rank take its fingerprint.
//! Not the judging (`doctor`).

use std::{
    ffi::OsString,
    io::{self, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use busbw_core::exit::Exit;
use busbw_ffi::{
    nvml,
    search::{Environment, Kind},
};

use crate::options::{self, DoctorArguments};
use busbw_core::exit::ExitError;
use busbw_core::hidden_commands::FINGERPRINT;
use busbw_host::{
    doctor::{self, Fingerprint, Node, Report},
    machine,
};
use busbw_render::answer::{answer, json_line};
use busbw_runner::launch;

/// How long ranks may take for their fingerprints: drivers that are not loaded start within seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks, prints, and says by the exit code whether something is wrong: 0 no, 1 yes. Processes of a launcher
/// are one doctor: the first one prints.
///
/// # Errors
/// Ranks that give no fingerprint, and stdout.
pub fn run(arguments: &DoctorArguments, args: &[OsString]) -> Result<Exit> {
    let mut environment = Environment::of_process();
    if let Some(path) = &arguments.nccl {
        environment = environment.with(Kind::Nccl.variable(), path);
    }
    let node = read(environment);
    let launched = options::Environment::read(|name| std::env::var(name).ok()).launched;
    let Some(launched) = launched else {
        let ranks = arguments.ranks.map(usize::from);
        let taken = ranks.map(|ranks| fingerprints(&node, ranks, arguments)).transpose()?;
        return report(&node, &taken.unwrap_or_default(), arguments);
    };
    if arguments.ranks.is_some() {
        let text = format!(
            "-g starts ranks on this host, and a launcher has started some already ({}): leave -g out",
            launched.variables
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let gpu = launched.local_rank.and_then(|place| u32::try_from(place).ok());
    let ours = Fingerprint::take(&node, &machine::host_name(), launched.rank, gpu);
    let said = serde_json::to_string(&ours).context("cannot serialise a fingerprint")?;
    launch::gather_from_all(&launched, args, said, |said| {
        let read = |(rank, text): (usize, &String)| {
            serde_json::from_str(text).with_context(|| format!("rank {rank} gave no fingerprint"))
        };
        let taken = said.iter().enumerate().map(read).collect::<Result<Vec<Fingerprint>>>()?;
        report(&node, &taken, arguments)
    })
}

/// Prints what is found at this node, and in what ranks differ.
fn report(node: &Node, taken: &[Fingerprint], arguments: &DoctorArguments) -> Result<Exit> {
    let mut findings = doctor::look(node);
    findings.extend(doctor::compare(taken).iter().flat_map(doctor::Difference::findings));
    let ranks = Some(taken.len()).filter(|ranks| *ranks > 0);
    let report = Report::new(&machine::host_name(), ranks, findings);
    let exit = if report.verdict.is_wrong() { Exit::Internal } else { Exit::Ok };
    answer(
        |out, colour| {
            if arguments.json { json_line(out, &report) } else { report.print(out, colour) }
        },
    )?;
    Ok(exit)
}

/// One rank's part: its fingerprint as a line of JSON on stdout.
///
/// # Errors
/// When stdout fails.
pub fn fingerprint(rank: usize) -> Result<Exit> {
    let node = read(Environment::of_process());
    let gpu = u32::try_from(rank).ok();
    let taken = Fingerprint::take(&node, &machine::host_name(), rank, gpu);
    let line = serde_json::to_string(&taken).context("cannot serialise a fingerprint")?;
    writeln!(io::stdout(), "{line}").context("cannot write to stdout")?;
    Ok(Exit::Ok)
}

fn read(environment: Environment) -> Node {
    let driver = nvml::driver().map_err(|why| why.to_string());
    Node::read(machine::Root::system(), environment, driver)
}

/// Starts a process for each rank and gathers what they say; none outlives this function.
fn fingerprints(
    node: &Node,
    ranks: usize,
    arguments: &DoctorArguments,
) -> Result<Vec<Fingerprint>> {
    let gpus = node.gpu_count();
    if gpus > 0 && ranks > gpus {
        let text = format!("-g {ranks}: this node has {gpus} GPUs");
        return Err(ExitError::new(Exit::Impossible, text).into());
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut started = Started(Vec::new());
    let (said, heard) = mpsc::channel();
    for rank in 0..ranks {
        let mut command = Command::new(&program);
        command.arg(FINGERPRINT).arg(rank.to_string());
        if let Some(path) = &arguments.nccl {
            command.env(Kind::Nccl.variable(), path);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start rank {rank}, {}", program.display()))?;
        let stdout = child.stdout.take();
        started.0.push(child);
        let said = said.clone();
        std::thread::Builder::new()
            .name("fingerprint".to_owned())
            .spawn(move || {
                let text = stdout.map(io::read_to_string).transpose();
                let _ = said.send((rank, text.map(Option::unwrap_or_default)));
            })
            .context("cannot start a thread for a rank")?;
    }
    let by = Instant::now() + PATIENCE;
    let mut taken: Vec<Option<Fingerprint>> = vec![None; ranks];
    while let Some(missing) = taken.iter().position(Option::is_none) {
        let left = by.saturating_duration_since(Instant::now());
        let Ok((rank, text)) = heard.recv_timeout(left) else {
            bail!("rank {missing} gave no fingerprint within {} s", PATIENCE.as_secs());
        };
        let text = text.with_context(|| format!("cannot read from rank {rank}"))?;
        let read = serde_json::from_str(&text);
        taken[rank] = Some(read.with_context(|| format!("rank {rank} gave no fingerprint"))?);
    }
    Ok(taken.into_iter().flatten().collect())
}

/// Processes that end with this value.
struct Started(Vec<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
