//! What is published of GPU models: compute capability and NVLink.
//! Not what a GPU at hand has: links may be fewer, as in export models.

/// A model as its maker describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// The name in machine files.
    pub name: &'static str,
    /// Compute capability × 10; `None` of AMD's.
    pub sm: Option<u32>,
    /// NVLinks; `None` where it has none, or they are not published.
    pub links: Option<u32>,
    /// GB/s of one NVLink in one direction.
    pub line: Option<f64>,
}

impl Model {
    /// Whether its links (AMD's xGMI) go to each of the other GPUs of its board, without switches: one to each.
    pub const fn is_meshed(&self) -> bool {
        self.sm.is_none()
    }

    /// Whether its driver refuses peers: of GeForce boards without NVLink, RTX 40 and 50 (NVIDIA/nccl#1127 and #1637;
    /// NVIDIA answers so in the developer forum's thread 237813). Bytes between them go through host memory.
    pub fn is_without_peers(&self) -> bool {
        self.name.starts_with("RTX 40") || self.name.starts_with("RTX 50")
    }
}

const fn model(name: &'static str, sm: u32, links: u32, line: f64) -> Model {
    Model { name, sm: Some(sm), links: Some(links), line: Some(line) }
}

const fn without_nvlink(name: &'static str, sm: u32) -> Model {
    Model { name, sm: Some(sm), links: None, line: None }
}

const fn xgmi(name: &'static str, links: u32, line: f64) -> Model {
    Model { name, sm: None, links: Some(links), line: Some(line) }
}

/// Compute capabilities: CUDA C++ Programming Guide and developer.nvidia.com/cuda-gpus. NVLink: the
/// architecture whitepapers of V100 (6 × 25 GB/s each way), A100 (12 × 25), H100 (18 × 25) and
/// Blackwell (18 × 50), and the data sheets of A800 (400 GB/s, so 8 links), H800 (400 GB/s, 8 links)
/// and H20 (900 GB/s, 18 links). xGMI: AMD's data sheets of MI300X (7 links of 128 GB/s both ways) and of MI350X and MI355X
/// (7 of 153.6). A bridge of H100 PCIe and H200 NVL is sold apart: whether it is there is not the model's.
pub const MODELS: [Model; 27] = [
    model("V100 SXM2", 70, 6, 25.0),
    model("V100 SXM3", 70, 6, 25.0),
    without_nvlink("T4", 75),
    model("A100 SXM", 80, 12, 25.0),
    without_nvlink("A100 PCIe", 80),
    model("A800 SXM", 80, 8, 25.0),
    without_nvlink("A10", 86),
    without_nvlink("A10G", 86),
    without_nvlink("RTX 4090", 89),
    without_nvlink("RTX 5090", 120),
    without_nvlink("L4", 89),
    without_nvlink("L40S", 89),
    model("H100 SXM", 90, 18, 25.0),
    without_nvlink("H100 PCIe", 90),
    model("H800 SXM", 90, 8, 25.0),
    model("H20", 90, 18, 25.0),
    model("H200 SXM", 90, 18, 25.0),
    without_nvlink("H200 NVL", 90),
    model("GH200", 90, 18, 25.0),
    model("B200", 100, 18, 50.0),
    model("GB200", 100, 18, 50.0),
    model("B300", 103, 18, 50.0),
    model("GB300", 103, 18, 50.0),
    without_nvlink("GB10", 121),
    xgmi("MI300X", 7, 64.0),
    xgmi("MI350X", 7, 76.8),
    xgmi("MI355X", 7, 76.8),
];

/// The model of a name as machine files, NVML or nccl-tests write it; `None` for one unknown.
pub fn find(name: &str) -> Option<&'static Model> {
    let wanted = words(name);
    let exact = MODELS.iter().find(|model| words(model.name) == wanted);
    exact.or_else(|| {
        let matches = |model: &&Model| {
            let known = words(model.name);
            known.split(' ').all(|word| wanted.split(' ').any(|said| said == word))
        };
        // The longest name that fits: `A100 PCIe` before `A100`.
        MODELS.iter().filter(matches).max_by_key(|model| model.name.len())
    })
}

/// Lower-case words, `SXM5` and the like as `sxm`, NVML's `HBM3` of H100 and H800 as well: only
/// their SXM boards are sold with it; makers' names and sizes of memory left out.
fn words(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let split = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let kept = split.filter_map(|word| match word {
        "nvidia" | "geforce" | "tesla" | "amd" | "instinct" => None,
        word if word.ends_with("gb") && word[..word.len() - 2].parse::<u32>().is_ok() => None,
        "hbm3" | "sxm4" | "sxm5" | "sxm6" => Some("sxm"),
        word => Some(word),
    });
    // A name of two boards, such as `H200` for `H200 SXM`, is settled where only one is sold.
    match kept.collect::<Vec<_>>().join(" ").as_str() {
        "h200" => "h200 sxm".to_owned(),
        board @ ("4090" | "5090") => format!("rtx {board}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_nvml_and_people_write_them() {
        for (said, name) in [
            ("NVIDIA H100 80GB HBM3", "H100 SXM"),
            ("NVIDIA H200", "H200 SXM"),
            ("NVIDIA H800", "-"),
            ("H800 SXM5", "H800 SXM"),
            ("NVIDIA A100-SXM4-80GB", "A100 SXM"),
            ("NVIDIA A100 80GB PCIe", "A100 PCIe"),
            ("NVIDIA GeForce RTX 4090", "RTX 4090"),
            ("NVIDIA B200", "B200"),
            ("NVIDIA GB200", "GB200"),
            ("NVIDIA GB300", "GB300"),
            ("NVIDIA B300 SXM6 AC", "B300"),
            ("NVIDIA GB10", "GB10"),
            ("NVIDIA H200 NVL", "H200 NVL"),
            ("NVIDIA GeForce RTX 5090", "RTX 5090"),
            ("AMD Instinct MI300X", "MI300X"),
            ("AMD Instinct MI300X OAM", "MI300X"),
            ("AMD Radeon Graphics", "-"),
            ("H100", "-"),
            ("", "-"),
            ("gb", "-"),
            ("Radeon", "-"),
        ] {
            assert_eq!(find(said).map_or("-", |model| model.name), name, "{said}");
        }
        for model in &MODELS {
            assert_eq!(find(model.name), Some(model));
        }
    }
}
