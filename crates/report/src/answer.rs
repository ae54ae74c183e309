//! The first screen of the page: how fast, how good, what to do, of what needs it most.
//! Not the judgement (`busbw_analysis`), and not the answer of pairs (`of_pairs`).

use busbw_analysis::{
    explain::{Explanation, Verdict, main_findings},
    sweep::{Outcome, Show, overall},
};
use busbw_core::{
    quantity::{bytes, rate, time},
    shell::{line, quoted},
};

use crate::{
    data::{Answer, Level, Remedy},
    summary,
};

/// Of several answers the one that needs most attention: the worst level, and within it the lowest share of the limit.
pub(super) fn worst(answers: impl Iterator<Item = Answer>) -> Option<Answer> {
    let share = |answer: &Answer| answer.percent.unwrap_or(f64::INFINITY);
    answers.min_by(|a, b| {
        let levels = b.level.cmp(&a.level);
        levels.then(share(a).total_cmp(&share(b)))
    })
}

/// A run's answer.
pub(super) fn of_run(name: &str, told: &Explanation, wrong: Option<u64>) -> Answer {
    let is_wrong = wrong.is_some_and(|wrong| wrong > 0);
    let (level, word) = match told.verdict {
        // Also where the benchmark ended itself for that reason.
        _ if is_wrong => (Level::Bad, "Wrong data"),
        Verdict::Failed => (Level::Bad, "Failed"),
        Verdict::Hanging => (Level::Bad, "Hanging"),
        Verdict::WrongFigures => (Level::Bad, "Wrong figures"),
        Verdict::Slow => (Level::Slow, "Slow"),
        Verdict::NotThereYet => (Level::Note, "Sizes too small"),
        Verdict::Healthy => (Level::Good, "Healthy"),
        Verdict::Unknown if told.measured.is_some() => (Level::Unknown, "Limit unknown"),
        Verdict::Unknown => (Level::Unknown, "No figures"),
    };
    let measured = told.measured.as_ref();
    let figure = measured.and_then(|one| match (one.busbw, one.time_us) {
        (Some(busbw), _) => Some((rate(busbw), "GB/s".to_owned())),
        (None, Some(us)) => {
            time(us).split_once(' ').map(|(n, unit)| (n.to_owned(), unit.to_owned()))
        }
        (None, None) => None,
    });
    let (figure, unit) = figure.unzip();
    let at = measured.map(|one| {
        let what = if one.busbw.is_none() { "latency" } else { "bandwidth" };
        let valid = if is_wrong { ", of wrong data" } else { "" };
        format!("{what} at {}{valid}", bytes(one.size))
    });
    Answer {
        level,
        word: word.to_owned(),
        about: name.to_owned(),
        figure,
        unit: unit.map(|unit| unit.replace("us", "µs")),
        at,
        percent: told.percent,
        whole: told.limit.as_ref().map(|limit| format!("of the limit, {} GB/s", rate(limit.busbw))),
        sentence: told.sentence.clone(),
        last: None,
        remedy: remedy(told),
    }
}

/// The most important finding that says what to do; else what would tell more.
fn remedy(told: &Explanation) -> Option<Remedy> {
    let advice = |text: &str, confirm: &str| {
        let (command, rest) = command(confirm);
        let rest = rest.map_or(String::new(), |rest| format!(" {}", summary::sentence(&rest)));
        Some(Remedy { text: summary::sentence(text) + &rest, command })
    };
    let findings = main_findings(told);
    if let Some((found, text)) =
        findings.iter().find_map(|finding| Some((finding, finding.remedy.as_ref()?)))
    {
        return advice(text, found.confirm.as_deref().unwrap_or_default());
    }
    if let Some(hypotheses) = &told.hypotheses {
        return advice(&format!("to rate it, say {}", hypotheses.decides), "");
    }
    match (told.verdict, told.missing.as_slice()) {
        (Verdict::Healthy, _) => advice("Nothing: this is what the hardware allows", ""),
        (_, [])
            if told.limit.is_none()
                && told.measured.as_ref().is_some_and(|one| one.busbw.is_none()) =>
        {
            let command = format!("busbw compare BEFORE {}", quoted(&told.source.name));
            advice("latency has no limit of hardware: compare it with another run", &command)
        }
        (_, []) => None,
        (_, missing) => advice(&format!("to rate it, give {}", missing.join("; ")), ""),
    }
}

