//! The JSON schemas of docs/schemas, as the program carries them.
//! Not their printing (`schema_command`).

use embedded_files::deflated;

/// A schema (JSON Schema 2020-12).
pub struct Schema {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it describes.
    pub of: &'static str,
    /// The file in zlib's format.
    pub packed: &'static [u8],
}

/// All schemas.
#[rustfmt::skip]
pub const SCHEMAS: &[Schema] = &[
    Schema { name: "explain", of: "a line of busbw explain --json", packed: deflated!("../../docs/schemas/explain.json") },
    Schema { name: "hang", of: "the first line of busbw explain --json on a job that hangs", packed: deflated!("../../docs/schemas/hang.json") },
    Schema { name: "record", of: "a line of a record: --record, and --json of benchmarks", packed: deflated!("../../docs/schemas/record.json") },
    Schema { name: "import", of: "a line of busbw import --json", packed: deflated!("../../docs/schemas/import.json") },
    Schema { name: "compare", of: "busbw compare --json", packed: deflated!("../../docs/schemas/compare.json") },
    Schema { name: "scaling", of: "busbw compare --by nodes --json", packed: deflated!("../../docs/schemas/scaling.json") },
    Schema { name: "sweep", of: "busbw sweep --json and busbw transports --json", packed: deflated!("../../docs/schemas/sweep.json") },
    Schema { name: "pairs", of: "a matrix of pairs, as busbw report reads it", packed: deflated!("../../docs/schemas/pairs.json") },
    Schema { name: "list", of: "a line of busbw list --json", packed: deflated!("../../docs/schemas/list.json") },
    Schema { name: "lint", of: "a line of busbw lint --json, and every other finding", packed: deflated!("../../docs/schemas/lint.json") },
    Schema { name: "check", of: "busbw check --json", packed: deflated!("../../docs/schemas/check.json") },
    Schema { name: "tune", of: "busbw tune --json", packed: deflated!("../../docs/schemas/tune.json") },
    Schema { name: "doctor", of: "busbw doctor --json", packed: deflated!("../../docs/schemas/doctor.json") },
    Schema { name: "fabric", of: "busbw topo FABRIC.toml --json", packed: deflated!("../../docs/schemas/fabric.json") },
    Schema { name: "prediction", of: "busbw compare PREDICTION RUN --json", packed: deflated!("../../docs/schemas/prediction.json") },
    Schema { name: "plan", of: "busbw plan --json", packed: deflated!("../../docs/schemas/plan.json") },
    Schema { name: "watch", of: "busbw watch --json", packed: deflated!("../../docs/schemas/watch.json") },
    Schema { name: "topo", of: "busbw topo --json", packed: deflated!("../../docs/schemas/topo.json") },
];

#[cfg(test)]
mod tests {
    use miniz_oxide::inflate::decompress_to_vec_zlib;

    use super::*;

    #[test]
    fn every_committed_schema_is_printed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");
        let mut committed: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        committed.sort();
        let mut names: Vec<&str> = SCHEMAS.iter().map(|one| one.name).collect();
        names.sort_unstable();
        assert_eq!(committed, names);
        for one in SCHEMAS {
            let text = decompress_to_vec_zlib(one.packed).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(json["$schema"], "https://json-schema.org/draft/2020-12/schema");
        }
    }
}
