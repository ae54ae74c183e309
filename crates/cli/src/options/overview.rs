//! The list of commands, as `busbw -h` (one screen) and `busbw --help` (all) show it.
//! Not the commands' own help (`help`).

use busbw_core::{Benchmark, messages::Messages};
use clap::Command as Grammar;

use super::grammar::{HELP, VERSION};

/// The command that is only in the long list: the short one is one screen.
const MAN: &str = "man";
/// What `busbw schema` prints is for programs.
const SCHEMA: &str = "schema";

/// Where the list goes, above the options.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// The list of `grammar`'s commands in both lengths.
pub(super) fn with_overview(grammar: Grammar) -> Grammar {
    let (short, long) = (brief(&grammar), whole(&grammar));
    grammar.help_template(TEMPLATE).before_help(short).before_long_help(long)
}

fn visible(grammar: &Grammar) -> impl Iterator<Item = (&str, String)> {
    grammar.get_subcommands().map(|command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        (command.get_name(), about)
    })
}

fn line((name, about): (&str, String)) -> String {
    format!("  {name:<14}  {about}")
}

fn whole(grammar: &Grammar) -> String {
    let lines: Vec<String> = visible(grammar).map(line).collect();
    format!("Commands:\n{}", lines.join("\n"))
}

/// Collectives and tests of messages by their names alone.
fn brief(grammar: &Grammar) -> String {
    let is =
        |name: &str, which: fn(Benchmark) -> bool| Benchmark::from_name(name).is_some_and(which);
    let collectives: Vec<&str> = visible(grammar)
        .map(|(name, _)| name)
        .filter(|name| is(name, |benchmark| benchmark.collective().is_some()))
        .collect();
    let (first, rest) = collectives.split_at(collectives.len() / 2);
    let messages = Messages::ALL.map(Messages::name).join(", ");
    // `-h` and `-V` stand among the options; who packs busbw finds `man` in `--help`.
    let rows = visible(grammar)
        .filter(|(name, _)| ![HELP, VERSION, MAN, SCHEMA].contains(name))
        .filter(|(name, _)| {
            !is(name, |benchmark| {
                benchmark.collective().is_some() || benchmark.messages().is_some()
            })
        })
        .map(line);
    format!(
        "Collectives:\n  {},\n  {}\nMessages: {messages}\nCommands:\n{}",
        first.join(", "),
        rest.join(", "),
        rows.collect::<Vec<_>>().join("\n")
    )
}
