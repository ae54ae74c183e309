//! Shell variables that a script may use without setting them.
//! It lists names only; it never looks at the real environment.

/// Names that a shell, a login, a scheduler or an image sets.
const NAMES: [&str; 58] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "HOSTNAME",
    "HOST",
    "PWD",
    "OLDPWD",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TERM",
    "LANG",
    "UID",
    "EUID",
    "GID",
    "GROUPS",
    "PPID",
    "RANDOM",
    "SECONDS",
    "LINENO",
    "IFS",
    "REPLY",
    "OPTARG",
    "OPTIND",
    "PIPESTATUS",
    "FUNCNAME",
    "SHLVL",
    "HOSTTYPE",
    "MACHTYPE",
    "OSTYPE",
    "DIRSTACK",
    "COLUMNS",
    "LINES",
    "EDITOR",
    "DISPLAY",
    "MANPATH",
    "PYTHONPATH",
    "CPATH",
    "LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "PS1",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "VIRTUAL_ENV",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "POD_NAME",
    "POD_IP",
    "JOB_ID",
    "_",
];

/// First parts of names that schedulers, launchers and libraries own.
const PREFIXES: [&str; 34] = [
    "SLURM_",
    "SLURMD_",
    "SBATCH_",
    "OMPI_",
    "OPAL_",
    "PRTE_",
    "PMI_",
    "PMIX_",
    "PMI2_",
    "MPI_",
    "MPICH_",
    "I_MPI_",
    "HYDRA_",
    "MV2_",
    "PBS_",
    "LSB_",
    "LSF_",
    "SGE_",
    "COBALT_",
    "FLUX_",
    "KUBERNETES_",
    "CUDA_",
    "ROCM_",
    "HIP_",
    "HPCX_",
    "LD_",
    "LC_",
    "XDG_",
    "SSH_",
    "BASH_",
    "CONDA_",
    "NCCL_",
    "UCX_",
    "AWS_",
];

/// Whether somebody outside the script normally sets the name.
pub(crate) fn is_set_elsewhere(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_and_logins_set_theirs() {
        for name in ["HOME", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "LD_LIBRARY_PATH", "PMI_RANK"]
        {
            assert!(is_set_elsewhere(name), "{name}");
        }
    }

    #[test]
    fn a_script_sets_its_own() {
        for name in ["NP", "HOSTFILE", "HCAS", "HOMES"] {
            assert!(!is_set_elsewhere(name), "{name}");
        }
    }
}
