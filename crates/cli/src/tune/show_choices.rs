//! What a tuner's file makes NCCL choose, by collective and size, without NCCL: `busbw tune --show FILE`.
//! Not whether NCCL can run it: its table of costs says so at every call.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use busbw_core::{exit::Exit, quantity::count};
use busbw_render::answer::{answer, json_line};
use busbw_runner::backend::nccl::tuner;
use busbw_store as store;
use busbw_tuner_file::{Choices, Collective, Reference, TunerFile};
use serde::Serialize;

/// The number of what `--json` prints; a changed key raises it.
const SCHEMA: u32 = 1;
/// The most kinds of communicators that are printed at once.
const MOST_KINDS: usize = 32;

/// Prints the decisions of `file`, or of the file of the tuning with that id, for communicators of `ranks` ranks on `nodes` nodes; where one is not given, for every number
/// of them that the file tells apart.
///
/// # Errors
/// The file cannot be read or used, tells too many communicators apart, or stdout cannot be written.
pub(crate) fn run(file: &Path, ranks: Option<u32>, nodes: Option<u32>, json: bool) -> Result<Exit> {
    let (reference, read) = tuner::read(&of_tuning(file)?)?;
    if let (Some(ranks), Some(nodes)) = (ranks, nodes)
        && nodes > ranks
    {
        bail!("--nodes {nodes} is more than --ranks {ranks}: a node has at least one rank");
    }
    let shown = Shown::new(&reference, &read, ranks, nodes)?;
    answer(|out, _| if json { json_line(out, &shown) } else { shown.write(out) })?;
    Ok(Exit::Ok)
}

/// The file itself, or that of the tuning whose id `busbw list` shows.
fn of_tuning(file: &Path) -> Result<PathBuf> {
    let Some(result) = store::find_result(file).ok().filter(|_| !file.exists()) else {
        return Ok(file.to_owned());
    };
    let chosen = result.with_extension("csv");
    if !chosen.is_file() {
        let id = file.display();
        bail!("--show {id}: that tuning made no tuner's file; busbw show {id} prints its result");
    }
    Ok(chosen)
}

/// What is shown.
#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    /// The value of BUSBW_TUNER for this file.
    variable: String,
    /// Lines with a choice.
    lines: usize,
    communicators: Vec<Communicators>,
}

/// The decisions for communicators of one kind; the last kind stands for all that is not before it.
#[derive(Debug, Serialize)]
struct Communicators {
    /// Ranks; absent for any number.
    ranks: Option<u32>,
    /// Nodes; absent for any number.
    nodes: Option<u32>,
    choices: Vec<Choice>,
}

/// One range of sizes.
#[derive(Debug, PartialEq, Serialize)]
struct Choice {
    collective: &'static str,
    /// Operations that NCCL runs as one; absent for numbers without choices of their own.
    operations: Option<u32>,
    least_bytes: u64,
    most_bytes: u64,
    /// Absent where the file chooses nothing.
    algorithm: Option<&'static str>,
    protocol: Option<&'static str>,
    /// Absent where NCCL chooses them.
    channels: Option<u8>,
}

