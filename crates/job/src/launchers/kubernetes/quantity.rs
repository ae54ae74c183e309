//! Kubernetes' quantities: `8`, `1k`, `64Gi`, `1500m`, `2e3`.
//! Not what is counted.

/// As a number; none where it is no quantity.
/// k8s.io/apimachinery, pkg/api/resource/quantity.go: number with an optional decimal or binary suffix, or exponent.
pub(super) fn value(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let text = text.trim();
    let suffixed =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    let (number, factor) = suffixed.unwrap_or((text, 1.0));
    let is_number = number.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && number.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    let value = number.parse::<f64>().ok().filter(|_| is_number)? * factor;
    value.is_finite().then_some(value)
}

/// As a count of things, rounded down; none where it is no quantity, or below 0.
pub(super) fn count(text: &str) -> Option<u64> {
    value(text).filter(|value| *value >= 0.0).map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn as_the_api_server_writes_them() {
        for (text, expected) in [
            ("8", 8.0),
            ("1k", 1000.0),
            ("16k", 16_000.0),
            ("64Gi", 68_719_476_736.0),
            ("1500m", 1.5),
            ("2e3", 2000.0),
            ("2E3", 2000.0),
            ("0", 0.0),
            ("1E", 1e18),
            (".5", 0.5),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        for text in ["", "k", "eight", "inf", "nan", "8 Gi x", "0x8", "1_000"] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!((count("1500m"), count("-1")), (Some(1), None));
    }

    proptest! {
        #[test]
        fn whole_numbers_are_themselves(number in 0_u32..) {
            prop_assert_eq!(count(&number.to_string()), Some(u64::from(number)));
        }

        #[test]
        fn any_text_has_an_answer(text in ".{0,40}") {
            let _ = value(&text);
        }
    }
}
