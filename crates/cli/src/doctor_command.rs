//! `busbw doctor`: checks this node; with `-g` or under a launcher also compares the fingerprints of all ranks.
//! Not the checks (`busbw_host::doctor`).

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

/// Time limit for the fingerprints of all ranks: a driver that is not loaded yet starts within seconds.
const FINGERPRINT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the checks and prints the findings. The exit code is 0 if nothing is wrong, else 1. Of the
/// processes of a launcher only the first prints.
///
/// # Errors
/// A rank gives no fingerprint, or stdout cannot be written.
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
            "-g starts ranks on this host, but a launcher has already started them ({}): leave -g out",
            launched.variables
        );
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    let gpu = launched.local_rank.and_then(|place| u32::try_from(place).ok());
    let ours = Fingerprint::take(&node, &machine::host_name(), launched.rank, gpu);
    let text = serde_json::to_string(&ours).context("cannot serialise a fingerprint")?;
    launch::gather_from_all(&launched, args, text, |texts| {
        let read = |(rank, text): (usize, &String)| {
            serde_json::from_str(text).with_context(|| format!("rank {rank} gave no fingerprint"))
        };
        let taken = texts.iter().enumerate().map(read).collect::<Result<Vec<Fingerprint>>>()?;
        report(&node, &taken, arguments)
    })
}

/// Prints the findings of this node, and the facts in which ranks differ.
fn report(node: &Node, taken: &[Fingerprint], arguments: &DoctorArguments) -> Result<Exit> {
    let mut findings = doctor::check(node);
    findings.extend(doctor::compare(taken).iter().flat_map(doctor::Difference::findings));
    let ranks = Some(taken.len()).filter(|ranks| *ranks > 0);
    let report = Report::new(&machine::host_name(), ranks, findings);
    let exit = if report.severity.is_wrong() { Exit::Internal } else { Exit::Ok };
    answer(
        |out, colour| {
            if arguments.json { json_line(out, &report) } else { report.print(out, colour) }
        },
    )?;
    Ok(exit)
}

/// Runs in a rank: prints its fingerprint as a line of JSON on stdout.
///
/// # Errors
/// stdout cannot be written.
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

/// Starts a process for each rank and reads their fingerprints. No process outlives this function.
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
    let (sender, receiver) = mpsc::channel();
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
        let sender = sender.clone();
        std::thread::Builder::new()
            .name("fingerprint".to_owned())
            .spawn(move || {
                let text = stdout.map(io::read_to_string).transpose();
                let _ = sender.send((rank, text.map(Option::unwrap_or_default)));
            })
            .context("cannot start a thread for a rank")?;
    }
    let by = Instant::now() + FINGERPRINT_TIMEOUT;
    let mut taken: Vec<Option<Fingerprint>> = vec![None; ranks];
    while let Some(missing) = taken.iter().position(Option::is_none) {
        let left = by.saturating_duration_since(Instant::now());
        let Ok((rank, text)) = receiver.recv_timeout(left) else {
            bail!("rank {missing} gave no fingerprint within {} s", FINGERPRINT_TIMEOUT.as_secs());
        };
        let text = text.with_context(|| format!("cannot read from rank {rank}"))?;
        let read = serde_json::from_str(&text);
        taken[rank] = Some(read.with_context(|| format!("rank {rank} gave no fingerprint"))?);
    }
    Ok(taken.into_iter().flatten().collect())
}

/// Child processes; dropping the value kills them.
struct Started(Vec<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
