//! The processes that rules are walked in: how they are started, bounded in time, and what they say.
//! Not the rules.

use std::{
    io::{self, Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::Duration,
};

use anyhow::{Context, Result};
use busbw_core::exit::Exit;
use busbw_ffi::net::Plugin;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::{
    Verdict,
    rules::{self, RULES},
    subject::Subject,
};
use busbw_core::hidden_commands::RULE;

/// How long a rule may take: each wait within it is shorter.
const LIMIT: Duration = Duration::from_secs(20);
/// The word that describes a plugin, where others name a rule.
const DESCRIBE: &str = "describe";

/// A plugin, as processes hear of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) word: String,
    pub(super) version: Option<u32>,
}

/// What a plugin says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) version: u32,
    pub(super) versions: Vec<u32>,
    /// Of each device, in words that do not differ between versions of the table.
    pub(super) devices: Vec<String>,
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    Verdict(Verdict),
    Described(Described),
    Failed(String),
}

/// What a plugin says of itself, asked in a process of its own.
pub(super) fn describe(asked: &Asked) -> Result<Described, String> {
    match ask(DESCRIBE, asked)? {
        Said::Described(described) => Ok(described),
        Said::Failed(why) => Err(why),
        Said::Verdict(_) => Err("a bug of busbw: a description was asked for".to_owned()),
    }
}

/// What comes of a rule.
pub(super) fn judge(rule: &str, asked: &Asked) -> Verdict {
    match ask(rule, asked) {
        Ok(Said::Verdict(verdict)) => verdict,
        Ok(Said::Failed(why)) | Err(why) => Verdict::Fail(why),
        Ok(Said::Described(_)) => Verdict::Fail("a bug of busbw: a rule was asked for".to_owned()),
    }
}

/// Lets a child look, and waits for its word, its end, or the end of its time.
fn ask(what: &str, asked: &Asked) -> Result<Said, String> {
    let broken = |error: anyhow::Error| format!("{error:#}");
    let mut child = start(RULE, &[what], asked).map_err(broken)?;
    let mut stdout = child.stdout.take();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(stdout) = &mut stdout {
            // What is not text is no word of ours.
            let _ = stdout.read_to_string(&mut text);
        }
        let _ = tell.send(text);
    });
    let heard = told.recv_timeout(LIMIT);
    if heard.is_err() {
        let _ = child.kill();
    }
    let status = child.wait();
    let Ok(text) = heard else {
        return Err(format!("it did not end within {} s: it hangs", LIMIT.as_secs()));
    };
    match serde_json::from_str(text.lines().last().unwrap_or("")) {
        Ok(said) => Ok(said),
        Err(_) => Err(status.map_or_else(|error| error.to_string(), |status| end(&status))),
    }
}

fn end(status: &ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(signal) => format!("the process crashed: signal {signal}"),
        None => format!("the process ended without a word: {status}"),
    }
}

/// Starts one of our processes, whose stdout is ours to read.
pub(super) fn start(word: &str, more: &[&str], asked: &Asked) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find our own program file")?;
    Command::new(&program)
        .arg(word)
        .args(more)
        .arg(serde_json::to_string(asked)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

/// Is a process for one rule: says on stdout what came of it.
///
/// # Errors
/// Words that are none of ours.
pub fn rule(name: &str, asked: &str) -> Result<Exit> {
    die_with_parent()?;
    let asked: Asked = serde_json::from_str(asked).context("the plugin's name is garbled")?;
    let said = if name == DESCRIBE {
        described(&asked).map_or_else(Said::Failed, Said::Described)
    } else {
        let rule = RULES.iter().find(|rule| rule.name == name).context("there is no such rule")?;
        Said::Verdict(match Subject::open(&asked) {
            Ok(subject) => (rule.walk)(&subject).unwrap_or_else(Verdict::Fail),
            Err(why) => Verdict::Fail(why),
        })
    };
    let text = serde_json::to_string(&said)?;
    writeln!(io::stdout(), "\n{text}")?;
    // A plugin's own end, or a connection that was left open, is no part of the rule.
    io::stdout().flush()?;
    std::process::exit(0);
}

/// Is the other process of a rule that needs two.
///
/// # Errors
/// Words that are none of ours, or a plugin that does not do its part.
pub fn partner(asked: &str) -> Result<Exit> {
    die_with_parent()?;
    let asked: Asked = serde_json::from_str(asked).context("the plugin's name is garbled")?;
    rules::be_partner(&asked).map_err(anyhow::Error::msg)?;
    std::process::exit(0);
}

fn die_with_parent() -> Result<()> {
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    tied.context("cannot bind our life to that of who started us")
}

fn described(asked: &Asked) -> Result<Described, String> {
    let versions = Plugin::versions(&asked.word).map_err(|error| error.to_string())?;
    let plugin = Plugin::open(&asked.word, asked.version).map_err(|error| error.to_string())?;
    let count = plugin.devices().map_err(|error| error.to_string())?;
    let mut devices = Vec::new();
    for device in 0..count {
        let is = plugin.properties(device).map_err(|error| error.to_string())?;
        devices.push(format!(
            "{} at '{}', guid {:x}, port {}, {} Mb/s, memory {}, {} connections, {} receives at once",
            is.name, is.pci_path, is.guid, is.port, is.speed, is.ptr_support, is.max_comms, is.max_recvs
        ));
    }
    Ok(Described { name: plugin.name().to_owned(), version: plugin.version(), versions, devices })
}
