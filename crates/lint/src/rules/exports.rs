//! Variables that a launcher passes on by name, but that nobody sets.
//! Not `-x NAME=value`, which is a setting.

use busbw_core::finding::{Finding, Place, Severity};

use crate::assignment::is_ours;
use crate::document::Document;
use crate::environment::is_set_elsewhere;

pub(super) fn check(document: &Document) -> Vec<Finding> {
    if document.opaque {
        return Vec::new();
    }
    let unset = document.exports.iter().filter(|export| {
        let name = export.name.as_str();
        // Ours are looked at even though a login may set them: a script should not rely on it.
        !document.set.contains(name) && (is_ours(name) || !is_set_elsewhere(name))
    });
    unset
        .map(|export| {
            let cause = "the launcher is told to pass it on, but nothing in this script sets it";
            let remedy = format!("write -x {}=value, or set it before", export.name);
            let finding = Finding::new("export-unset", Severity::Warning, cause).remedy(remedy);
            finding.place(Place::at(Some(export.line), &export.name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<String> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|f| f.rule == "export-unset");
        found.iter().filter_map(|f| f.variable().map(str::to_owned)).collect()
    }

    #[test]
    fn a_name_that_nobody_sets() {
        let text = "mpirun -np 8 -x NCCL_DEBUG -x PATH -x LD_LIBRARY_PATH -x FOO \\\n  ./run\n";
        assert_eq!(found(text), ["FOO", "NCCL_DEBUG"]);
        assert_eq!(found("srun --export=ALL,NCCL_DEBUG ./run"), ["NCCL_DEBUG"]);
    }

    #[test]
    fn a_name_that_is_set_or_given_a_value() {
        assert!(found("export NCCL_DEBUG=INFO\nmpirun -x NCCL_DEBUG ./run").is_empty());
        assert!(found("mpirun -x NCCL_DEBUG=INFO ./run").is_empty());
        assert!(found("source env.sh\nmpirun -x NCCL_DEBUG ./run").is_empty());
        assert!(found("set -x\nbash -x NCCL_DEBUG").is_empty());
    }
}
