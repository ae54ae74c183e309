//! Names as people write them, with other capitals and separators.
//! Not which names there are: see `Benchmark::from_spelling` and `DataType::from_spelling`.

/// A name without what people write differently: capitals, `_` and `-`.
pub(crate) fn squashed(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}
