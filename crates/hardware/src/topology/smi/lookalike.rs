//! Tables that look like nvidia-smi's matrix and are none: which tool made them.
//! Not how the real one is read.

/// Why a text without a matrix is refused.
pub(super) fn reason(text: &str) -> String {
    let has = |word: &str| text.split_whitespace().any(|token| token == word);
    let gpus = text.split_whitespace().any(|token| token.starts_with("GPU0"));
    if text.split_whitespace().any(|token| token.starts_with("NPU0")) {
        return "it is npu-smi's matrix of Ascend NPUs (HCCS), not nvidia-smi's: no NVIDIA or AMD GPU is in it".to_owned();
    }
    if gpus && ["OK", "CNS", "GNS", "TNS", "NS", "DR"].iter().any(|word| has(word)) {
        return "it is `nvidia-smi topo -p2p`, which says whether GPUs may reach each other, not how they are joined: use `nvidia-smi topo -m`".to_owned();
    }
    if text.contains("ROCm System Management Interface") || text.contains("Hops between two GPUs") {
        return "it is rocm-smi's topology, which names no NICs: use RCCL's, with NCCL_TOPO_DUMP_FILE".to_owned();
    }
    if gpus {
        return "it names GPUs, and no row holds a word of `nvidia-smi topo -m` (X, NV#, PIX, PXB, PHB, NODE, SYS)".to_owned();
    }
    "it is neither NCCL's XML nor the text of `nvidia-smi topo -m`".to_owned()
}
