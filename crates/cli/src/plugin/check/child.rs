//! The processes that rules run in: how they are started, their time limit, and their replies.
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
    RuleOutcome,
    rules::{self, RULES},
    subject::Subject,
};
use busbw_core::hidden_commands::RULE;

/// How long a rule may take: each wait within it is shorter.
const RULE_TIMEOUT: Duration = Duration::from_secs(20);
/// The word that asks for a description, in place of a rule's name.
const DESCRIBE: &str = "describe";

/// A plugin, as a child process gets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) word: String,
    pub(super) version: Option<u32>,
}

/// A plugin's description of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) version: u32,
    pub(super) versions: Vec<u32>,
    /// Symbols of other kinds of plugins in the same library.
    pub(super) others: Vec<String>,
    /// Of each device, in words that do not differ between versions of the table.
    pub(super) devices: Vec<String>,
}

/// A child's reply.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    RuleOutcome(RuleOutcome),
    Described(Described),
    Failed(String),
}

/// A plugin's description, read in a process of its own.
pub(super) fn describe(asked: &Asked) -> Result<Described, String> {
    match ask(DESCRIBE, asked)? {
        Reply::Described(described) => Ok(described),
        Reply::Failed(why) => Err(why),
        Reply::RuleOutcome(_) => {
            Err("a bug of busbw: the child process was to describe the plugin".to_owned())
        }
    }
}

/// Runs one rule in a process of its own.
pub(super) fn judge(rule: &str, asked: &Asked) -> RuleOutcome {
    match ask(rule, asked) {
        Ok(Reply::RuleOutcome(verdict)) => verdict,
        Ok(Reply::Failed(why)) | Err(why) => RuleOutcome::Fail(why),
        Ok(Reply::Described(_)) => {
            RuleOutcome::Fail("a bug of busbw: the child process was to check a rule".to_owned())
        }
    }
}

/// Runs a child, and waits for its reply, its end, or its time limit.
fn ask(what: &str, asked: &Asked) -> Result<Reply, String> {
    let broken = |error: anyhow::Error| format!("{error:#}");
    let mut child = start(RULE, &[what], asked).map_err(broken)?;
    let mut stdout = child.stdout.take();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(stdout) = &mut stdout {
            // Output that is not text is not a reply.
            let _ = stdout.read_to_string(&mut text);
        }
        let _ = tell.send(text);
    });
    let heard = told.recv_timeout(RULE_TIMEOUT);
    if heard.is_err() {
        let _ = child.kill();
    }
    let status = child.wait();
    let Ok(text) = heard else {
        return Err(format!("it did not end within {} s: it hangs", RULE_TIMEOUT.as_secs()));
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
        None => format!("the process ended without a reply: {status}"),
    }
}

/// Starts a child process whose stdout we read.
pub(super) fn start(word: &str, more: &[&str], asked: &Asked) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find busbw's own program file")?;
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

/// The child process for one rule: prints the outcome on stdout.
///
/// # Errors
/// The arguments are not those of a child process.
pub fn rule(name: &str, asked: &str) -> Result<Exit> {
    die_with_parent()?;
    let asked: Asked = serde_json::from_str(asked).context("the plugin's name cannot be parsed")?;
    let said = if name == DESCRIBE {
        described(&asked).map_or_else(Reply::Failed, Reply::Described)
    } else {
        let rule = RULES.iter().find(|rule| rule.name == name).context("there is no such rule")?;
        Reply::RuleOutcome(match Subject::open(&asked) {
            Ok(subject) => (rule.walk)(&subject).unwrap_or_else(RuleOutcome::Fail),
            Err(why) => RuleOutcome::Fail(why),
        })
    };
    let text = serde_json::to_string(&said)?;
    writeln!(io::stdout(), "\n{text}")?;
    // The end of a plugin's threads, or a connection left open, is not part of the rule.
    io::stdout().flush()?;
    std::process::exit(0);
}

/// The second process of a rule that needs two.
///
/// # Errors
/// The arguments are not those of a child process, or the plugin fails.
pub fn partner(asked: &str) -> Result<Exit> {
    die_with_parent()?;
    let asked: Asked = serde_json::from_str(asked).context("the plugin's name cannot be parsed")?;
    rules::be_partner(&asked).map_err(anyhow::Error::msg)?;
    std::process::exit(0);
}

fn die_with_parent() -> Result<()> {
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    tied.context("cannot make this process end with its parent")
}

fn described(asked: &Asked) -> Result<Described, String> {
    let versions = Plugin::versions(&asked.word).map_err(|error| error.to_string())?;
    let others = Plugin::other_interfaces(&asked.word).map_err(|error| error.to_string())?;
    let others = others.into_iter().map(|(_, symbol)| symbol).collect();
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
    let (name, version) = (plugin.name().to_owned(), plugin.version());
    Ok(Described { name, version, versions, others, devices })
}
