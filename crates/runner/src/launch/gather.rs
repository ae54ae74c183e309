//! A gather without ranks: every worker sends the coordinator a text, and receives the exit code.
//! Not a run.

use std::ffi::OsString;

use anyhow::Result;
use busbw_core::exit::Exit;

use super::{print_error, worker};
use busbw_job::{
    launched::Launched,
    rendezvous::{RendezvousServer, end_with_parent},
};

/// Gathers `statement` of every process of the launcher at process 0, where `evaluate` gets all of them in
/// process order. Its exit code becomes that of every process. `args` is the command line.
///
/// # Errors
/// When the rendezvous has no address, or process 0 is not found in time.
pub fn gather_from_all(
    launched: &Launched,
    args: &[OsString],
    statement: String,
    evaluate: impl FnOnce(Vec<String>) -> Result<Exit>,
) -> Result<Exit> {
    if launched.rank > 0 {
        return worker::send_statement(launched, args, statement);
    }
    let mut server = RendezvousServer::open(launched, args)?;
    end_with_parent();
    let gathered = server.gather_statements(statement).map_err(anyhow::Error::from);
    // Printed before the workers exit: then the launcher may kill this process.
    let exit = gathered.and_then(evaluate).unwrap_or_else(|error| print_error(&error));
    server.broadcast_exit(exit);
    Ok(exit)
}
