//! Options of `busbw plan`: what to expect of machines, and of a network, before anything is run.
//! Not the plan of a run (`planning`), and not the computation (`busbw_hardware`).

use std::path::PathBuf;

use busbw_core::{Collective, size};
use busbw_hardware::{limits::Algorithm, tuning::Version};
use clap::Args;

use super::fabrics::FabricArguments;

/// `busbw plan`.
pub(super) const PLAN: &str = "plan";

/// Headings of the options that belong to one question only.
const OF_COLLECTIVES: &str = "Options for a collective";
const OF_NETWORKS: &str = "Options for lossless, loss, incast and collisions";

/// The options that `-h` shows, so that it fits on a screen.
pub(super) const BRIEF: [&str; 10] = [
    "question",
    "machine",
    "from",
    "nodes",
    "gpus",
    "min_bytes",
    "max_bytes",
    "measured",
    "csv",
    "json",
];

/// The most hosts, GPUs, ports, flows and links that are taken: larger numbers are mistakes.
const MAX_COUNT: usize = 1_000_000;

/// Options of `busbw plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArguments {
    /// A collective; a fabric file and a collective; flows and a flow file; or a question about networks: lossless, loss, incast or
    /// collisions
    #[arg(value_name = "QUESTION", required_unless_present_any = ["example", "from"], num_args = 1..=2)]
    pub question: Vec<PathBuf>,
    /// The hosts: a ready machine's name, or any file that busbw topo reads [default: none, it is required]
    #[arg(long, value_name = "NAME|FILE", help_heading = OF_COLLECTIVES)]
    pub machine: Option<String>,
    /// Measured runs on two hosts or more (records, logs, folders, ids), to expect more hosts from; again for more
    /// [default: none, a machine is described]
    #[arg(long, value_name = "RUN", help_heading = OF_COLLECTIVES)]
    pub from: Vec<PathBuf>,
    /// Ranks of a host, where the runs of --from do not say how many hosts there were [default: as they say]
    #[arg(long, value_name = "N", value_parser = count(), requires = "from", help_heading = OF_COLLECTIVES)]
    pub per_node: Option<usize>,
    /// Hosts [default: the machine's; with --from, twice those of the runs]
    #[arg(long, value_name = "N", value_parser = count(), help_heading = OF_COLLECTIVES)]
    pub nodes: Option<usize>,
    /// GPUs, as many on each host of --nodes, else on as few hosts as hold them [default: all]
    #[arg(short = 'g', long, value_name = "N", value_parser = count(), help_heading = OF_COLLECTIVES)]
    pub gpus: Option<usize>,
    /// First size [default: 8]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = size_of, help_heading = OF_COLLECTIVES)]
    pub min_bytes: Option<u64>,
    /// Last size; sizes double [default: 8G]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = size_of, help_heading = OF_COLLECTIVES)]
    pub max_bytes: Option<u64>,
    /// A busbw in GB/s that somebody names: is it plausible? [default: none]
    #[arg(long, value_name = "GB/s", value_parser = positive, help_heading = OF_COLLECTIVES)]
    pub measured: Option<f64>,
    /// The size that --measured is of [default: the last]
    #[arg(long, value_name = "SIZE", value_parser = size_of, requires = "measured", help_heading = OF_COLLECTIVES)]
    pub size: Option<u64>,
    /// NCCL's release, whose cost model chooses: 2.18 to 2.30 [default: 2.30]
    #[arg(long, value_name = "VERSION", value_parser = release, help_heading = OF_COLLECTIVES)]
    pub nccl: Option<Version>,
    /// As with NCCL_ALGO: Ring, Tree, NVLS, NVLSTree, … [default: what NCCL's cost model chooses]
    #[arg(long, value_name = "NAME", value_parser = algorithm, help_heading = OF_COLLECTIVES)]
    pub algorithm: Option<Algorithm>,
    /// Rate of a port, such as 400G [default: none, lossless, loss and incast require it]
    #[arg(long, value_name = "Gb/s", value_parser = gigabits, help_heading = OF_NETWORKS)]
    pub rate: Option<f64>,
    /// Time there and back, such as 9us [default: none]
    #[arg(long, value_name = "TIME", value_parser = microseconds, help_heading = OF_NETWORKS)]
    pub round_trip: Option<f64>,
    /// Length of a cable, such as 100m: of PFC headroom alone [default: none]
    #[arg(long, value_name = "LENGTH", value_parser = metres, help_heading = OF_NETWORKS)]
    pub cable: Option<f64>,
    /// Ports of a switch [default: 1]
    #[arg(long, value_name = "N", value_parser = count(), help_heading = OF_NETWORKS)]
    pub ports: Option<usize>,
    /// Lossless classes of a port [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=8), help_heading = OF_NETWORKS)]
    pub classes: Option<usize>,
    /// Buffer of the switch, such as 165.2MB [default: none]
    #[arg(long, value_name = "BYTES", value_parser = buffer, help_heading = OF_NETWORKS)]
    pub buffer: Option<f64>,
    /// Factor on top of what is in flight [default: 1.5]
    #[arg(long, value_name = "FACTOR", value_parser = factor, help_heading = OF_NETWORKS)]
    pub margin: Option<f64>,
    /// Payload of a packet in bytes [default: 4096]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=65_536), help_heading = OF_NETWORKS)]
    pub mtu: Option<u32>,
    /// Share of packets that are lost, such as 0.1% [default: 0.1% and 1%]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = OF_NETWORKS)]
    pub drop: Option<f64>,
    /// Share of a step that is communication which nothing hides, for what loss costs of it [default: none]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = OF_NETWORKS)]
    pub exposed: Option<f64>,
    /// Flows at a time, each able to fill a link [default: one a link]
    #[arg(long, value_name = "N", value_parser = count(), help_heading = OF_NETWORKS)]
    pub flows: Option<usize>,
    /// Queue pairs of a flow, each hashed by itself [default: 1]
    #[arg(long, value_name = "N", value_parser = count(), help_heading = OF_NETWORKS)]
    pub queue_pairs: Option<usize>,
    /// Equal links that they are hashed onto [default: none, collisions requires it]
    #[arg(long, value_name = "N", value_parser = count(), help_heading = OF_NETWORKS)]
    pub uplinks: Option<usize>,
    /// Senders to one port at once, each by a port of its own [default: none, incast requires it]
    #[arg(long, value_name = "N", value_parser = count(), help_heading = OF_NETWORKS)]
    pub senders: Option<usize>,
    /// Bytes that a sender has on its way at most, or none [default: rate × round trip]
    #[arg(long, value_name = "BYTES", value_parser = window, help_heading = OF_NETWORKS)]
    pub window: Option<f64>,
    /// Of a fabric alone
    #[command(flatten)]
    pub fabric: FabricArguments,
    /// Draw it as an SVG file, too: busbw and time by size, or busbw by failed parts [default: none]
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print comma-separated values instead of the table
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn count() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..=MAX_COUNT as u64)
}

