//! What a command line of mpirun passes on, and to how many hosts; what a shell exports.
//! Not the settings that it makes (`commands`), and nothing is judged.

use std::collections::HashSet;

use super::document::Launch;
use super::expansion::leading_name;
use super::tokens::Word;
use super::vocabulary::base_name;

/// Options that only Open MPI has, or that have these names only there.
const OPEN_MPI: [&str; 8] = [
    "-x",
    "-mca",
    "--mca",
    "--map-by",
    "--allow-run-as-root",
    "--oversubscribe",
    "--npernode",
    "--prtemca",
];

/// Options of mpirun that take the next word.
const WITH_VALUE: [&str; 18] = [
    "-n",
    "-np",
    "--np",
    "-c",
    "-N",
    "-H",
    "-host",
    "--host",
    "-hostfile",
    "--hostfile",
    "-machinefile",
    "--machinefile",
    "-x",
    "-wd",
    "-wdir",
    "--wdir",
    "--prefix",
    "--output-filename",
];

/// What one command starts; `None` for launchers other than mpirun.
pub(crate) fn launch(words: &[Word<'_>], command: u32) -> Option<Launch> {
    let is_mpirun =
        |word: &&Word<'_>| ["mpirun", "orterun", "prterun"].contains(&base_name(&word.text));
    let first = words.iter().find(is_mpirun)?;
    let mut launch = Launch { line: first.line, command, ..Launch::default() };
    let mut rest = words.iter().skip_while(|word| !is_mpirun(word)).skip(1);
    while let Some(word) = rest.next() {
        let text = word.text.as_ref();
        launch.is_open_mpi |= OPEN_MPI.contains(&text);
        if text.contains("env_list") {
            launch.is_open = true;
        }
        let value = if WITH_VALUE.contains(&text) { rest.next() } else { None };
        match (text, value) {
            ("-x", Some(value)) => {
                launch.names.extend(leading_name(&value.text).map(str::to_owned));
                launch.is_open |= value.raw.starts_with(['$', '"']) && value.raw.contains('$');
            }
            ("-H" | "-host" | "--host", Some(value)) => {
                launch.has_hosts |= value.text.contains(',') || value.raw.contains('$');
            }
            ("-hostfile" | "--hostfile" | "-machinefile" | "--machinefile", Some(_)) => {
                launch.has_hosts = true;
            }
            (text, None) if !text.starts_with('-') => {
                // `$OPTIONS` and `"${OPTIONS[@]}"` may be anything; other words are values, or the program.
                launch.is_open |= word.raw.trim_start_matches('"').starts_with('$');
            }
            _ => {}
        }
    }
    Some(launch)
}

/// The names that a command of the shell exports.
pub(crate) fn exported(head: &str, rest: &[Word<'_>]) -> HashSet<String> {
    let marked =
        rest.first().is_some_and(|word| word.text.starts_with('-') && word.text.contains('x'));
    let exports = head == "export" || (matches!(head, "declare" | "typeset") && marked);
    let names = rest.iter().filter(|_| exports).filter_map(|word| leading_name(&word.text));
    names.map(str::to_owned).collect()
}

/// Whether a command makes the shell export all that follows.
pub(crate) fn exports_all(head: &str, rest: &[Word<'_>]) -> bool {
    head == "set"
        && rest.iter().any(|word| {
            let text = word.text.as_ref();
            text == "allexport"
                || (text.starts_with('-') && !text.starts_with("--") && text.contains('a'))
        })
}