impl Shown {
    fn new(
        reference: &Reference,
        file: &TunerFile,
        ranks: Option<u32>,
        nodes: Option<u32>,
    ) -> Result<Shown> {
        let named = |given: Option<u32>, all: BTreeSet<u32>| match given {
            Some(number) => vec![Some(number)],
            None => all.into_iter().map(Some).chain([None]).collect(),
        };
        let ranks = named(ranks, file.entries.iter().filter_map(|entry| entry.ranks).collect());
        let nodes = named(nodes, file.entries.iter().filter_map(|entry| entry.nodes).collect());
        let kinds: Vec<(Option<u32>, Option<u32>)> = ranks
            .iter()
            .flat_map(|&ranks| nodes.iter().map(move |&nodes| (ranks, nodes)))
            .filter(|kind| !matches!(kind, (Some(ranks), Some(nodes)) if nodes > ranks))
            .take(MOST_KINDS + 1)
            .collect();
        if kinds.len() > MOST_KINDS {
            bail!(
                "{} tells more than {MOST_KINDS} kinds of communicators apart: say which one with --ranks and --nodes",
                reference.file.display()
            );
        }
        let communicators = kinds.into_iter().map(|(ranks, nodes)| {
            // An entry is for at least one rank and one node: 0 stands for numbers that no entry names.
            let number = |given: Option<u32>| u64::from(given.unwrap_or(0));
            let choices = Choices::new(file, number(ranks), number(nodes));
            Communicators { ranks, nodes, choices: of(&choices) }
        });
        let mut communicators: Vec<Communicators> = communicators.collect();
        // The last kind is all that the file does not name: what is chosen alike needs no kind of its own, unless a kind
        // that is shown would seem to cover it.
        if let Some(rest) = communicators.pop() {
            let differs = |one: &Communicators| one.choices != rest.choices;
            let shown = |one: &Communicators| {
                communicators.iter().any(|other| differs(other) && other.covers(one))
            };
            let mut shown = communicators.iter().map(shown).collect::<Vec<bool>>().into_iter();
            communicators.retain(|_| shown.next().unwrap_or(true));
            communicators.push(rest);
        }
        Ok(Shown {
            schema: SCHEMA,
            variable: reference.to_string(),
            lines: file.entries.len(),
            communicators,
        })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}: BUSBW_TUNER={}", count(self.lines as u64, "line"), self.variable)?;
        for (place, one) in self.communicators.iter().enumerate() {
            let number = |given: Option<u32>, what| {
                given.map_or(format!("any number of {what}s"), |number| count(number, what))
            };
            let otherwise =
                if place > 0 && place + 1 == self.communicators.len() { "otherwise: " } else { "" };
            let (ranks, nodes) = (number(one.ranks, "rank"), number(one.nodes, "node"));
            writeln!(out, "\n{otherwise}{ranks} on {nodes}")?;
            if one.choices.is_empty() {
                writeln!(out, "  no line is for them: NCCL chooses")?;
                continue;
            }
            writeln!(
                out,
                "  {:<14} {:>10} {:>20} {:>20}  {:<14} {:<8} channels",
                "collective", "operations", "from, bytes", "to, bytes", "algorithm", "protocol"
            )?;
            one.choices.iter().try_for_each(|choice| choice.write(out))?;
        }
        Ok(())
    }
}

impl Communicators {
    /// Whether all of the other kind are of this one.
    fn covers(&self, other: &Communicators) -> bool {
        (self.ranks.is_none() || self.ranks == other.ranks)
            && (self.nodes.is_none() || self.nodes == other.nodes)
    }
}

impl Choice {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let most = match self.most_bytes {
            u64::MAX => "all".to_owned(),
            most => most.to_string(),
        };
        let operations = self.operations.map_or("any".to_owned(), |number| number.to_string());
        write!(
            out,
            "  {:<14} {operations:>10} {:>20} {most:>20}  ",
            self.collective, self.least_bytes
        )?;
        let (Some(algorithm), Some(protocol)) = (self.algorithm, self.protocol) else {
            return writeln!(out, "NCCL chooses");
        };
        let channels = self.channels.map_or("NCCL's".to_owned(), |number| number.to_string());
        writeln!(out, "{algorithm:<14} {protocol:<8} {channels}")
    }
}

