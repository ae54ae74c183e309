//! Messages over RDMA from and to GPUs' memory: how the adapter is given it, which GPU, and that what arrives is compared.
//! Not ports and failures (`ports`).

use busbw_core::record::BufferGpu;

use super::adapters::Host;
use crate::processes::bench::Ended;

const SMALL: &str = "-b 1 -e 64K -f 64 -n 20 -w 2 --batches 1";

/// The GPU of each rank.
fn gpus(ended: &Ended) -> Vec<BufferGpu> {
    let mut facts = ended.read_record().verbs;
    facts.sort_by_key(|facts| facts.rank);
    facts.into_iter().filter_map(|facts| facts.gpu).collect()
}

#[test]
fn every_verb_reaches_a_gpu_and_what_arrives_is_compared() {
    let host = Host::new();
    for (test, more) in [
        ("bw", "--verb write"),
        ("bw", "--verb read"),
        ("bw", "--verb send"),
        ("bw", "--verb write --connection UC"),
        ("bw", "--verb send --connection UD -e 4K -W 8"),
        ("bw", "--verb write --qp 3 --post_list 4"),
        ("bibw", "--verb write"),
        ("latency", "--verb write"),
        ("latency", "--verb write --connection UC"),
        ("latency", "--verb read"),
        ("latency", "--verb send"),
        ("latency", "--verb send --connection UD -e 4K -W 8"),
    ] {
        let ended = host.well(&format!("{test} --backend verbs --buffers gpu {SMALL} {more}"), &[]);
        let gpus = gpus(&ended);
        assert_eq!(gpus.len(), 2, "{test} {more}");
        assert!(gpus.iter().all(|gpu| gpu.export == "dma-buf"), "{test} {more}: {gpus:?}");
    }
}

#[test]
fn a_bit_that_the_adapter_changed_is_found_in_a_gpus_memory() {
    let host = Host::new();
    for memory in ["gpu", "host", "gpu,host", "host,gpu"] {
        let words = format!("bw --backend verbs --buffers {memory} -b 4K -e 4K -n 4 --batches 1");
        host.run(&words, &[("BUSBW_SHIM_RDMA_CORRUPT", "1")]).exits(7);
        host.well(&words, &[]);
    }
}

#[test]
fn each_rank_has_the_gpu_that_is_nearest_to_its_port() {
    let host = Host::new();
    let words = format!("mbw_mr --backend verbs --buffers gpu -g 4 {SMALL}");
    let ended = host.well(&words, &[]);
    let seen: Vec<(usize, String)> =
        gpus(&ended).into_iter().map(|gpu| (gpu.ordinal, gpu.why)).collect();
    // The fourth rank has the second port again, whose own GPU is taken.
    let of = |ordinal, port: &str, how: &str| (ordinal, format!("the nearest to {port}, {how}"));
    assert_eq!(
        seen,
        [
            of(1, "mlx5_0", "behind the same PCIe switch"),
            of(0, "mlx5_1", "behind the same PCIe switch"),
            of(1, "mlx5_0", "behind the same PCIe switch"),
            of(0, "mlx5_1", "behind the same PCIe switch"),
        ]
    );
    ended.says("memory of GPU 1 (0000:11:00.0, dma-buf)");
    let ended = host.well("ib_write_bw --use_cuda 2 -s 4096 -n 20 --batches 1", &[]);
    assert!(gpus(&ended).iter().all(|gpu| gpu.ordinal == 2 && gpu.why == "asked for"));
    let ended = host.run("ib_write_bw --use_cuda=7 -n 5", &[]);
    ended.exits(5).says("there is no GPU 7: this process sees 3");
}

#[test]
fn without_a_dma_buf_nvidia_peermem_is_used_and_without_both_it_is_said_why() {
    let host = Host::new();
    let words = format!("bw --backend verbs --buffers gpu {SMALL}");
    let (no_export, no_device) = (("BUSBW_SHIM_DMA_BUF", "0"), ("BUSBW_SHIM_NO_DMA_BUF_MR", "1"));
    let peer = ("BUSBW_SHIM_PEERMEM", "1");
    for without in [no_export, no_device] {
        let ended = host.well(&words, &[without, peer]);
        assert!(gpus(&ended).iter().all(|gpu| gpu.export == "peer memory"));
        let ended = host.run(&words, &[without]);
        ended.exits(5).says("no RDMA device reaches GPU").says("modprobe nvidia_peermem");
        let ended = host.run(&format!("{words} --use_cuda_dmabuf"), &[without, peer]);
        ended.exits(5).says("no dma-buf of GPU");
    }
    let ended = host.run(&words, &[("BUSBW_SHIM_GPUS", "0")]);
    ended.exits(5).says("memory of GPUs: ").says("CUDA_ERROR_NO_DEVICE");
    for (words, why) in [
        ("bw --backend verbs --use_cuda_dmabuf", "--buffers gpu"),
        (
            "bw --backend verbs --buffers gpu --inline_size 8",
            "a processor copies no memory of a GPU",
        ),
        ("bw --backend host -g 2 --use_cuda 0", "uses none by itself (--backend verbs)"),
    ] {
        host.run(words, &[]).exits(2).says(why);
    }
}

#[test]
fn a_gpu_that_is_too_small_is_said_to_be() {
    let host = Host::new();
    let memory = ("BUSBW_SHIM_MEMORY", "1048576");
    let ended = host.run("bw --backend verbs --buffers gpu -b 1M -e 1M -n 2", &[memory]);
    ended.exits(5).says("CUDA_ERROR_OUT_OF_MEMORY");
}
