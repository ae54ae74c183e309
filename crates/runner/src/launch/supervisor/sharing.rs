//! Ranks of a backend without NCCL whose buffers are on the same GPU. Only the joined ranks' devices show that: a
//! launcher may assign GPUs, or not.
//! Not GPUs under NCCL, which refuses to share them (`busbw-cli`).

use std::collections::BTreeMap;

use busbw_core::{
    plan::{BufferMemory, Memory, Plan},
    record::Device,
};

use busbw_job::naming;

use crate::backend::NO_ADDRESS;

/// The remark about them, if there are any.
pub(super) fn remark(plan: &Plan, devices: &[Device]) -> Option<String> {
    if plan.backend.spec().buffers != BufferMemory::Chosen {
        return None;
    }
    let mut gpus: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    // Over RDMA a rank chooses its GPU later: its facts name it.
    let known = devices.iter().filter(|device| device.address != NO_ADDRESS);
    for device in known.filter(|device| plan.memory_of(device.rank) == Memory::Gpu) {
        gpus.entry((&device.host, &device.address)).or_default().push(device.rank);
    }
    let mut shared = gpus.iter().filter(|(_, ranks)| ranks.len() > 1);
    let ((host, address), ranks) = shared.next()?;
    let more = match shared.count() {
        0 => String::new(),
        more => format!(", and other ranks share {more} more"),
    };
    Some(format!(
        "{} share one GPU, {address} of {host}{more}: data between them crosses no link",
        naming::ranks(ranks)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbw_core::{Benchmark, messages::Messages, plan::BackendChoice};

    fn device(rank: usize, host: &str, address: &str) -> Device {
        let (host, address) = (host.to_owned(), address.to_owned());
        let name = "NVIDIA H200".to_owned();
        Device { rank, group: 0, pid: 1, host, device: 0, address, name, bound: None }
    }

    fn plan(backend: BackendChoice, buffers: [Memory; 2]) -> Plan {
        let benchmark = Benchmark::Messages(Messages::MultiBandwidth);
        Plan { benchmark, devices: 4, backend, buffers: Some(buffers), ..Plan::example() }
    }

    #[test]
    fn who_is_on_one_gpu() {
        let gpus = [Memory::Gpu; 2];
        let on = |phases: [(&str, &str); 4]| {
            phases.iter().enumerate().map(|(rank, (h, a))| device(rank, h, a)).collect::<Vec<_>>()
        };
        let one = on([("a", "0000:01:00"), ("b", "0000:01:00"), ("a", "0000:01:00"), ("b", "x")]);
        let said = remark(&plan(BackendChoice::Mpi, gpus), &one).unwrap();
        assert!(said.starts_with("ranks 0, 2 share one GPU, 0000:01:00 of a:"), "{said}");
        let two = on([("a", "x"), ("a", "y"), ("a", "y"), ("a", "x")]);
        let said = remark(&plan(BackendChoice::Mpi, gpus), &two).unwrap();
        assert!(said.contains("ranks 0, 3 share one GPU, x of a, and other ranks share 1 more"));
        let own = on([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]);
        assert_eq!(remark(&plan(BackendChoice::Mpi, gpus), &own), None);
        // Cores have one address, too.
        let cores = on([("a", "x"), ("a", "y"), ("a", "0000:00:00"), ("a", "0000:00:00")]);
        let half = plan(BackendChoice::Mpi, [Memory::Gpu, Memory::Host]);
        assert_eq!(remark(&half, &cores), None);
        assert_eq!(remark(&plan(BackendChoice::Mpi, gpus), &cores[2..]), None);
        assert_eq!(remark(&plan(BackendChoice::Host, [Memory::Host; 2]), &cores), None);
    }
}
