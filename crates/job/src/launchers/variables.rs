//! Which environment variables go to every process: those of the libraries, of busbw, and of a sweep.
//! Not those that belong to a machine or a user: each host has its own.

use busbw_core::environment::{HOSTS, JOB_SECRET, RANK, RELAYED, SWEPT};

/// Prefixes of names, and whole names.
const BEGINNINGS: [&str; 21] = [
    "NCCL_",
    "RCCL_",
    "UCX_",
    "UCC_",
    "FI_",
    "PSM2_",
    "PSM3_",
    "MPICH_",
    "MPIR_CVAR_",
    "MV2_",
    "MVP_",
    "I_MPI_",
    "HCOLL_",
    "SHARP_",
    "CUDA_",
    "NVSHMEM_",
    "HIP_",
    "ROCR_",
    "HSA_",
    "GLOO_",
    "BUSBW_",
];
const NAMES: [&str; 3] = ["LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT"];
/// Variables that busbw sets anew for each of its processes.
const OURS: [&str; 5] = [RANK, SWEPT, JOB_SECRET, RELAYED, HOSTS];

/// The variables of `all` to pass on, by name; `swept` are the names that a sweep sets.
pub(super) fn that_matter(
    all: impl Iterator<Item = (String, String)>,
    swept: &[String],
) -> Vec<(String, String)> {
    let matters = |name: &str| {
        NAMES.contains(&name)
            || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
            || swept.iter().any(|own| own == name)
    };
    let mut variables: Vec<(String, String)> =
        all.filter(|(name, _)| matters(name) && !OURS.contains(&name.as_str())).collect();
    variables.sort();
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_busbw() {
        let all = [
            "NCCL_DEBUG",
            "NCCL_TESTS_DEVICE",
            "HOME",
            "PATH",
            "UCX_TLS",
            "LD_LIBRARY_PATH",
            "BUSBW_JOB_SECRET",
            "BUSBW_NCCL",
            "OMPI_MCA_btl",
            "CUDA_VISIBLE_DEVICES",
            "MPIR_CVAR_ENABLE_GPU",
            "MV2_USE_CUDA",
            "LD_PRELOAD",
            "MY_PLUGIN",
        ];
        let all = all.map(|name| (name.to_owned(), String::new()));
        let swept = ["MY_PLUGIN".to_owned(), "NCCL_ALGO".to_owned()];
        let matter = that_matter(all.into_iter(), &swept);
        let names: Vec<String> = matter.into_iter().map(|(name, _)| name).collect();
        let expected = [
            "BUSBW_NCCL",
            "CUDA_VISIBLE_DEVICES",
            "LD_LIBRARY_PATH",
            "MPIR_CVAR_ENABLE_GPU",
            "MV2_USE_CUDA",
            "MY_PLUGIN",
            "NCCL_DEBUG",
            "NCCL_TESTS_DEVICE",
            "UCX_TLS",
        ];
        assert_eq!(names, expected);
    }
}
