//! CUDA's Multi-Process Service (MPS): with it kernels of several processes run side by side on one GPU, without it they take
//! turns. Not starting or ending it.

use std::path::{Path, PathBuf};

/// The variable that names the folder of its pipes, and that folder without it (nvidia-cuda-mps-control's manual).
pub const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
const DEFAULT_PIPES: &str = "/tmp/nvidia-mps";
/// The pipe of its control daemon.
const CONTROL: &str = "control";

/// The folder of the control daemon that this process's CUDA would use, if one is there.
#[must_use]
pub fn pipes() -> Option<PathBuf> {
    let folder = std::env::var_os(PIPES).map_or_else(|| DEFAULT_PIPES.into(), PathBuf::from);
    has_control(&folder).then_some(folder)
}

fn has_control(folder: &Path) -> bool {
    folder.join(CONTROL).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_daemons_pipe_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_control(folder.path()));
        std::fs::write(folder.path().join(CONTROL), "").unwrap();
        assert!(has_control(folder.path()));
    }
}
