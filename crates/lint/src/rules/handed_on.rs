//! Exported settings that Open MPI does not pass on to other hosts, because no -x names them.
//! Not MPICH and Intel MPI, which pass the whole environment on, and not jobs of a scheduler, whose daemons inherit it.

use busbw_core::finding::{Finding, Place, Severity};

use crate::assignment::{Assignment, Form};
use crate::document::{Document, Launch};
use crate::known::tables;

/// Names that a finding lists.
const MAX_NAMES: usize = 8;

pub(super) fn check(document: &Document) -> Vec<Finding> {
    if document.scheduled {
        return Vec::new();
    }
    document.launches.iter().filter_map(|launch| forgotten(document, launch)).collect()
}

/// What one launch to other hosts leaves behind (mpirun(1) of Open MPI: without -x, of the environment only variables
/// named OMPI_* reach remote nodes).
fn forgotten(document: &Document, launch: &Launch) -> Option<Finding> {
    if !launch.is_open_mpi || !launch.has_hosts || launch.is_open {
        return None;
    }
    let holds = |setting: &&Assignment| {
        let before = setting.line.is_some_and(|line| line <= launch.line);
        match setting.command {
            None => {
                before
                    && (setting.form == Form::Reaching || document.exported.contains(&setting.name))
            }
            Some(command) => command == launch.command,
        }
    };
    let mut names: Vec<&str> = document
        .assignments
        .iter()
        .filter(holds)
        .map(|setting| setting.name.as_str())
        .filter(|name| tables().is_current(name) && !launch.names.contains(*name))
        .collect();
    names.sort_unstable();
    names.dedup();
    let all = names.len();
    names.truncate(MAX_NAMES);
    let (first, rest) = names.split_first()?;
    let more =
        if all > MAX_NAMES { format!(" and {} more", all - MAX_NAMES) } else { String::new() };
    let listed =
        if rest.is_empty() { (*first).to_owned() } else { format!("{}{more}", names.join(", ")) };
    let verb = if all == 1 { "is" } else { "are" };
    let cause = format!(
        "{listed} {verb} set, and Open MPI does not pass {} on to other hosts",
        if all == 1 { "it" } else { "them" }
    );
    let words: Vec<String> = names.iter().map(|name| format!("-x {name}")).collect();
    let finding = Finding::new("not-handed-on", Severity::Warning, cause);
    let remedy = format!("add {}", words.join(" "));
    Some(finding.remedy(remedy).place(Place::at(Some(launch.line), "mpirun")))
}

#[cfg(test)]
mod tests {
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<String> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|finding| finding.rule == "not-handed-on");
        found.iter().map(|f| format!("{:?} {}", f.line(), f.remedy.as_deref().unwrap())).collect()
    }

    #[test]
    fn what_stays_behind() {
        let text = "export NCCL_IB_HCA=mlx5_0\nexport NCCL_DEBUG=INFO UCX_TLS=rc\nmpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG ./all_reduce_perf\n";
        assert_eq!(found(text), ["Some(3) add -x NCCL_IB_HCA -x UCX_TLS"]);
        let prefix = "NCCL_ALGO=Ring mpirun --hostfile h --map-by ppr:8:node ./all_reduce_perf\n";
        assert_eq!(found(prefix), ["Some(1) add -x NCCL_ALGO"]);
    }

    #[test]
    fn what_is_passed_on_or_need_not_be() {
        let export = "export NCCL_ALGO=Ring\n";
        for line in [
            "mpirun -np 2 --bind-to core -x NCCL_DEBUG=INFO ./all_reduce_perf",
            "mpirun -H a:8,b:8 -x NCCL_ALGO ./all_reduce_perf",
            "mpirun -H a:8,b:8 -x NCCL_ALGO=Tree ./all_reduce_perf",
            "mpirun -H a:8 --map-by ppr:8:node ./all_reduce_perf",
            "mpirun -H localhost:2 -x LD_LIBRARY_PATH ./all_reduce_perf",
            "mpirun $OPTIONS -H a:8,b:8 -x NCCL_DEBUG=INFO ./all_reduce_perf",
            "mpirun -H a:8,b:8 --mca mca_base_env_list NCCL_ALGO ./all_reduce_perf",
            "mpiexec -hosts a,b -n 16 ./all_reduce_perf",
            "mpiexec -f hosts -n 16 ./all_reduce_perf",
            "srun -N 2 ./all_reduce_perf",
        ] {
            assert_eq!(found(&format!("{export}{line}\n")), [""; 0], "{line}");
        }
        let job = format!(
            "#!/bin/bash\n#SBATCH -N 2\n{export}mpirun --hostfile h -x PATH ./all_reduce_perf\n"
        );
        assert_eq!(found(&job), [""; 0]);
    }

    #[test]
    fn a_value_that_comes_later_is_not_meant() {
        let text =
            "mpirun -H a:8,b:8 -x NCCL_DEBUG=INFO ./all_reduce_perf\nexport NCCL_ALGO=Ring\n";
        assert_eq!(found(text), [""; 0]);
    }
}
