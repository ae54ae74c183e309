//! The termination message of this process's container: what `kubectl describe pod` shows of a container that ended.
//! Not what stderr says, which is longer, and not read by busbw itself.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use busbw_core::{environment::TERMINATION_LOG, printable::Printable};

/// What the kubelet keeps of it: kubernetes, pkg/kubelet/container/runtime.go, MaxContainerTerminationMessageLength.
pub const MAX_BYTES: usize = 4096;

/// Where the kubelet mounts it unless `terminationMessagePath` names another file (corev1.TerminationMessagePathDefault).
const DEFAULT: &str = "/dev/termination-log";

/// Writes the message in place of an earlier one, as far as it fits. Outside of a pod, and where its file is not there,
/// nothing is written; nor can a failure change how the program ends.
pub fn write(text: &str) {
    if let Some(path) = path(|name| std::env::var(name).ok()) {
        let _ = write_to(&path, text);
    }
}

/// The file in a pod, which is where the kubelet tells the API server's address; a variable without a value is for a
/// part of a job whose message another process writes.
fn path(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    lookup("KUBERNETES_SERVICE_HOST")?;
    let named = lookup(TERMINATION_LOG).map_or_else(|| DEFAULT.into(), PathBuf::from);
    Some(named).filter(|path| !path.as_os_str().is_empty())
}

fn write_to(path: &Path, text: &str) -> io::Result<()> {
    // It is there before the container starts: one that is not is not the kubelet's.
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    let mut plain = Vec::new();
    Printable::new(&mut plain, false).write_all(text.trim_end().as_bytes())?;
    file.write_all(&plain[..end_of_fitting(&plain)])
}

/// How much fits: whole lines where one fits, else whole characters.
fn end_of_fitting(text: &[u8]) -> usize {
    if text.len() <= MAX_BYTES {
        return text.len();
    }
    let line = text[..MAX_BYTES].iter().rposition(|byte| *byte == b'\n');
    let is_start = |at: &usize| text[*at] & 0xc0 != 0x80;
    line.unwrap_or_else(|| (0..=MAX_BYTES).rev().find(is_start).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_in_a_pod() {
        let of = |variables: &[(&str, &str)]| {
            path(|name| {
                variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let pod = ("KUBERNETES_SERVICE_HOST", "10.96.0.1");
        assert_eq!(of(&[pod]), Some(PathBuf::from("/dev/termination-log")));
        assert_eq!(of(&[pod, (TERMINATION_LOG, "/m")]), Some(PathBuf::from("/m")));
        assert_eq!(of(&[pod, (TERMINATION_LOG, "")]), None);
        assert_eq!(of(&[(TERMINATION_LOG, "/m")]), None);
    }

    #[test]
    fn it_replaces_an_earlier_one_and_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert!(write_to(&path, "nobody reads it").is_err() && !path.exists());
        std::fs::write(&path, "an earlier one that is longer").unwrap();
        write_to(&path, "not fit: \u{1b}[31mn3\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "not fit: \\u001b[31mn3");
        let long = format!("{}\n{}", "a".repeat(4000), "b".repeat(4000));
        write_to(&path, &long).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a".repeat(4000));
    }

    proptest! {
        #[test]
        fn what_is_cut_is_still_text(line in "\\PC{0,40}", count in 0usize..400, ends: bool) {
            let line = if ends { line + "\n" } else { line };
            let text = line.repeat(count);
            let end = end_of_fitting(text.as_bytes());
            prop_assert!(end <= MAX_BYTES && text.is_char_boundary(end));
            prop_assert!(end == text.len() || end + 162 > MAX_BYTES);
        }
    }
}
