//! Which RDMA devices are asked for, as the command line names them and as a rank's process needs them.
//! Not choosing one of them (`busbw_host::machine::choose`), and not libibverbs.

use serde::{Deserialize, Serialize};

/// The devices that ranks may use, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// As `--ib-dev` has them, such as `mlx5_0,mlx5_1:2` or `^mlx5_3`; `None` for all.
    pub devices: Option<String>,
    /// Whether ports may be filled that others use (`--shared`).
    pub shared: bool,
}