/// First words of what a shell runs.
const PROGRAMS: [&str; 18] = [
    "busbw",
    "cat",
    "dmesg",
    "env",
    "ethtool",
    "hostname",
    "ibdev2netdev",
    "ibv_devinfo",
    "ip",
    "ldd",
    "ls",
    "lsmod",
    "lspci",
    "mpirun",
    "nvidia-smi",
    "ompi_info",
    "sudo",
    "ucx_info",
];

/// What of a confirmation can be pasted into a shell, and the rest, which is for people.
fn command(confirm: &str) -> (Option<String>, Option<String>) {
    let is_command = |text: &str| {
        let mut words = text.split(' ').skip_while(|word| word.contains('='));
        words.next().is_some_and(|word| PROGRAMS.contains(&word)) && !text.contains(['…', '<'])
    };
    let mut commands: Vec<&str> = Vec::new();
    let mut rest = confirm;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_once("; ").unwrap_or((rest, ""));
        let prose = [" on each ", " on every ", " on one ", " on both ", " with ", ", ", " ("];
        let cut = prose.iter().filter_map(|word| piece.find(word)).min();
        let told = piece.get(..cut.unwrap_or(piece.len())).unwrap_or_default();
        if !is_command(told) {
            break;
        }
        commands.push(told);
        rest = if cut.is_some() { rest.get(told.len()..).unwrap_or_default() } else { behind };
        if cut.is_some() {
            break;
        }
    }
    let rest = match (commands.is_empty(), rest.trim_matches([' ', ',', ';'])) {
        (_, "") => None,
        (true, rest) => Some(format!("Confirm: {rest}")),
        (false, rest) => Some(format!("Run the command below {rest}")),
    };
    ((!commands.is_empty()).then(|| commands.join("; ")), rest)
}

