//! Real runs as processes: how tests start, watch and end them, and what must not be left behind.
//! Not what becomes of them (`faults`, `nccl`, `net`).

pub(crate) mod aftermath;
pub(crate) mod bench;
pub(crate) mod cells;
pub(crate) mod traces;
