//! Tables that look like nvidia-smi's matrix and are none: which tool made them.
//! Not how the real one is read.

use super::Word;

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
    if text.lines().any(is_row) {
        return "it has rows of `nvidia-smi topo -m` and not their header, the first line with the names of the columns (GPU0 GPU1 … CPU Affinity): copy that line, too".to_owned();
    }
    if gpus {
        return "it names GPUs, and no row holds a word of `nvidia-smi topo -m` (X, NV#, PIX, PXB, PHB, NODE, SYS)".to_owned();
    }
    "it is neither NCCL's XML nor the text of `nvidia-smi topo -m`".to_owned()
}

/// A row of the matrix: a GPU, then words of paths of which one is its own, `X`.
fn is_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let named = words.next().and_then(|word| word.strip_prefix("GPU"));
    let path = |word: &&str| word.parse::<Word>().is_ok();
    let paths: Vec<&str> = words.take_while(path).collect();
    named.is_some_and(|number| number.parse::<u32>().is_ok())
        && paths.len() > 1
        && paths.contains(&"X")
}
