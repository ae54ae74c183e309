//! What a file given to the report is: runs, the result of a sweep, or a matrix of pairs.
//! Not how logs and records are read (`import`).

use std::{fs, io, path::Path};

use anyhow::Result;
use model::{exit::Exit, measurement::Measurement, pairs::Pairs};

use crate::{
    Refusal, import,
    sweep::{self, Outcome},
};

/// JSON is read as a whole: the largest result that is looked at, bytes.
const LARGEST: u64 = 256 << 20;

/// Everything that was given.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub runs: Vec<Measurement>,
    pub sweeps: Vec<Outcome>,
    pub pairs: Vec<Pairs>,
    /// What was not read of a file.
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
            sources.add(path).map_err(|why| Refusal::new(Exit::Usage, why))?;
        }
        Ok(sources)
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        let name = path.display();
        if let Some(text) = result_text(path).map_err(|e| format!("cannot read {name}: {e}"))? {
            if text.contains("\"sweep_schema\"") {
                self.sweeps.push(sweep::read(&text).map_err(|why| format!("{name}: {why}"))?);
                return Ok(());
            }
            if text.contains("\"pairs_schema\"") {
                let pairs: Pairs = serde_json::from_str(&text)
                    .map_err(|e| format!("{name} is no matrix of pairs: {e}"))?;
                self.pairs.push(pairs.checked().map_err(|e| format!("{name}: {e}"))?);
                return Ok(());
            }
        }
        let read = import::read_path(path).map_err(|e| e.to_string())?;
        self.unread.extend(read.lines.unread().map(|unread| format!("{name}: {unread}")));
        self.runs.extend(read.measurements);
        Ok(())
    }
}

/// The text of a file that may be a result: JSON, or a sweep's folder.
fn result_text(path: &Path) -> io::Result<Option<String>> {
    let result = path.join(sweep::RESULT);
    let path = if result.is_file() { &result } else { path };
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if !is_json || !path.is_file() || fs::metadata(path)?.len() > LARGEST {
        return Ok(None);
    }
    // What is no text is refused where runs are read, with its reason.
    match fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(None),
        other => other.map(Some),
    }
}
