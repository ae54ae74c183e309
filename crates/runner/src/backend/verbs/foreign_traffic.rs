//! Whether others use the ports that a matrix of pairs would fill: looked at before anything is sent.
//! Not who they are, and not what the matrix itself loads (the command says that and asks).

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use busbw_core::{Benchmark, exit::Exit, plan::Plan};
use busbw_host::{in_use, machine::Root};
use busbw_job::world::World;
use serde::{Deserialize, Serialize};

use super::{OpenPort, Wanted};
use crate::backend::{BackendError, RunError};

/// How long ranks wait for each other's looks.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a rank has seen.
#[derive(Serialize, Deserialize)]
struct Seen {
    host: String,
    uses: Vec<String>,
}

/// Refuses a matrix of several hosts whose ports others use just now, unless the user shares them (`--shared`). Takes half a second.
///
/// # Errors
/// They are in use: by how much. Or another rank was lost.
pub(super) fn refuse(
    plan: &Plan,
    wanted: &Wanted,
    own: &OpenPort,
    world: &mut dyn World,
) -> Result<(), RunError> {
    if plan.benchmark != Benchmark::Pairs || wanted.shared {
        return Ok(());
    }
    let uses = in_use::traffic_now(&Root::system(), &own.counted_as());
    let seen = Seen { host: world.host().to_owned(), uses };
    let said = serde_json::to_vec(&seen).unwrap_or_default();
    let all = world.allgather(&said, Some(Instant::now() + TIMEOUT))?;
    let all: Vec<Seen> = all.iter().filter_map(|said| serde_json::from_slice(said).ok()).collect();
    let hosts: BTreeSet<&str> = all.iter().map(|seen| seen.host.as_str()).collect();
    let busy: BTreeSet<String> =
        all.iter().filter_map(|seen| in_use::sentence(&seen.host, &seen.uses)).collect();
    if hosts.len() < 2 || busy.is_empty() {
        return Ok(());
    }
    const SHOWN: usize = 3;
    let shown = busy.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    let more = match busy.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more ports"),
    };
    let text = format!(
        "others use the links that this would fill ({shown}{more}): wait for them, or measure all the same with --shared"
    );
    Err(BackendError::Refused { text, exit: Exit::Impossible }.into())
}
