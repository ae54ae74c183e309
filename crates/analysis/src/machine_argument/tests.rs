use std::{fs, path::PathBuf};

use super::*;
use crate::explain::Hardware;

fn recorded(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware/tests/data/topology");
    folder.join(name)
}

/// Whoever reads the word: the same machine, or the same refusal.
#[test]
fn one_word_is_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let topology = MachineArgument::read(&recorded("h200x8.xml")).unwrap();
    let Described::System(system) = &topology.described else { panic!("it is a topology") };
    let printed = serde_json::json!({ "schema": 1, "system": system, "machine": null });
    let machine_file = "nodes = 2\ngpus = 8\nmodel = \"H200\"\n";
    for (path, gpus) in [
        (recorded("h200x8.xml"), Some(8)),
        (recorded("a800x8_smi.txt"), Some(8)),
        (recorded("graphs.xml"), None),
        (recorded("ascend_npu_smi.txt"), None),
        (PathBuf::from("dgx-h100"), Some(8)),
        (PathBuf::from("/nowhere"), None),
        (file("mine.toml", machine_file), Some(8)),
        (file("mine", machine_file), Some(8)),
        (file("without.toml", "gpus 8\n"), None),
        (file("topo.json", &printed.to_string()), Some(8)),
        (file("other.json", "{\"a\": 1}"), None),
    ] {
        let named = MachineArgument::read(&path).and_then(|named| named.machine());
        let known = named.as_ref().ok().map(|machine| machine.node.gpus);
        assert_eq!(known, gpus, "{}: {named:?}", path.display());
        let explained = Hardware::read(path.to_str(), None);
        match (named, explained) {
            (Ok(named), Ok(explained)) => assert_eq!(Some(named), explained.machine),
            (Err(named), Err(explained)) => assert_eq!(named.to_string(), explained.to_string()),
            (named, explained) => panic!("{}: {named:?}, {explained:?}", path.display()),
        }
    }
}