fn size_of(text: &str) -> Result<u64, String> {
    match size::parse(text) {
        Ok(0) => Err("0 bytes take no bandwidth: name a size such as 8 or 1G".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("'{text}' is no bandwidth in GB/s above 0, such as 469.67")),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (1.0..=100.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is no factor from 1 to 100, such as 1.5")),
    }
}

fn release(text: &str) -> Result<Version, String> {
    Version::from_text(text).ok_or_else(|| {
        format!("the cost model of '{text}' is not known: 2.18 to 2.30 are, such as 2.28.9")
    })
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::from_name(text).ok_or_else(|| {
        let known = Algorithm::ALL.map(Algorithm::name).join(", ");
        format!("'{text}' is no algorithm of NCCL; there are {known}")
    })
}

/// A number with one of some units, the first of which is meant where none stands; `what` says it in an error.
fn quantity(text: &str, units: &[(&str, f64)], what: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let digits =
        trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = trimmed.split_at(digits);
    let unit = unit.trim();
    let known = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let scale = if unit.is_empty() { units.first() } else { known };
    let value = number.parse::<f64>().ok().zip(scale).map(|(number, (_, scale))| number * scale);
    value
        .filter(|value| *value > 0.0 && *value < 1e15)
        .ok_or_else(|| format!("'{text}' is no {what}"))
}

/// Gb/s.
fn gigabits(text: &str) -> Result<f64, String> {
    let units = [
        ("G", 1.0),
        ("Gb/s", 1.0),
        ("Gbps", 1.0),
        ("Gbit/s", 1.0),
        ("M", 1e-3),
        ("Mb/s", 1e-3),
        ("T", 1e3),
        ("Tb/s", 1e3),
    ];
    quantity(text, &units, "rate in Gb/s above 0, such as 400G")
}

/// Microseconds.
fn microseconds(text: &str) -> Result<f64, String> {
    let units = [("us", 1.0), ("µs", 1.0), ("ns", 1e-3), ("ms", 1e3), ("s", 1e6)];
    quantity(text, &units, "time above 0, such as 9us or 1ms")
}

/// Metres.
fn metres(text: &str) -> Result<f64, String> {
    quantity(text, &[("m", 1.0), ("km", 1e3), ("cm", 1e-2)], "length above 0, such as 100m")
}

/// Bytes: MB is 10^6, MiB 2^20.
fn buffer(text: &str) -> Result<f64, String> {
    let units = [
        ("B", 1.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    quantity(text, &units, "size of a buffer above 0, such as 165.2MB (10^6) or 64MiB (2^20)")
}

/// Bytes of a window; without bound where there is none.
fn window(text: &str) -> Result<f64, String> {
    if text == "none" { Ok(f64::INFINITY) } else { buffer(text) }
}

/// `0.1%` or `0.001`, as a share.
fn share(text: &str) -> Result<f64, String> {
    let value = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().map(|percent| percent / 100.0),
        None => text.trim().parse::<f64>(),
    };
    value.ok().filter(|share| *share > 0.0 && *share < 1.0).ok_or_else(|| {
        format!("'{text}' is no share of packets between 0 and 1, such as 0.1% or 0.001")
    })
}

/// What is asked of `busbw plan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanQuestion {
    /// A collective, on the hosts of `--machine`.
    Machine(Collective),
    /// A collective on a fabric that a file describes.
    Fabric(PathBuf, Collective),
    /// Buffers of a fabric that must not drop.
    Lossless,
    /// Throughput where packets are lost.
    Loss,
    /// Several senders to one port.
    Incast,
    /// Flows that are hashed onto the same link.
    Collisions,
    /// When the flows of a file arrive.
    Flows(PathBuf),
    /// What runs let expect of more hosts; of one collective, or of all that ran.
    Runs(Option<Collective>),
}

impl PlanArguments {
    /// Refuses options of other questions, which would be read as if they counted.
    ///
    /// # Errors
    /// The first of them, and whose it is.
    pub fn refuse_others(&self, question: &PlanQuestion) -> Result<(), String> {
        let fabric = matches!(question, PlanQuestion::Fabric(..));
        let alone = matches!(question, PlanQuestion::Machine(_));
        let collective = alone || fabric;
        let hosts = "a collective on --machine";
        let (lossless, loss) =
            (*question == PlanQuestion::Lossless, *question == PlanQuestion::Loss);
        let collisions = *question == PlanQuestion::Collisions;
        let incast = *question == PlanQuestion::Incast;
        let flows = matches!(question, PlanQuestion::Flows(_));
        let runs = matches!(question, PlanQuestion::Runs(_));
        let all = [
            ("--machine", self.machine.is_some(), alone, hosts),
            ("--nodes", self.nodes.is_some(), alone || runs, "a collective on --machine or --from"),
            ("--gpus", self.gpus.is_some(), collective, "a collective"),
            (
                "-b",
                self.min_bytes.is_some(),
                collective || runs || incast,
                "a collective and incast",
            ),
            ("-e", self.max_bytes.is_some(), collective || runs, "a collective"),
            ("--measured", self.measured.is_some(), alone, hosts),
            ("--nccl", self.nccl.is_some(), collective, "a collective"),
            (
                "--algorithm",
                self.algorithm.is_some(),
                alone || runs,
                "a collective on --machine or --from",
            ),
            ("--job", self.fabric.job.is_some(), fabric, "a collective on a fabric file"),
            (
                "--placement",
                self.fabric.placement.is_some(),
                fabric,
                "a collective on a fabric file",
            ),
            ("--fail", !self.fabric.fail.is_empty(), fabric, "a collective on a fabric file"),
            ("--target", self.fabric.target.is_some(), fabric, "a collective on a fabric file"),
            ("--svg", self.svg.is_some(), collective, "a collective"),
            ("--csv", self.csv, collective || flows || runs, "a collective and flows"),
            (
                "--rate",
                self.rate.is_some(),
                lossless || loss || incast,
                "lossless, loss and incast",
            ),
            (
                "--round-trip",
                self.round_trip.is_some(),
                lossless || loss || incast,
                "lossless, loss and incast",
            ),
            ("--mtu", self.mtu.is_some(), lossless || loss || incast, "lossless, loss and incast"),
            ("--cable", self.cable.is_some(), lossless || incast, "lossless and incast"),
            ("--ports", self.ports.is_some(), lossless || incast, "lossless and incast"),
            ("--classes", self.classes.is_some(), lossless || incast, "lossless and incast"),
            ("--buffer", self.buffer.is_some(), lossless || incast, "lossless and incast"),
            ("--margin", self.margin.is_some(), lossless, "lossless"),
            ("--drop", self.drop.is_some(), loss, "loss"),
            ("--exposed", self.exposed.is_some(), loss, "loss"),
            ("--senders", self.senders.is_some(), incast, "incast"),
            ("--window", self.window.is_some(), incast, "incast"),
            ("--flows", self.flows.is_some(), collisions, "collisions"),
            ("--queue-pairs", self.queue_pairs.is_some(), collisions, "collisions"),
            ("--uplinks", self.uplinks.is_some(), collisions, "collisions"),
        ];
        match all.into_iter().find(|(_, given, belongs, _)| *given && !belongs) {
            Some((option, _, _, whose)) => {
                Err(format!("{option} is of {whose}; this question does not read it"))
            }
            None => Ok(()),
        }
    }

    /// What the words ask.
    ///
    /// # Errors
    /// Words that are none of these, with what would be.
    pub fn question(&self) -> Result<PlanQuestion, String> {
        let word =
            |at: usize| self.question.get(at).map(|word| word.to_string_lossy().into_owned());
        let first = word(0).unwrap_or_default();
        let meant = |word: &str| {
            let known = busbw_core::Benchmark::from_spelling(word)?.collective()?;
            known.moves_data().then_some(known)
        };
        if !self.from.is_empty() {
            return match (first.as_str(), word(1)) {
                ("", None) => Ok(PlanQuestion::Runs(None)),
                (one, None) if meant(one).is_some() => Ok(PlanQuestion::Runs(meant(one))),
                _ => Err("--from takes one collective, or none for all that ran".to_owned()),
            };
        }
        match (first.as_str(), word(1)) {
            ("lossless", None) => Ok(PlanQuestion::Lossless),
            ("loss", None) => Ok(PlanQuestion::Loss),
            ("incast", None) => Ok(PlanQuestion::Incast),
            ("collisions", None) => Ok(PlanQuestion::Collisions),
            ("flows", Some(file)) => Ok(PlanQuestion::Flows(PathBuf::from(file))),
            ("flows", None) => Err("flows takes a flow file: docs/fabric.md has one".to_owned()),
            (_, Some(second)) => match meant(&second) {
                Some(collective) if meant(&first).is_none() => {
                    Ok(PlanQuestion::Fabric(PathBuf::from(first), collective))
                }
                _ => Err(format!(
                    "'{first} {second}' is no question: name one collective, or a fabric file and then a collective"
                )),
            },
            (_, None) => meant(&first).map(PlanQuestion::Machine).ok_or_else(|| {
                format!(
                    "'{first}' is no collective that moves data, and not lossless, loss, incast, collisions or flows; a fabric file needs a collective behind it, such as all_reduce"
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::options::{Command, parse};

    fn read(line: &str) -> Result<PlanArguments, String> {
        let words = format!("busbw plan {line}");
        match parse(words.split_whitespace().map(OsString::from)) {
            Ok(Command::Plan(arguments)) => Ok(*arguments),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn questions() {
        let asked = |line: &str| read(line).expect("grammar").question();
        assert_eq!(asked("AllReduce"), Ok(PlanQuestion::Machine(Collective::AllReduce)));
        assert_eq!(asked("lossless --rate 400G"), Ok(PlanQuestion::Lossless));
        assert_eq!(asked("loss"), Ok(PlanQuestion::Loss));
        assert_eq!(asked("collisions --uplinks 8"), Ok(PlanQuestion::Collisions));
        let flows = PlanQuestion::Flows(PathBuf::from("flows.toml"));
        assert_eq!(asked("flows flows.toml"), Ok(flows));
        let fabric = PlanQuestion::Fabric(PathBuf::from("clos.toml"), Collective::AllToAll);
        assert_eq!(asked("clos.toml alltoall"), Ok(fabric));
        assert_eq!(asked("--from a --from b"), Ok(PlanQuestion::Runs(None)));
        let one = PlanQuestion::Runs(Some(Collective::AllGather));
        assert_eq!(asked("--from a all_gather"), Ok(one));
        for nonsense in [
            "--from a x",
            "--from a all_reduce alltoall",
            "clos.toml",
            "all_reduce alltoall",
            "barrier",
            "lossless all",
            "clos.toml x",
            "flows",
        ] {
            assert!(asked(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn values_with_their_units() {
        assert_eq!(gigabits("400G"), Ok(400.0));
        assert_eq!(gigabits("800"), Ok(800.0));
        assert_eq!(gigabits("1.6Tb/s"), Ok(1600.0));
        assert_eq!(microseconds("9us"), Ok(9.0));
        assert_eq!(microseconds("1.5 ms"), Ok(1500.0));
        assert_eq!(metres("100m"), Ok(100.0));
        assert_eq!(buffer("165.2MB"), Ok(165.2e6));
        assert_eq!(buffer("64MiB"), Ok(67_108_864.0));
        assert_eq!(share("0.1%"), Ok(0.001));
        assert_eq!(share("0.01"), Ok(0.01));
        for wrong in ["", "G", "-400G", "0", "400X", "nan", "1e99"] {
            assert!(gigabits(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "100%", "-1%", "x"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_sentence() {
        for (line, said) in [
            ("all_reduce --nodes 0", "1..=1000000"),
            ("all_reduce -b 0", "0 bytes"),
            ("all_reduce --measured -5", "-5"),
            ("all_reduce --measured=-5", "no bandwidth in GB/s above 0"),
            ("all_reduce --nccl 2.31.2", "2.18 to 2.30"),
            ("all_reduce --algorithm Star", "NVLSTree"),
            ("all_reduce --size 8G", "--measured"),
            ("lossless --rate fast", "such as 400G"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
