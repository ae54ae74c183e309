//! The network of this process.
//! Not the networks.

use std::sync::{Mutex, OnceLock};

use super::{internal, tables};
use crate::{
    devices,
    multipath::{
        self, Multipath, engine,
        fault::{self, Fault},
        rdma::Rdma,
    },
    network::{Failure, Network, Result},
    transport::{self, Transport},
};

/// Makes the network of a process.
pub type Make = fn() -> Result<Box<dyn Network>>;

static NETWORK: OnceLock<Box<dyn Network>> = OnceLock::new();
static CHOOSING: Mutex<()> = Mutex::new(());
static REPLACED: OnceLock<Make> = OnceLock::new();

/// Puts another network behind the tables, under this name in NCCL's log and for NCCL_NET: for libraries that link
/// this crate for its tables, and before NCCL looks for the first one. The first call counts.
pub fn replace(name: &str, make: Make) {
    if REPLACED.set(make).is_ok() {
        tables::rename(name);
    }
}

/// The network; the first call makes it.
pub(super) fn network() -> Result<&'static dyn Network> {
    if let Some(network) = NETWORK.get() {
        return Ok(network.as_ref());
    }
    let _choosing = CHOOSING.lock().map_err(|_| internal("could not be made"))?;
    if NETWORK.get().is_none() {
        let make = REPLACED.get().copied().unwrap_or(multipath);
        let _ = NETWORK.set(make()?);
    }
    NETWORK.get().map(AsRef::as_ref).ok_or_else(|| internal("could not be made"))
}

fn multipath() -> Result<Box<dyn Network>> {
    let fault = variable(fault::VARIABLE, "kill:MILLISECONDS", Fault::parsed)?;
    let threads = variable(engine::VARIABLE, "a number of threads, at most 64", |text| {
        text.parse().ok().filter(|&threads: &usize| threads <= 64)
    })?;
    if transport::of_environment()? == Some(Transport::Rdma) {
        return Ok(Box::new(Rdma::new(fault)?));
    }
    let network = Multipath::new(devices::devices()?, threads, fault);
    Ok(Box::new(network.written_to(multipath::stats_file())))
}

/// Value of a variable, unless it is unset or empty.
fn variable<T>(
    name: &str,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>> {
    match std::env::var(name).ok().filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => read(&text).map(Some).ok_or_else(|| Failure::variable(name, &text, expected)),
    }
}
