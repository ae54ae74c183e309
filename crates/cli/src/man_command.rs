//! `busbw man`: manual pages, of busbw and of each command.
//! Not their text: it is the help's (`options`).

use std::{fs, io::Write, path::Path};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};
use busbw_render::answer::answer;
use clap_mangen::Man;

use crate::options::{ManArguments, grammar};

/// Prints a page, or writes all of them into a folder.
///
/// # Errors
/// There is no such command, or something cannot be written.
pub fn run(arguments: &ManArguments) -> Result<Exit> {
    // Built, every command has the options that all have, and its whole name.
    let mut whole = grammar();
    whole.build();
    if let Some(folder) = &arguments.all {
        let pages = all(&whole, folder)
            .with_context(|| format!("cannot write into {}", folder.display()))?;
        answer(|out, _| writeln!(out, "{pages} pages in {}", folder.display()))?;
        return Ok(Exit::Ok);
    }
    let command = match &arguments.command {
        None => Some(&whole),
        Some(name) => whole.find_subcommand(name),
    };
    let Some(command) = command else {
        let name = arguments.command.as_deref().unwrap_or_default();
        return Err(ExitError::new(Exit::Usage, format!("there is no command {name}")).into());
    };
    let page = page(command)?;
    answer(|out, _| out.write_all(&page))?;
    Ok(Exit::Ok)
}

fn page(command: &clap::Command) -> Result<Vec<u8>> {
    let man = Man::new(command.clone()).source(concat!("busbw ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(below(command).into_bytes());
    Ok(page)
}

/// What help has below the options. Examples keep their lines.
fn below(command: &clap::Command) -> String {
    let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    text.split("\n\n")
        .map(|part| match (part.strip_prefix("Examples:\n"), part.strip_prefix("Exit codes: ")) {
            (Some(lines), _) => format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", escaped(lines)),
            (_, Some(codes)) => format!(".SH EXIT STATUS\n{}\n", escaped(codes)),
            _ if part.is_empty() => String::new(),
            _ => format!(".SH NOTES\n{}\n", escaped(part)),
        })
        .collect()
}

/// Text in which roff sees no request and no escape.
fn escaped(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        if line.starts_with('.') { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Writes `busbw.1`, `busbw-all_reduce.1` and so on; returns how many.
fn all(whole: &clap::Command, folder: &Path) -> Result<usize> {
    fs::create_dir_all(folder)?;
    let commands: Vec<&clap::Command> = whole.get_subcommands().chain([whole]).collect();
    for command in &commands {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    }
    Ok(commands.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_every_option_with_its_text() {
        let mut whole = grammar();
        whole.build();
        for command in whole.get_subcommands() {
            let page = String::from_utf8(page(command).unwrap()).unwrap();
            let shown = command.get_opts().filter(|option| !option.is_hide_set());
            for long in shown.filter_map(|option| option.get_long()) {
                let long = long.replace('-', "\\-");
                let lines: Vec<&str> = page.lines().collect();
                let name = format!("\\-\\-{long}\\f");
                let own = lines.windows(3).find(|l| l[0] == ".TP" && l[1].contains(&name));
                let text = own.unwrap_or_else(|| panic!("{long}: {page}"))[2];
                assert!(
                    !text.is_empty() && !text.starts_with('.'),
                    "{}: {long}: {text}",
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn roff_sees_no_request_and_no_escape() {
        assert_eq!(escaped(".so x\n-x `\\,`"), "\\&.so x\n\\-x `\\e,`");
    }
}
