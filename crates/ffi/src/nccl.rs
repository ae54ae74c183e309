//! NCCL (or RCCL, which has the same names): opened at run time, any version from 2.18 on.
//! Not which operation runs when.

mod call_config;
mod call_tuner;
mod communicator;
mod config;
mod library;
mod operation;
mod registration;
mod table;

pub use call_config::{CallConfig, NoCallConfig};
pub use call_tuner::CallTuner;
pub use communicator::{Communicator, Progress, UniqueId};
pub use config::{Config, HEADER_VERSION};
pub use library::{Nccl, NcclError, Version};
pub use operation::{Operation, Operator};
pub use registration::{Registration, Symmetric};
