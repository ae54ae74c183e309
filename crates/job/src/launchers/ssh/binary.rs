//! This program's copy on other hosts: its bytes, its path there, and the shell scripts that find, start and write
//! it. A copy is written under another name, checked, then given its name: concurrent copies do not disturb each other.
//! Not the connection.

use std::fs;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::rendezvous::token;
use busbw_core::hidden_commands::AGENT;

/// The folder of copies. Dollar signs, but no single quotes: those enclose the script.
const FOLDER: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/busbw";

/// This program.
pub(super) struct Binary {
    pub(super) bytes: Vec<u8>,
    hash: String,
}

/// Lines that the scripts print. Other lines are the host's own messages.
pub(super) const HOST: &str = "busbw-host";
pub(super) const MISSING: &str = "busbw-missing";
pub(super) const COPIED: &str = "busbw-copied";
pub(super) const ENDED: &str = "busbw-ended";
pub(super) const GONE: &str = "busbw-gone";

impl Binary {
    /// The running program, even if its file has been replaced.
    pub(super) fn ours() -> Result<Binary> {
        let bytes = fs::read("/proc/self/exe").context("cannot read busbw's own program file")?;
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Binary { bytes, hash })
    }

    /// A script that prints what the host is, and executes the agent, or prints that the copy is missing or damaged.
    pub(super) fn start_script(&self) -> String {
        format!(
            "f=\"{FOLDER}/{}/busbw\"; echo {HOST} $(uname -s) $(uname -m); if test -x \"$f\" && {}; then exec \"$f\" {AGENT}; fi; echo {MISSING}",
            self.hash,
            self.check("f")
        )
    }

    /// A script that writes the program from stdin. `token` makes the temporary name unique among hosts with a shared
    /// home. A copy that another host has made meanwhile stays: its agent may run already, and starts itself again.
    pub(super) fn copy_script(&self) -> Result<String> {
        let token = token()?;
        Ok(format!(
            "umask 077; d=\"{FOLDER}/{}\"; t=\"$d/.{token}\"; f=\"$d/busbw\"; mkdir -p \"$d\" && cat >\"$t\" && {} && chmod 700 \"$t\" && {{ ln \"$t\" \"$f\" 2>/dev/null || {}; }} && rm -f \"$t\" && echo {COPIED} || {{ rm -f \"$t\"; exit 1; }}",
            self.hash,
            self.check("t"),
            format_args!("{{ test -x \"$f\" && {}; }} || mv -f \"$t\" \"$f\"", self.check("f"))
        ))
    }

    /// A script that kills the agent with this process ID, also if it is stopped.
    pub(super) fn end_script(&self, pid: u32) -> String {
        // The number may be another program's by now.
        format!(
            "case \"$(readlink /proc/{pid}/exe)\" in */{}/busbw*) kill -KILL {pid} && echo {ENDED};; *) echo {GONE};; esac",
            self.hash
        )
    }

    /// A shell test whether the file has these bytes: by hash where the host has sha256sum, else by size.
    fn check(&self, variable: &str) -> String {
        let (size, hash) = (self.bytes.len(), &self.hash);
        format!(
            "test $(wc -c <\"${variable}\") -eq {size} && {{ s=$(sha256sum <\"${variable}\" 2>/dev/null) && test \"${{s%% *}}\" = {hash} || test -z \"$s\"; }}"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::unix::fs::MetadataExt,
        process::{Command, Output, Stdio},
    };

    use super::*;

    fn sh(script: &str, cache: &std::path::Path, stdin: &[u8]) -> Output {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .env("XDG_CACHE_HOME", cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The scripts in the shell of this machine, with a program that only says that it runs.
    #[test]
    fn copied_once_and_again_when_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = b"#!/bin/sh\necho \"runs $1\"\n".to_vec();
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let binary = Binary { bytes: bytes.clone(), hash };
        let start = || {
            let out = sh(&binary.start_script(), folder.path(), b"").stdout;
            String::from_utf8(out).unwrap().lines().last().unwrap().to_owned()
        };
        let copy = |bytes: &[u8]| sh(&binary.copy_script().unwrap(), folder.path(), bytes);
        assert_eq!(start(), MISSING);
        // A connection that breaks while it copies.
        let broken = copy(&bytes[..10]);
        assert!(!broken.status.success() && broken.stdout.is_empty());
        assert_eq!(start(), MISSING);
        assert_eq!(copy(&bytes).stdout, format!("{COPIED}\n").into_bytes());
        assert_eq!(start(), "runs __agent");

        let place = folder.path().join("busbw").join(&binary.hash);
        // Another host with this home has found it missing, too. Programs that run must find their file again.
        let file = || fs::metadata(place.join("busbw")).unwrap().ino();
        let first = file();
        assert!(copy(&bytes).status.success());
        assert_eq!(file(), first);
        let names: Vec<_> = fs::read_dir(&place).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["busbw"]);
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        fs::write(place.join("busbw"), damaged).unwrap();
        assert_eq!(start(), MISSING);
        assert!(copy(&bytes).status.success());
        assert_eq!(start(), "runs __agent");
    }

    /// Only a process that runs the copy is killed, also if it is stopped.
    #[test]
    fn an_agent_is_ended_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = fs::read("/bin/sleep").unwrap();
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let binary = Binary { bytes, hash };
        let place = folder.path().join("busbw").join(&binary.hash);
        assert!(sh(&binary.copy_script().unwrap(), folder.path(), &binary.bytes).status.success());
        for (program, said) in [(place.join("busbw"), ENDED), ("/bin/sleep".into(), GONE)] {
            let mut child = Command::new(program).arg("60").spawn().unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
            let output = sh(&binary.end_script(child.id()), folder.path(), b"");
            assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), said);
            if said == GONE {
                assert!(child.try_wait().unwrap().is_none());
                child.kill().unwrap();
            }
            child.wait().unwrap();
        }
    }

    #[test]
    fn fit_between_single_quotes_of_any_shell() {
        let binary = Binary::ours().unwrap();
        for script in [binary.start_script(), binary.copy_script().unwrap(), binary.end_script(7)] {
            assert!(!script.contains(['\'', '!', '\n']), "{script}");
        }
    }
}
