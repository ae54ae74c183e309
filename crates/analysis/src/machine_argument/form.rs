//! Recognises the format of a machine's description by its content: topology or graphs XML, nvidia-smi's matrix, a machine
//! file, JSON of `busbw topo`, a record. Not where the text is from.

use std::path::Path;

use busbw_hardware::{
    machine::{self, Machine},
    topology::{Input, System, recognise},
};
use busbw_logs::measurement::Measurement;
use serde_json::Value;

use super::{Described, of_run};
use busbw_store as store;

/// The description in a text, and a note on its source.
///
/// # Errors
/// Why the text describes no machine, in one line.
pub(super) fn read(text: &str, name: &str) -> Result<(Described, String), String> {
    if text.trim_start().starts_with('{') {
        return json(text, name);
    }
    if is_machine_file(text, name) {
        let machine = machine::parse(text).map_err(|e| format!("as a machine file: {e}"))?;
        let note = "a machine file: figures as somebody wrote them down".to_owned();
        return Ok((Described::Machine(machine), note));
    }
    let input = recognise(text).map_err(|refused| refused.to_string())?;
    let note = match &input {
        Input::System(system) => {
            let whose = if system.version == 2 { "RCCL" } else { "NCCL" };
            format!(
                "{whose}'s topology: it tells no port states, one end of links, and no host bridges (PHB may be NODE)"
            )
        }
        Input::Graphs(_) => "NCCL's graphs".to_owned(),
        Input::Matrices(_) => "nvidia-smi topo -m: it tells no rates".to_owned(),
    };
    Ok((input.into(), note))
}

/// Keys and values, or so named; no table of nvidia-smi and no XML.
fn is_machine_file(text: &str, name: &str) -> bool {
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let named = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    // A prompt, `[root@host ~]# nvidia-smi topo -m`, is no table's name.
    let table = |line: &str| {
        let name = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        name.is_some_and(|(name, _)| !name.trim().contains(['@', '~', ' ']))
    };
    named
        || first.is_some_and(|first| {
            !first.starts_with('<')
                && (table(first) || !first.starts_with('[') && first.contains('='))
        })
}

/// What `busbw topo --json` printed, or a record in either form.
fn json(text: &str, name: &str) -> Result<(Described, String), String> {
    let first = text.trim_start().lines().next().unwrap_or("");
    let value = serde_json::from_str::<Value>(first).or_else(|_| serde_json::from_str(text));
    let mut value = value.map_err(|e| format!("damaged JSON: {e}"))?;
    if value.get("kind").is_some() || value.get("run").is_some() {
        let record = store::parse(text, name).map_err(|e| e.to_string())?;
        let run = Measurement::from_record(record, name);
        let (machine, assumed) = of_run(&run).ok_or(
            "it is a record, but not of GPUs of one known model: name a machine file or a topology",
        )?;
        let note = format!("a record: {}; links of devices are not in it", assumed.join(", "));
        return Ok((Described::Machine(machine), note));
    }
    let mut take = |key: &str| value.get_mut(key).map(Value::take).filter(|part| !part.is_null());
    let damaged = |e: serde_json::Error| format!("damaged JSON of busbw topo: {e}");
    let note = "what busbw topo printed".to_owned();
    if let Some(system) = take("system") {
        let system: System = serde_json::from_value(system).map_err(damaged)?;
        return Ok((Described::System(system), note));
    }
    if let Some(machine) = take("machine") {
        let machine: Machine = serde_json::from_value(machine).map_err(damaged)?;
        return Ok((Described::Machine(machine), note));
    }
    Err("JSON that is neither of busbw topo nor a record: it has no `system`, `machine`, `run` or `kind`"
        .to_owned())
}
