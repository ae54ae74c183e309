//! Variables of a sweep that nothing in its job reads, as far as busbw knows.
//! Not their values (`busbw_lint`).

use busbw_core::plan::{MovedBy, Plan};

use super::Environment;

/// Beginnings of names that programs and libraries read wherever ranks run: loaders, C and C++ libraries, Open MP, busbw.
const EVERYWHERE: [&str; 9] =
    ["BUSBW_", "NCCL_TESTS_", "LD_", "GLIBC_", "MALLOC_", "OMP_", "GOMP_", "KMP_", "RUST_"];
/// The same where GPUs take part: CUDA, ROCm, and their tools.
const WITH_GPUS: [&str; 7] = ["CUDA_", "NVIDIA_", "HSA_", "HIP_", "ROCR_", "AMD_", "GPU_"];
/// The same of NCCL, of its plugins, and of what these open: verbs, libfabric, UCX.
const WITH_NCCL: [&str; 12] = [
    "NCCL_", "RCCL_", "UCX_", "UCC_", "FI_", "OFI_", "MLX5_", "MLX_", "RDMAV_", "IBV_", "SHARP_",
    "MSCCL",
];
/// The same of launchers.
const WITH_LAUNCHER: [&str; 9] =
    ["OMPI_", "PMIX_", "PRTE_", "PMI_", "HYDRA_", "I_MPI_", "MPIR_", "SLURM_", "SSH_"];
/// By libibverbs and its providers.
const WITH_VERBS: [&str; 3] = ["MLX5_", "RDMAV_", "IBV_"];
/// The same of MPI and its launchers.
const WITH_MPI: [&str; 16] = [
    "OMPI_", "PMIX_", "PRTE_", "PMI_", "MPICH_", "MPIR_", "MPI_", "I_MPI_", "MV2_", "HYDRA_",
    "UCX_", "UCC_", "FI_", "MLX5_", "RDMAV_", "PSM",
];

/// A remark for each variable that the job of `plan` does not read.
pub(super) fn remarks(
    plan: &Plan,
    environments: &[Environment],
    has_launcher: bool,
) -> Vec<String> {
    let moved_by = plan.backend.spec().moved_by;
    let is_read = |name: &str| is_read(name, moved_by, has_launcher);
    let mut names: Vec<&str> = Vec::new();
    for name in environments.iter().flat_map(|one| &one.variables).map(|one| one.name.as_str()) {
        if !names.contains(&name) && !is_read(name) {
            names.push(name);
        }
    }
    let backend = plan.backend.spec().name;
    let remark = |name: &&str| {
        format!(
            "{name} is nothing that busbw knows to be read by a job of the backend {backend}: launches that differ in it alone should be alike"
        )
    };
    names.iter().map(remark).collect()
}

fn is_read(name: &str, moved_by: MovedBy, has_launcher: bool) -> bool {
    let begins = |list: &[&str]| list.iter().any(|prefix| name.starts_with(prefix));
    begins(&EVERYWHERE)
        || (has_launcher && begins(&WITH_LAUNCHER))
        || match moved_by {
            MovedBy::Nccl => begins(&WITH_GPUS) || begins(&WITH_NCCL),
            MovedBy::Mpi => begins(&WITH_GPUS) || begins(&WITH_MPI),
            MovedBy::NetPlugin => begins(&WITH_NCCL),
            MovedBy::Verbs => begins(&WITH_VERBS),
            MovedBy::Busbw | MovedBy::Nothing => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_what() {
        for (name, moved_by, has_launcher, read) in [
            ("NCCL_ALGO", MovedBy::Nccl, false, true),
            ("NCCL_ALGO", MovedBy::Busbw, false, false),
            ("NCCL_TESTS_DEVICE", MovedBy::Busbw, false, true),
            ("BUSBW_NET_PATHS", MovedBy::NetPlugin, false, true),
            ("OMPI_MCA_btl", MovedBy::Mpi, false, true),
            ("OMPI_MCA_btl", MovedBy::Nccl, false, false),
            ("OMPI_MCA_btl", MovedBy::Nccl, true, true),
            ("FOO", MovedBy::Nccl, true, false),
        ] {
            assert_eq!(is_read(name, moved_by, has_launcher), read, "{name} {moved_by:?}");
        }
    }
}
