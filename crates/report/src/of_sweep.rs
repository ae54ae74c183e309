//! Converts the result of a sweep into the data of the page.
//! Not its verdicts (`busbw-analysis`, `busbw-cli`).

use busbw_stats::Verdict;

use super::data::{Cell, Environment, Line, LineKind, Series, Sweep, SweepRow};
use busbw_analysis::sweep::{Outcome, Percent, Show, Tried};
use busbw_core::{DataType, record::Figures, shell::line};
use busbw_logs::measurement::Row;

/// The title of each sweep, with a number where there are several.
pub(super) fn titles(outcomes: &[Outcome]) -> Vec<String> {
    let title = |(number, outcome): (usize, &Outcome)| {
        let kind = if outcome.command == "transports" { "Transports" } else { "Environments" };
        if outcomes.len() > 1 { format!("{kind} {}", number + 1) } else { kind.to_owned() }
    };
    outcomes.iter().enumerate().map(title).collect()
}

/// The data of a sweep.
pub(super) fn sweep(title: &str, outcome: &Outcome) -> Sweep {
    let (unit, figure) = match outcome.show {
        Show::Busbw => ("GB/s", "bus bandwidth"),
        Show::Algbw => ("GB/s", "algorithm bandwidth"),
        Show::Time => ("us", "time"),
    };
    let baseline = outcome.baseline.and_then(|number| outcome.environments.get(number));
    Sweep {
        title: title.to_owned(),
        command: outcome.command.clone(),
        subject: format!("{}, {}", outcome.program, outcome.on),
        unit: unit.to_owned(),
        figure: figure.to_owned(),
        launches: outcome.launches,
        sentence: busbw_analysis::sweep::sentence(outcome)
            .map(|sentence| sentence.replacen("fastest: ", "the fastest is ", 1)),
        baseline: baseline.map(|environment| environment.name.clone()),
        environments: outcome.environments.iter().map(environment).collect(),
        sizes: (0..outcome.rows.len()).filter_map(|number| row(outcome, number)).collect(),
        invocation: line(outcome.args.iter().map(String::as_str)),
    }
}

fn environment(tried: &Tried) -> Environment {
    let (status, why) = match (&tried.waived, &tried.failed, &tried.transport) {
        (Some(reason), ..) => ("waived".to_owned(), Some(reason.clone())),
        (None, Some(failed), _) => {
            ("failed".to_owned(), Some(format!("exit {}: {}", failed.exit, failed.reason)))
        }
        (None, None, Some(transport)) => {
            let ran = format!("{} ran, by {}", transport.found, transport.by());
            let ran = (!transport.found.is_empty()).then_some(ran);
            let why = [ran, transport.why.clone()].into_iter().flatten().collect::<Vec<_>>();
            (
                transport.verdict.word().to_lowercase(),
                Some(why.join("; ")).filter(|why| !why.is_empty()),
            )
        }
        (None, None, None) if tried.launches == 0 => ("not run".to_owned(), None),
        (None, None, None) => ("measured".to_owned(), None),
    };
    Environment { name: tried.name.clone(), settings: tried.settings(), status, why }
}

fn row(outcome: &Outcome, number: usize) -> Option<SweepRow> {
    let row = outcome.rows.get(number)?;
    let is_last = number + 1 == outcome.rows.len();
    let time = |number: usize| {
        let cell = row.cell(number)?;
        cell.comparable().map(|_| cell.time_us)
    };
    let times = || (0..row.cells.len()).filter_map(time);
    // Without a baseline, the slowest is what others are multiples of.
    let base = match outcome.baseline {
        Some(number) => time(number),
        None => times().reduce(f64::max),
    };
    let cell = |number: usize| {
        let cell = row.cell(number)?;
        let value = match outcome.show {
            Show::Busbw => cell.busbw,
            Show::Algbw => cell.algbw,
            Show::Time => cell.time_us,
        };
        // Bandwidths are a number of bytes over the time.
        let scaled = |us: f64| match outcome.show {
            Show::Time => us,
            Show::Busbw | Show::Algbw => value * cell.time_us / us,
        };
        let interval = cell.interval_us.map(|interval| {
            let ends = [scaled(interval.low), scaled(interval.high)];
            if ends[0] <= ends[1] { ends } else { [ends[1], ends[0]] }
        });
        let percent =
            cell.limit.filter(|limit| *limit > 0.0).map(|limit| cell.busbw / limit * 100.0);
        let transport = outcome.environments.get(number)?.transport.as_ref();
        let at_largest = match transport.and_then(|transport| transport.limit.as_ref()) {
            Some(Percent::Known(percent)) if is_last => Some(*percent),
            _ => None,
        };
        let against = cell.against.as_ref().map(|against| match against.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Inconclusive(_) => "inconclusive",
        });
        Some(Cell {
            value,
            interval: interval.filter(|ends| ends.iter().all(|end| end.is_finite())),
            multiple: base
                .zip(time(number))
                .map(|(base, own)| base / own)
                .filter(|ratio| ratio.is_finite()),
            against: against.map(str::to_owned),
            percent: percent.or(at_largest),
        })
    };
    Some(SweepRow { label: row.label(), cells: (0..row.cells.len()).map(cell).collect() })
}

/// The hardware's limit of an environment at the largest size: bus bandwidth, GB/s.
pub(super) fn limit(outcome: &Outcome, number: usize) -> Option<f64> {
    let cell = outcome.rows.last()?.cell(number)?;
    let transport = outcome.environments.get(number)?.transport.as_ref();
    let of_percent = match transport.and_then(|transport| transport.limit.as_ref()) {
        Some(Percent::Known(percent)) if *percent > 0.0 => Some(cell.busbw / percent * 100.0),
        _ => None,
    };
    cell.limit.or(of_percent).filter(|busbw| busbw.is_finite() && *busbw > 0.0)
}

/// The series that charts draw over sizes: one for each environment with figures.
pub fn series(title: &str, outcome: &Outcome) -> Vec<Series> {
    let of = |(number, tried): (usize, &Tried)| {
        let rows: Vec<Row> = outcome
            .rows
            .iter()
            .filter_map(|row| {
                let cell = row.cell(number)?;
                let half = Figures {
                    time_us: Some(cell.time_us),
                    interval_us: cell.interval_us,
                    algbw: Some(cell.algbw),
                    busbw: Some(cell.busbw),
                    ..Figures::default()
                };
                Some(Row {
                    size: row.size,
                    datatype: row.case.first().and_then(|name| DataType::from_name(name)),
                    op: row.case.get(1).filter(|op| !op.trim().is_empty()).cloned(),
                    out_of_place: Some(half),
                    ..Row::default()
                })
            })
            .collect();
        let name = tried.name.clone();
        let lines = limit(outcome, number).map(|busbw| Line {
            kind: LineKind::Payload,
            by: name.clone(),
            busbw,
        });
        (!rows.is_empty()).then(|| Series {
            name,
            test: title.to_owned(),
            latency: outcome.show == Show::Time,
            rows,
            lines: lines.into_iter().collect(),
        })
    };
    outcome.environments.iter().enumerate().filter_map(of).collect()
}
