//! Recognises a file of the report: runs, the result of a sweep, or a matrix of pairs.
//! Not how logs and records are read (`busbw-logs`).

use std::{fs, io, path::Path};

use anyhow::Result;
use busbw_core::{exit::Exit, pairs::Pairs};
use busbw_logs::measurement::Measurement;
use serde_json::{Deserializer, Value};

use busbw_analysis::sweep::{Outcome, RESULT_FILE, read as read_sweep};
use busbw_core::exit::ExitError;
use busbw_core::quantity::count;
use busbw_logs::import;

/// Keys by which results are known; busbw writes them first.
const SWEEP_KEY: &str = "sweep_schema";
const PAIRS_KEY: &str = "pairs_schema";

/// Maximum size of a result, bytes: JSON is read as a whole.
const MAX_RESULT_BYTES: u64 = 256 << 20;

/// The contents of all files.
#[derive(Debug, Default)]
pub struct Sources {
    /// Runs of records and logs.
    pub runs: Vec<Measurement>,
    /// Results of sweeps.
    pub sweeps: Vec<Outcome>,
    /// Matrices of pairs.
    pub pairs: Vec<Pairs>,
    /// Remarks about the parts of files that were not read.
    pub unread: Vec<String>,
}

impl Sources {
    /// Reads every file.
    ///
    /// # Errors
    /// The first that cannot be read, with exit code 2.
    pub fn read<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Sources> {
        let mut sources = Sources::default();
        for path in paths {
            sources.add(path).map_err(|why| ExitError::new(Exit::Usage, why))?;
        }
        Ok(sources)
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        let name = path.display();
        if let Some(text) = result_text(path).map_err(|e| format!("cannot read {name}: {e}"))? {
            return self.add_results(&text).map_err(|why| format!("{name}: {why}"));
        }
        let read = import::read_path(path).map_err(|e| e.to_string())?;
        self.unread.extend(read.lines.unread().map(|unread| format!("{name}: {unread}")));
        for run in read.measurements.iter().filter(|run| run.rows_left_out > 0) {
            self.unread.push(format!(
                "{name}: of {}, {} beyond the first {} were left out",
                run.test_name(),
                count(run.rows_left_out, "row"),
                run.rows.len()
            ));
        }
        for mut run in read.measurements {
            self.pairs.append(&mut run.pairs);
            self.runs.push(run);
        }
        Ok(())
    }

    /// Results, one after the other.
    fn add_results(&mut self, text: &str) -> Result<(), String> {
        for value in Deserializer::from_str(text).into_iter::<Value>() {
            let value = value.map_err(|e| format!("damaged JSON: {e}"))?;
            if value.get(SWEEP_KEY).is_some() {
                self.sweeps.push(read_sweep(&value.to_string())?);
            } else if value.get(PAIRS_KEY).is_some() {
                let pairs: Pairs = serde_json::from_value(value)
                    .map_err(|e| format!("this is no matrix of pairs: {e}"))?;
                self.pairs.push(pairs.checked().map_err(|e| e.to_string())?);
            } else {
                return Err(
                    "among results there is something else: give it a file of its own".to_owned()
                );
            }
        }
        Ok(())
    }
}

/// The text of results: of a sweep's folder, or of a file of JSON that begins as one.
fn result_text(path: &Path) -> io::Result<Option<String>> {
    let result = path.join(RESULT_FILE);
    let path = if result.is_file() { &result } else { path };
    let is_json =
        path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl");
    if !is_json || !path.is_file() || fs::metadata(path)?.len() > MAX_RESULT_BYTES {
        return Ok(None);
    }
    // A binary file is refused where runs are read, with the reason.
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => return Ok(None),
        other => other?,
    };
    let begins = |key: &str| {
        let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
        inside.and_then(|text| text.strip_prefix('"')).is_some_and(|text| text.starts_with(key))
    };
    Ok((begins(SWEEP_KEY) || begins(PAIRS_KEY)).then_some(text))
}
