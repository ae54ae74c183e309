//! A roll call: every process of a launcher hands the first one a text, and hears how it ended.
//! Not a run: nobody holds ranks.

use std::ffi::OsString;

use anyhow::Result;
use busbw_core::exit::Exit;

use super::worker;
use busbw_core::exit::print_error;
use busbw_job::{
    launched::Launched,
    rendezvous::{Door, end_with_parent},
};

/// Hands `said` to the first process of the launcher, started with `args`; there `judge` gets what all of
/// them said, by process. The exit code that it comes to is everybody's.
///
/// # Errors
/// When there is no first process to be found, or its door cannot be opened.
pub fn roll(
    launched: &Launched,
    args: &[OsString],
    said: String,
    judge: impl FnOnce(Vec<String>) -> Result<Exit>,
) -> Result<Exit> {
    if launched.rank > 0 {
        return worker::hand_over(launched, args, said);
    }
    let mut door = Door::open(launched, args)?;
    end_with_parent();
    let heard = door.call_roll(said).map_err(anyhow::Error::from);
    // Said before the others exit: then their launcher may kill us.
    let exit = heard.and_then(judge).unwrap_or_else(|error| print_error(&error));
    door.dismiss(exit);
    Ok(exit)
}
