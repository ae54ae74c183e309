//! The matrix of `nvidia-smi topo -m`: GPUs, NICs, and the word for the path between each two.
//! Not how it is read from text (`smi`) or computed (`paths`).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The path between two devices, in nvidia-smi's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// X: the device itself.
    Itself,
    /// NV#: so many NVLinks.
    NvLink(u32),
    /// AMD's xGMI, for which nvidia-smi has no word.
    Xgmi(u32),
    /// At most one PCIe bridge.
    Pix,
    /// Several PCIe bridges, and not the host bridge.
    Pxb,
    /// The host bridge.
    Phb,
    /// Between host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes.
    Sys,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Itself => f.pad("X"),
            Word::NvLink(links) => f.pad(&format!("NV{links}")),
            Word::Xgmi(links) => f.pad(&format!("XG{links}")),
            Word::Pix => f.pad("PIX"),
            Word::Pxb => f.pad("PXB"),
            Word::Phb => f.pad("PHB"),
            Word::Node => f.pad("NODE"),
            Word::Sys => f.pad("SYS"),
        }
    }
}

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Word, String> {
        let links = |prefix| text.strip_prefix(prefix).and_then(|n: &str| n.parse().ok());
        Ok(match text {
            "X" => Word::Itself,
            "PIX" => Word::Pix,
            "PXB" => Word::Pxb,
            "PHB" => Word::Phb,
            "NODE" => Word::Node,
            // The word of drivers before 2018.
            "SYS" | "SOC" => Word::Sys,
            _ => match (links("NV"), links("XG")) {
                (Some(links), _) => Word::NvLink(links),
                (_, Some(links)) => Word::Xgmi(links),
                _ => return Err(format!("{text} is no word of nvidia-smi's matrix")),
            },
        })
    }
}

impl Serialize for Word {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A GPU or NIC of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Endpoint {
    /// GPU0, NIC0, mlx5_0.
    pub name: String,
    /// The device name of a number: mlx5_0 of NIC0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Cores near it, as the kernel writes lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
    /// NUMA nodes near it, as nvidia-smi writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<String>,
}

impl Endpoint {
    /// Whether it is a GPU; everything else is a NIC.
    pub fn is_gpu(&self) -> bool {
        self.name.strip_prefix("GPU").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Its usual name: GPU0, mlx5_0.
    pub fn known_as(&self) -> &str {
        self.device.as_deref().unwrap_or(&self.name)
    }
}

/// The path between each two devices of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Matrix {
    /// Rows and columns.
    pub endpoints: Vec<Endpoint>,
    /// A row for each, with a word for each column; none where the text has no word.
    pub cells: Vec<Vec<Option<Word>>>,
}

impl Matrix {
    /// The path from one endpoint to another, by their indices; where only the reverse path is known, that one.
    pub fn between(&self, from: usize, to: usize) -> Option<Word> {
        let cell = |row: usize, column: usize| *self.cells.get(row)?.get(column)?;
        cell(from, to).or_else(|| cell(to, from))
    }

    /// Indices of the GPUs in `endpoints`.
    pub fn gpus(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.endpoints.len()).filter(|at| self.endpoints[*at].is_gpu())
    }

    /// Indices of the NICs in `endpoints`.
    pub fn nics(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.endpoints.len()).filter(|at| !self.endpoints[*at].is_gpu())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_come_back(links: u32, which in 0..8_usize) {
            use Word::{Itself, Node, NvLink, Phb, Pix, Pxb, Sys, Xgmi};
            let word = [Itself, NvLink(links), Xgmi(links), Pix, Pxb, Phb, Node, Sys][which];
            prop_assert_eq!(word.to_string().parse(), Ok(word));
        }

        #[test]
        fn any_word(text in ".{0,8}") {
            let _ = text.parse::<Word>();
        }
    }
}
