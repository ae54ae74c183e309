//! `compare --by nodes`: how a machine keeps its speed as it grows.
//! Not two machines against each other.

use std::io::{self, Write};

use anyhow::Result;
use model::{
    comparison::{Scaled, Side, scale},
    exit::Exit,
};

use super::{say, sides::Source};
use crate::{
    answer::{Out, answer, json_line},
    columns::aligned,
    options::CompareArguments,
    quantity::{bytes, rate},
};

/// Prints the efficiency of every point that was measured on several numbers of ranks.
pub(super) fn run(arguments: &CompareArguments, sources: &[Source]) -> Result<Exit> {
    let sides: Vec<Side> = sources.iter().map(|source| source.side.clone()).collect();
    let scaled = scale(&sides);
    if scaled.is_empty() {
        say(
            "nothing was compared: no point was measured on several numbers of ranks, with a bus bandwidth",
        );
        return Ok(Exit::Internal);
    }
    answer(|out, _| match arguments.json {
        true => scaled.iter().try_for_each(|one| json_line(out, one)),
        false => print(out, &scaled, sources),
    })?;
    let failed: Vec<String> = arguments.fail_below.map_or(Vec::new(), |least| {
        let steps = scaled.iter().flat_map(|one| one.steps.iter().map(move |step| (one, step)));
        let below = steps.filter(|(_, step)| step.efficiency < least);
        below.map(|(one, step)| sentence(one, step.ranks, step.efficiency)).collect()
    });
    for one in &failed {
        say(&format!("below {}: {one}", arguments.fail_below.unwrap_or_default()));
    }
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::Internal })
}

fn sentence(one: &Scaled, ranks: usize, efficiency: f64) -> String {
    let place = if one.point.in_place { " in place" } else { "" };
    format!(
        "{}, {}{place}: on {ranks} ranks {:.1} % of that bus bandwidth",
        one.point.case(),
        bytes(one.point.size),
        efficiency * 100.0
    )
}

fn print(out: &mut Out, scaled: &[Scaled], sources: &[Source]) -> io::Result<()> {
    writeln!(
        out,
        "# busbw compare --by nodes: busbw in GB/s, and its share of that on the fewest ranks"
    )?;
    for source in sources {
        writeln!(out, "# {}: {}", source.side.name, source.about)?;
    }
    let mut cases: Vec<String> = scaled.iter().map(|one| one.point.case()).collect();
    cases.dedup();
    for case in cases {
        let rows: Vec<&Scaled> = scaled.iter().filter(|one| one.point.case() == case).collect();
        let mut ranks: Vec<usize> =
            rows.iter().flat_map(|row| row.steps.iter().map(|step| step.ranks)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut lines = vec![vec!["size".to_owned(), "place".to_owned()]];
        for (number, ranks) in ranks.iter().enumerate() {
            lines[0].push(format!("{ranks} ranks"));
            if number > 0 {
                lines[0].push("%".to_owned());
            }
        }
        for row in rows {
            let place = if row.point.in_place { "in" } else { "out" };
            let mut line = vec![bytes(row.point.size).replace(' ', ""), place.to_owned()];
            for (number, ranks) in ranks.iter().enumerate() {
                let step = row.steps.iter().find(|step| step.ranks == *ranks);
                let busbw = step.and_then(|step| step.times.busbw);
                line.push(busbw.map_or("-".to_owned(), rate));
                if number > 0 {
                    let share = step.map(|step| format!("{:.1}", step.efficiency * 100.0));
                    line.push(share.unwrap_or_else(|| "-".to_owned()));
                }
            }
            lines.push(line);
        }
        write!(out, "#\n# {}\n{}", case.split(", ").next().unwrap_or(&case), aligned(&lines))?;
    }
    Ok(())
}
