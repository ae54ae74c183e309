//! GPUDirect RDMA: whether NICs can read and write GPU memory, by nvidia-peermem or by dma-buf.
//! NCCL's troubleshooting page, "GPU-to-NIC communication".

use busbw_core::finding::Finding;

use super::{
    Node,
    advice::{About, Advice},
    driver,
};
use crate::machine;

const ABOUT: About = About("gpudirect");
const NAME: &str = "GPUDirect RDMA";
const CONFIRM: &str =
    "lsmod | grep peermem; NCCL_DEBUG=INFO shows `GPU Direct RDMA Enabled` and `/GDRDMA`";

/// Looks for either way.
pub fn check(node: &Node) -> Vec<Finding> {
    let on_bus = node.pci.iter().any(|d| d.vendor == 0x10de && machine::is_gpu(d));
    let has_gpu = on_bus || node.gpus().next().is_some();
    if !has_gpu || node.adapters().next().is_none() {
        return vec![ABOUT.absent(NAME, "takes an NVIDIA GPU and an RDMA adapter")];
    }
    vec![judge(node)]
}

fn judge(node: &Node) -> Finding {
    let root = &node.root;
    let kernel = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    // What NCCL itself looks at: src/transport/net_ib, ncclIbGdrModuleLoaded.
    let peermem =
        ["sys/kernel/mm/memory_peers/nv_mem/version", "sys/module/nvidia_peermem/version"];
    if peermem.iter().any(|path| root.exists(path)) || root.exists("sys/module/nvidia_peermem") {
        return ABOUT.fine(NAME, "nvidia-peermem is loaded");
    }
    match (driver::is_open(node), has_dma_buf(&kernel)) {
        (Some(true), Some(true)) => {
            let seen = format!("by dma-buf: open kernel module, kernel {kernel}");
            ABOUT.fine(NAME, seen)
        }
        (None, _) => {
            let why = "no nvidia-peermem, and the kind of kernel module is not known";
            ABOUT.unknown(NAME, why, CONFIRM)
        }
        (Some(open), _) => {
            let module = if open { "open" } else { "proprietary" };
            ABOUT.slow(
                NAME,
                format!("nvidia-peermem is not loaded, and dma-buf takes the open kernel module and kernel 5.12 (here: {module}, {kernel})"),
                &Advice {
                    cost: "every byte between GPU and NIC goes through host memory: an extra copy and PCIe crossing on each side",
                    remedy: "sudo modprobe nvidia-peermem, at every boot; or the open kernel module and a newer kernel",
                    confirm: CONFIRM,
                },
            )
        }
    }
}

/// Whether the RDMA core takes dma-buf: Linux 5.12 and later (ibv_reg_dmabuf_mr(3)).
fn has_dma_buf(kernel: &str) -> Option<bool> {
    let mut numbers = kernel.split(['.', '-']);
    let version = (numbers.next()?.parse::<u32>().ok()?, numbers.next()?.parse::<u32>().ok()?);
    Some(version >= (5, 12))
}

#[cfg(test)]
mod tests {
    use super::has_dma_buf;

    #[test]
    fn kernels() {
        assert_eq!(has_dma_buf("5.15.0-1063-nvidia"), Some(true));
        assert_eq!(has_dma_buf("5.4.0-150-generic"), Some(false));
        assert_eq!(has_dma_buf("6.1.0"), Some(true));
        assert_eq!(has_dma_buf(""), None);
    }
}
