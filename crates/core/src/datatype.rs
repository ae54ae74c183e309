//! The twelve element types of nccl-tests 2.19.6, by its names and in its order.
//! Not arithmetic: `number` holds the formats, `busbw-shm` the kernels.

use serde::{Deserialize, Serialize};

use crate::spelling::squashed;

/// An element type. The order is that of `-d all` (nccl-tests src/common.cu:60-75).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataType {
    /// 8-bit signed integer.
    Int8,
    /// 8-bit unsigned integer.
    Uint8,
    /// 32-bit signed integer.
    Int32,
    /// 32-bit unsigned integer.
    Uint32,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit unsigned integer.
    Uint64,
    /// IEEE 754 binary16.
    Half,
    /// IEEE 754 binary32.
    Float,
    /// IEEE 754 binary64.
    Double,
    /// The upper half of a binary32: 8 exponent bits, 7 mantissa bits.
    Bfloat16,
    /// OCP FP8 E4M3: no infinity, one NaN per sign, largest value 448.
    F8e4m3,
    /// OCP FP8 E5M2: infinity and NaN as in IEEE 754, largest value 57344.
    F8e5m2,
}

impl DataType {
    /// Every type, in the order of `-d all`.
    pub const ALL: [DataType; 12] = [
        DataType::Int8,
        DataType::Uint8,
        DataType::Int32,
        DataType::Uint32,
        DataType::Int64,
        DataType::Uint64,
        DataType::Half,
        DataType::Float,
        DataType::Double,
        DataType::Bfloat16,
        DataType::F8e4m3,
        DataType::F8e5m2,
    ];

    /// The name in nccl-tests' `-d` and in its type column.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Int8 => "int8",
            DataType::Uint8 => "uint8",
            DataType::Int32 => "int32",
            DataType::Uint32 => "uint32",
            DataType::Int64 => "int64",
            DataType::Uint64 => "uint64",
            DataType::Half => "half",
            DataType::Float => "float",
            DataType::Double => "double",
            DataType::Bfloat16 => "bfloat16",
            DataType::F8e4m3 => "f8e4m3",
            DataType::F8e5m2 => "f8e5m2",
        }
    }

    /// Whether it is an integer with a sign.
    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, DataType::Int8 | DataType::Int32 | DataType::Int64)
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            DataType::Int8 | DataType::Uint8 | DataType::F8e4m3 | DataType::F8e5m2 => 1,
            DataType::Half | DataType::Bfloat16 => 2,
            DataType::Int32 | DataType::Uint32 | DataType::Float => 4,
            DataType::Int64 | DataType::Uint64 | DataType::Double => 8,
        }
    }

    /// The type that a person means: nccl-tests' name, or that of PyTorch, NCCL or IEEE, such as `bf16`, `float16`, `fp32`.
    pub fn from_spelling(word: &str) -> Option<DataType> {
        let meant = squashed(word);
        let known = DataType::ALL.into_iter().find(|datatype| datatype.name() == meant);
        known.or(match meant.as_str() {
            "f16" | "fp16" | "float16" => Some(DataType::Half),
            "f32" | "fp32" | "float32" => Some(DataType::Float),
            "f64" | "fp64" | "float64" => Some(DataType::Double),
            "bf16" => Some(DataType::Bfloat16),
            "fp8e4m3" | "float8e4m3" => Some(DataType::F8e4m3),
            "fp8e5m2" | "float8e5m2" => Some(DataType::F8e5m2),
            _ => None,
        })
    }

    /// The type of that nccl-tests name.
    pub fn from_name(name: &str) -> Option<DataType> {
        DataType::ALL.into_iter().find(|t| t.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_people() {
        for (word, datatype) in [
            ("bf16", DataType::Bfloat16),
            ("float16", DataType::Half),
            ("FP16", DataType::Half),
            ("fp32", DataType::Float),
            ("float64", DataType::Double),
            ("fp8_e4m3", DataType::F8e4m3),
            ("float8-e5m2", DataType::F8e5m2),
            ("INT8", DataType::Int8),
        ] {
            assert_eq!(DataType::from_spelling(word), Some(datatype), "{word}");
        }
        // Which of the two is meant, nobody can say.
        assert_eq!(DataType::from_spelling("fp8"), None);
        for datatype in DataType::ALL {
            assert_eq!(DataType::from_spelling(datatype.name()), Some(datatype));
        }
    }
}
