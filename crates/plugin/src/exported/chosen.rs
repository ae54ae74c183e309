//! Which network this process has.
//! Not the networks.

use std::sync::{Mutex, OnceLock};

use super::internal;
use crate::{
    devices, log,
    multipath::{
        Multipath,
        fault::{self, Fault},
    },
    network::{Network, Result},
    reference::{Reference, Settings},
};

static NETWORK: OnceLock<Box<dyn Network>> = OnceLock::new();
static CHOOSING: Mutex<()> = Mutex::new(());

/// The network, made at the first call.
pub(super) fn network() -> Result<&'static dyn Network> {
    if let Some(network) = NETWORK.get() {
        return Ok(network.as_ref());
    }
    let _choosing = CHOOSING.lock().map_err(|_| internal("could not be made"))?;
    if NETWORK.get().is_none() {
        let _ = NETWORK.set(make()?);
    }
    NETWORK.get().map(AsRef::as_ref).ok_or_else(|| internal("could not be made"))
}

fn make() -> Result<Box<dyn Network>> {
    if let Some(settings) = Settings::of_environment()? {
        log::info("NET/busbw : NCCL's own way with sockets, for comparison");
        return Ok(Box::new(Reference::new(settings, devices::one_each()?)));
    }
    let fault = std::env::var(fault::VARIABLE).ok().and_then(|text| Fault::parsed(&text));
    Ok(Box::new(Multipath::new(devices::devices()?, fault)))
}
