//! Writes the files of a made-up job into a folder, to look at them with `busbw watch`.
//! `cargo run -p busbw-watch --example files FOLDER [compute|host|core|stopped|none] [STEPS]`

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::{fs, path::PathBuf};

use busbw_watch_file::Line;
use synthetic::{Fault, Shape, job};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().ok_or("a folder is expected")?);
    let fault = match words.next().as_deref() {
        Some("host") => Fault::Host(12_000_000),
        Some("core") => Fault::Core(12_000_000),
        Some("stopped") => Fault::Stopped,
        Some("none") => Fault::None,
        _ => Fault::Compute(1.5),
    };
    let steps = words.next().map_or(Ok(40), |word| word.parse())?;
    fs::create_dir_all(&folder)?;
    for (name, file) in job(Shape { tp: 2, pp: 1, dp: 2, steps }, 1, 3, fault) {
        let mut text = serde_json::to_string(&Line::Process(file.process))? + "\n";
        for line in &file.lines {
            text += &serde_json::to_string(line)?;
            text += "\n";
        }
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}