/// A sweep's answer: the fastest at the largest size, and its settings where the launches decide it.
pub(super) fn of_sweep(title: &str, outcome: &Outcome) -> Answer {
    let largest = outcome.rows.last();
    let measured = || (0..outcome.environments.len()).filter_map(|n| Some((n, largest?.cell(n)?)));
    let measured = || measured().filter(|(_, cell)| cell.comparable().is_some());
    let fastest = measured().min_by(|a, b| a.1.time_us.total_cmp(&b.1.time_us));
    let failed = outcome.environments.iter().any(|tried| tried.failed.is_some());
    let best = overall(outcome);
    let name = |n: usize| outcome.environments.get(n).map_or("?", |tried| &tried.name);
    let (level, word) = match (best, fastest) {
        (_, None) => (Level::Bad, "Nothing was measured".to_owned()),
        (Some(best), Some(_)) if failed => {
            (Level::Slow, format!("Fastest: {}; not all ran", name(best)))
        }
        (None, Some(_)) if failed => (Level::Slow, "Not all ran".to_owned()),
        (Some(best), _) => (Level::Good, format!("Fastest: {}", name(best))),
        (None, _) => (Level::Unknown, "No single fastest".to_owned()),
    };
    let sentence = busbw_analysis::sweep::sentence(outcome).map_or_else(
        || "There is nothing to compare.".to_owned(),
        |told| summary::sentence(&told.replacen("fastest: ", "The fastest is ", 1)),
    );
    let settings =
        best.and_then(|best| outcome.environments.get(best)).map(|tried| tried.settings());
    let remedy = match (settings, outcome.environments.iter().find(|tried| tried.failed.is_some())) {
        (_, Some(tried)) => {
            let why = tried.failed.as_ref().map_or("", |failed| &failed.reason);
            Remedy { text: format!("{} failed: {why}. Run it alone to see all of its output.", tried.name), command: None }
        }
        (Some(settings), None) if !settings.trim().is_empty() => {
            Remedy { text: "Set it for your jobs.".to_owned(), command: Some(format!("export {settings}")) }
        }
        (Some(_), None) => Remedy { text: "Nothing: the settings as they are were fastest.".to_owned(), command: None },
        (None, None) => Remedy {
            text: "These launches name no winner at every size: take the fastest at the sizes that your jobs send, or more launches.".to_owned(),
            command: Some(rerun(outcome)),
        },
    };
    let figure = fastest.map(|(_, cell)| match outcome.show {
        Show::Busbw => (rate(cell.busbw), "GB/s"),
        Show::Algbw => (rate(cell.algbw), "GB/s"),
        Show::Time => (format!("{:.2}", cell.time_us), "µs"),
    });
    let limit =
        fastest.and_then(|(n, cell)| cell.limit.or_else(|| crate::of_sweep::limit(outcome, n)));
    Answer {
        level,
        word,
        about: title.to_owned(),
        figure: figure.as_ref().map(|(figure, _)| figure.clone()),
        unit: figure.map(|(_, unit)| unit.to_owned()),
        at: fastest.zip(largest).map(|((n, _), row)| format!("{} at {}", name(n), bytes(row.size))),
        percent: fastest.zip(limit).map(|((_, cell), limit)| cell.busbw / limit * 100.0),
        whole: limit.map(|limit| format!("of the limit, {} GB/s", rate(limit))),
        sentence,
        last: None,
        remedy: Some(remedy),
    }
}

/// The sweep's command with twice as many launches.
fn rerun(outcome: &Outcome) -> String {
    let mut words = outcome.args.clone();
    let at = words.iter().position(|word| word == "--launches");
    match at.and_then(|at| words.get_mut(at + 1)) {
        Some(count) => *count = (outcome.launches * 2).to_string(),
        None => {
            let command = words.iter().position(|word| *word == outcome.command);
            let at = command.map_or(words.len().min(2), |at| at + 1);
            words.splice(at..at, ["--launches".to_owned(), (outcome.launches * 2).to_string()]);
        }
    }
    line(words.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_no_command() {
        for (confirm, pasted, rest) in [
            ("busbw topo", Some("busbw topo"), None),
            ("NCCL_A=1 busbw topo; dmesg | tail", Some("NCCL_A=1 busbw topo; dmesg | tail"), None),
            (
                "busbw sendrecv -c 10 on each pair; then dmesg",
                Some("busbw sendrecv -c 10"),
                Some("Run the command below on each pair; then dmesg"),
            ),
            ("NCCL_DEBUG=INFO … | grep NET", None, Some("Confirm: NCCL_DEBUG=INFO … | grep NET")),
            ("the drop counters", None, Some("Confirm: the drop counters")),
            ("", None, None),
        ] {
            let told = command(confirm);
            assert_eq!(told, (pasted.map(str::to_owned), rest.map(str::to_owned)), "{confirm}");
        }
    }

    #[test]
    fn the_worst_is_on_top() {
        let answer = |level, percent| Answer { level, percent, ..Answer::default() };
        let all = [
            answer(Level::Good, Some(99.0)),
            answer(Level::Slow, Some(70.0)),
            answer(Level::Slow, Some(40.0)),
            answer(Level::Unknown, None),
        ];
        assert_eq!(worst(all.clone().into_iter()).unwrap().percent, Some(40.0));
        let with_wrong = all.into_iter().chain([answer(Level::Bad, None)]);
        assert_eq!(worst(with_wrong).unwrap().level, Level::Bad);
        assert_eq!(worst(std::iter::empty()), None);
    }
}
