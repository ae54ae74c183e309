//! Settings that stay in the shell: a line `NAME=value` of a script that starts ranks, which nothing exports or uses.
//! Not what a launcher must pass on to other hosts (`handed_on`).

use busbw_core::finding::{Finding, Severity};

use crate::assignment::Form;
use crate::document::Document;
use crate::known::tables;

pub(super) fn check(document: &Document) -> Vec<Finding> {
    // A list of NAME=value without a launch is a file that others read.
    if document.opaque || (document.launches.is_empty() && document.runs.is_empty()) {
        return Vec::new();
    }
    let stays = document.assignments.iter().filter(|setting| {
        let name = &setting.name;
        setting.form == Form::Local
            && tables().is_current(name)
            && !document.exported.contains(name)
            && !document.used.contains(name)
    });
    stays
        .map(|setting| {
            let cause =
                "a variable of this shell alone, which no program sees, since it is not exported";
            let remedy = format!("write export {}=...", setting.name);
            Finding::new("not-exported", Severity::Warning, cause)
                .remedy(remedy)
                .place(setting.place())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<Option<u32>> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|finding| finding.rule == "not-exported");
        found.iter().map(|finding| finding.line()).collect()
    }

    #[test]
    fn what_no_program_sees() {
        assert_eq!(found("NCCL_ALGO=Ring\nmpirun -np 2 ./all_reduce_perf\n"), [Some(1)]);
        assert_eq!(found("NCCL_ALGO=Ring; ./all_reduce_perf\n"), [Some(1)]);
    }

    #[test]
    fn what_is_exported_or_used_or_only_a_list() {
        for text in [
            "NCCL_ALGO=Ring\nexport NCCL_ALGO\nmpirun ./all_reduce_perf\n",
            "export NCCL_ALGO\nNCCL_ALGO=Ring\nmpirun ./all_reduce_perf\n",
            "set -a\nNCCL_ALGO=Ring\nmpirun ./all_reduce_perf\n",
            "set -o allexport\nNCCL_ALGO=Ring\nmpirun ./all_reduce_perf\n",
            "NCCL_ALGO=Ring ./all_reduce_perf\n",
            "NCCL_ALGO=Ring\nmpirun -x NCCL_ALGO=$NCCL_ALGO ./all_reduce_perf\n",
            "NCCL_ALGO=Ring\nARGS=\"-x NCCL_ALGO=${NCCL_ALGO}\"\nmpirun $ARGS ./all_reduce_perf\n",
            "NCCL_ALGO=Ring\nNCCL_DEBUG=INFO\n",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