/// The ranges of all collectives for which there is a line.
fn of(choices: &Choices) -> Vec<Choice> {
    let mut all = Vec::new();
    for &collective in Collective::ALL {
        let any = choices.ranges(collective, 0);
        let named = choices.operations(collective).into_iter().map(Some);
        for operations in named.chain([None]) {
            let ranges = choices.ranges(collective, operations.unwrap_or(0));
            let alike = operations.is_some() && ranges == any;
            if alike || ranges.iter().all(|range| range.entry.is_none()) {
                continue;
            }
            all.extend(ranges.into_iter().map(|range| Choice {
                collective: collective.word(),
                operations,
                least_bytes: range.least_bytes,
                most_bytes: range.most_bytes,
                algorithm: range.entry.map(|entry| entry.algorithm.word()),
                protocol: range.entry.map(|entry| entry.protocol.word()),
                channels: range.entry.and_then(|entry| entry.channels),
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_tuner_file::Digest;

    const FILE: &str = "\
allreduce,0,65535,ring,ll,4,-1,-1
allreduce,65536,1048575,tree,simple,0,2,16
allreduce,0,1048575,ring,ll128,8,-1,-1,2
allgather,1024,18446744073709551615,ring,simple,16,-1,-1
";

    fn shown(text: &str, ranks: Option<u32>, nodes: Option<u32>) -> Result<Shown> {
        let file = TunerFile::parse(text.as_bytes()).unwrap();
        let digest = Digest::of(text.as_bytes());
        let reference = Reference { file: "/etc/tuner.csv".into(), digest };
        Shown::new(&reference, &file, ranks, nodes)
    }

    fn text(ranks: Option<u32>, nodes: Option<u32>) -> String {
        let mut out = Vec::new();
        shown(FILE, ranks, nodes).unwrap().write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn of_one_communicator() {
        insta::assert_snapshot!(text(Some(16), Some(2)), @r#"
        4 lines: BUSBW_TUNER=/etc/tuner.csv#sha256=241a79b4d3619e0e318d865ecbd2226a1667fbebd8029f77b51ee46a9427ab86

        16 ranks on 2 nodes
          collective     operations          from, bytes            to, bytes  algorithm      protocol channels
          allgather             any                    0                 1023  NCCL chooses
          allgather             any                 1024                  all  ring           simple   16
          allreduce             any                    0                65535  ring           ll       4
          allreduce             any                65536              1048575  tree           simple   NCCL's
          allreduce             any              1048576                  all  NCCL chooses
        "#);
    }

    #[test]
    fn of_every_communicator_that_the_file_tells_apart() {
        insta::assert_snapshot!(text(None, None), @r#"
        4 lines: BUSBW_TUNER=/etc/tuner.csv#sha256=241a79b4d3619e0e318d865ecbd2226a1667fbebd8029f77b51ee46a9427ab86

        16 ranks on 2 nodes
          collective     operations          from, bytes            to, bytes  algorithm      protocol channels
          allgather             any                    0                 1023  NCCL chooses
          allgather             any                 1024                  all  ring           simple   16
          allreduce             any                    0                65535  ring           ll       4
          allreduce             any                65536              1048575  tree           simple   NCCL's
          allreduce             any              1048576                  all  NCCL chooses

        otherwise: any number of ranks on any number of nodes
          collective     operations          from, bytes            to, bytes  algorithm      protocol channels
          allgather             any                    0                 1023  NCCL chooses
          allgather             any                 1024                  all  ring           simple   16
          allreduce               2                    0                65535  ring           ll       4
          allreduce               2                65536              1048575  ring           ll128    8
          allreduce               2              1048576                  all  NCCL chooses
          allreduce             any                    0                65535  ring           ll       4
          allreduce             any                65536                  all  NCCL chooses
        "#);
    }

    #[test]
    fn as_json() {
        let json = serde_json::to_string_pretty(
            &shown("reduce,8,9,ring,ll,-1,-1,-1\n", Some(8), None).unwrap(),
        );
        insta::assert_snapshot!(json.unwrap(), @r#"
        {
          "schema": 1,
          "variable": "/etc/tuner.csv#sha256=4b0c3ddfe7cc6368b55d8502afe4b92072df5093b6c9ea5a32b189813b2d6830",
          "lines": 1,
          "communicators": [
            {
              "ranks": 8,
              "nodes": null,
              "choices": [
                {
                  "collective": "reduce",
                  "operations": null,
                  "least_bytes": 0,
                  "most_bytes": 7,
                  "algorithm": null,
                  "protocol": null,
                  "channels": null
                },
                {
                  "collective": "reduce",
                  "operations": null,
                  "least_bytes": 8,
                  "most_bytes": 9,
                  "algorithm": "ring",
                  "protocol": "ll",
                  "channels": null
                },
                {
                  "collective": "reduce",
                  "operations": null,
                  "least_bytes": 10,
                  "most_bytes": 18446744073709551615,
                  "algorithm": null,
                  "protocol": null,
                  "channels": null
                }
              ]
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_kind_that_another_would_seem_to_cover_is_shown() {
        let lines = "allreduce,0,9,ring,ll,4,2,16\nallreduce,0,9,tree,ll,4,-1,16\nallreduce,0,9,ring,ll,4,-1,-1\n";
        let shown = shown(lines, None, None).unwrap();
        let kinds: Vec<_> = shown.communicators.iter().map(|one| (one.ranks, one.nodes)).collect();
        assert_eq!(kinds, [(Some(16), Some(2)), (Some(16), None), (None, None)]);
    }

    #[test]
    fn too_many_kinds_are_asked_for_one() {
        let lines = (1..40).map(|ranks| format!("allreduce,0,9,ring,ll,4,-1,{ranks}\n"));
        let why = shown(&lines.collect::<String>(), None, None).unwrap_err().to_string();
        assert!(why.contains("--ranks and --nodes"), "{why}");
    }

    #[test]
    fn a_file_without_lines_chooses_nothing() {
        let mut out = Vec::new();
        shown("# none\n", Some(8), Some(1)).unwrap().write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("0 lines") && text.contains("no line is for them"), "{text}");
    }
}
