//! What settings do to the `fake` backend's times, and with which it fails: a file, so that a search over settings is tested
//! from the command line to its last line. Not a model of a library.

use std::{collections::BTreeMap, fs, io::Write, path::Path};

use busbw_core::{environment::FAKE, exit::Exit};
use busbw_stats::Random;
use serde::Deserialize;

use crate::backend::BackendError;

/// The word for a variable that is not set.
const UNSET: &str = "unset";

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fails {
    /// The process ends.
    Crash,
    /// The first operation never ends.
    Hang,
    /// Every result has a wrong element.
    Wrong,
}

/// The file that BUSBW_FAKE names.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Landscape {
    /// From which all noise follows, with the number of earlier launches (`FILE.launches` has a byte for each).
    seed: u64,
    /// Standard deviation of the logarithm of a launch's times.
    launch_noise: f64,
    /// The same of each batch.
    batch_noise: f64,
    /// Variable, then value, then the logarithm of the factor of the time; `unset` is a value.
    variables: BTreeMap<String, BTreeMap<String, f64>>,
    /// What values do only together.
    together: Vec<Together>,
    /// Values with which it fails, together.
    fails: Vec<Failing>,
}

#[derive(Debug, Clone, Deserialize)]
struct Together {
    when: BTreeMap<String, String>,
    ln: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct Failing {
    when: BTreeMap<String, String>,
    how: Fails,
}

/// What the landscape makes of this process's environment.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// The factor of every time.
    pub(super) factor: f64,
    /// Standard deviation of the logarithm of a batch's factor.
    pub(super) batch_noise: f64,
    pub(super) random: Random,
    pub(super) fails: Option<Fails>,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting { factor: 1.0, batch_noise: 0.0, random: Random::new(0), fails: None }
    }
}

impl Setting {
    /// Of this process; nothing changes where BUSBW_FAKE is not set.
    ///
    /// # Errors
    /// The file cannot be read, or the one that counts launches cannot be written.
    pub(super) fn of_process() -> Result<Setting, BackendError> {
        let Some(path) = std::env::var_os(FAKE) else { return Ok(Setting::default()) };
        let path = Path::new(&path);
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            let text = format!("{FAKE}={}: cannot {what}: {error}", path.display());
            BackendError::Refused { text, exit: Exit::Usage }
        };
        let text = fs::read_to_string(path).map_err(|error| failed("read it", &error))?;
        let landscape: Landscape =
            serde_json::from_str(&text).map_err(|error| failed("read it", &error))?;
        let counter = path.with_extension("launches");
        let launch = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&counter)
            .and_then(|mut file| file.write_all(b".").and_then(|()| file.metadata()))
            .map_err(|error| failed("count its launches", &error))?
            .len();
        Ok(landscape.setting(launch, |name| std::env::var(name).ok()))
    }
}

impl Landscape {
    fn setting(&self, launch: u64, variable: impl Fn(&str) -> Option<String>) -> Setting {
        let value = |name: &str| variable(name).unwrap_or_else(|| UNSET.to_owned());
        let holds = |when: &BTreeMap<String, String>| when.iter().all(|(n, v)| value(n) == *v);
        let own = self.variables.iter().filter_map(|(name, table)| table.get(&value(name)));
        let pairs = self.together.iter().filter(|one| holds(&one.when)).map(|one| &one.ln);
        let ln: f64 = own.chain(pairs).sum();
        let mut random = Random::new(self.seed ^ launch.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let noise = self.launch_noise * random.normal();
        Setting {
            factor: (ln + noise).exp(),
            batch_noise: self.batch_noise,
            random,
            fails: self.fails.iter().find(|one| holds(&one.when)).map(|one| one.how),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_alone_and_together() {
        let landscape: Landscape = serde_json::from_str(
            r#"{"variables": {"A": {"unset": 0.5, "1": 1.0}}, "together": [{"when": {"A": "1", "B": "2"}, "ln": -2.0}],
                "fails": [{"when": {"B": "3"}, "how": "wrong"}]}"#,
        )
        .unwrap();
        let set = |text: &str| {
            landscape.setting(1, |name| {
                let all = text.split_whitespace().filter_map(|one| one.split_once('='));
                all.into_iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_owned())
            })
        };
        let ln = |text: &str| set(text).factor.ln();
        for (text, expected) in [("", 0.5), ("A=1", 1.0), ("A=1 B=2", -1.0), ("A=7", 0.0)] {
            assert!((ln(text) - expected).abs() < 1e-12, "{text}");
        }
        assert_eq!(set("B=3").fails, Some(Fails::Wrong));
        assert_eq!(set("").fails, None);
    }
}
