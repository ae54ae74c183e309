//! What the supervisor itself reads of GPUs and of the network.
//! Not the counters themselves (`busbw_host::counters`).

use busbw_core::record::{Counted, GpuMemory, Status};

use super::Launch;
use crate::{
    backend::NO_ADDRESS,
    outputs::{Ended, Outputs},
};
use busbw_host::machine;

impl Launch<'_> {
    /// Starts the counters of every device that may move bytes; none where only host memory is used.
    pub(super) fn watch(&mut self) -> Option<Counted> {
        if !self.plan.backend.spec().moved_by.is_library() {
            return None;
        }
        self.watch_other_hosts();
        let addresses = self.devices().into_iter().map(|device| device.address);
        let addresses: Vec<String> = addresses.filter(|address| address != NO_ADDRESS).collect();
        let asked = (!self.describe.resources.is_amd()).then_some(&addresses[..]);
        Some(self.counters.watch(&machine::Root::system(), asked).clone())
    }

    /// Prints the XID errors that GPU drivers reported while a run failed: they may be the cause.
    pub(super) fn report_xids(&mut self, ended: &Ended, outputs: &Outputs) {
        if ended.status != Status::Failed {
            return;
        }
        for (gpu, xids) in self.counters.unclaimed_xids() {
            let xids = xids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            outputs.say(&format!("the driver of GPU {gpu} reported errors (XID): {xids}"));
        }
    }
}

/// The larger of each known figure.
pub(super) fn larger(one: Option<GpuMemory>, other: Option<GpuMemory>) -> Option<GpuMemory> {
    one.into_iter().chain(other).reduce(GpuMemory::max)
}
