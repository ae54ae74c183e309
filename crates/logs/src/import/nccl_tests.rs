//! The text of nccl-tests and rccl-tests, line by line: heads, devices, rows, feet.
//! Not where one run ends and the next begins (`section`).
//!
//! Layouts: nccl-tests src/common.cu and util.cu, 1.0 to 2.19; rccl-tests' additions. Columns are taken
//! by the names in the header, by number where there is no header.

mod columns;
mod head;
mod row;
mod tables;

pub(super) use columns::Columns;
pub(super) use head::{HeadLine, collective_in, unmarked};
pub(super) use row::{Parsed, RowText, find};
pub(super) use tables::{Rest, Tables, common_head, header_rest};

use row::continuation;
