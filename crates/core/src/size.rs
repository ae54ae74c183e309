//! Byte sizes as people type them: `8`, `1.5M`, `128m`, `8Gib`.
//! Not a printer of sizes: tables print plain byte counts.

use thiserror::Error;

/// Why a size was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    /// It does not start with a number.
    #[error("'{0}' is not a size: write a number of bytes, with K, M or G for 2^10, 2^20, 2^30")]
    NotANumber(String),
    /// The suffix is not K, M or G.
    #[error("'{0}' has the unit '{1}': sizes know K, M and G (2^10, 2^20, 2^30)")]
    UnknownUnit(String, char),
    /// Negative, or beyond 2^62 bytes.
    #[error("'{0}' is out of range: a size is between 0 and 2^62 bytes")]
    OutOfRange(String),
}

/// Largest size that is accepted, in bytes.
const LARGEST: f64 = (1u64 << 62) as f64;

/// What C's `isspace` takes for blanks; Unicode's others stay, and are refused as a unit.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];

/// Reads a size in bytes with nccl-tests' grammar: a decimal number, then at most one unit letter
/// of which only K, M and G (either case) count; text after the letter is ignored, so `8Gib` works
/// (nccl-tests src/common.cu:227-261, `sscanf("%lf %1s")`).
///
/// # Errors
/// [`SizeError`] names the text and what is wrong with it.
///
/// ```
/// assert_eq!(busbw_core::size::parse("1.5M"), Ok(1_572_864));
/// assert_eq!(busbw_core::size::parse("8Gib"), Ok(8 << 30));
/// assert!(busbw_core::size::parse("4T").is_err());
/// ```
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim_start_matches(BLANKS);
    let digits = number_length(trimmed);
    let value: f64 =
        trimmed[..digits].parse().map_err(|_| SizeError::NotANumber(text.to_owned()))?;
    let unit = match trimmed[digits..].trim_start_matches(BLANKS).chars().next() {
        None => 1.0,
        Some('k' | 'K') => 1024.0,
        Some('m' | 'M') => 1024.0 * 1024.0,
        Some('g' | 'G') => 1024.0 * 1024.0 * 1024.0,
        Some(other) => return Err(SizeError::UnknownUnit(text.to_owned(), other)),
    };
    let bytes = value * unit;
    if !(0.0..=LARGEST).contains(&bytes) {
        return Err(SizeError::OutOfRange(text.to_owned()));
    }
    Ok(bytes as u64)
}

/// Length in bytes of the decimal number at the start of `text`: sign, digits, point, exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let mut seen_point = false;
    while let Some(&b) = bytes.get(at) {
        match b {
            b'0'..=b'9' => at += 1,
            b'.' if !seen_point => {
                seen_point = true;
                at += 1;
            }
            _ => break,
        }
    }
    let exponent = exponent_length(&bytes[at..]);
    at + exponent
}

/// Length of `e5`, `E+5`, `e-05`; 0 where the letter is not followed by a number.
fn exponent_length(bytes: &[u8]) -> usize {
    if !matches!(bytes.first(), Some(b'e' | b'E')) {
        return 0;
    }
    let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
    let digits = bytes[1 + sign..].iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_nccl_tests_reads() {
        for (text, bytes) in [
            ("8", 8),
            ("0", 0),
            ("1K", 1024),
            ("1k", 1024),
            ("128M", 128 << 20),
            ("1.5M", 3 << 19),
            ("8G", 8 << 30),
            ("8Gib", 8 << 30),
            (" 4 M", 4 << 20),
            ("1e3", 1000),
            (".5K", 512),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    /// A no-break space, as copied from a web page, is no blank to C: `sscanf` reads nothing of
    /// the first text, and a unit from the second.
    #[test]
    fn blanks_are_those_of_c() {
        assert_eq!(parse("\t\n\x0b\x0c\r 8 \x0bK"), Ok(8192));
        assert_eq!(parse("\u{a0}8"), Err(SizeError::NotANumber("\u{a0}8".into())));
        assert_eq!(parse("8\u{a0}K"), Err(SizeError::UnknownUnit("8\u{a0}K".into(), '\u{a0}')));
    }

    #[test]
    fn refuses_with_the_reason() {
        assert_eq!(parse("4T"), Err(SizeError::UnknownUnit("4T".into(), 'T')));
        assert_eq!(parse("x"), Err(SizeError::NotANumber("x".into())));
        assert_eq!(parse(""), Err(SizeError::NotANumber(String::new())));
        assert_eq!(parse("-1"), Err(SizeError::OutOfRange("-1".into())));
        assert_eq!(parse("1e300"), Err(SizeError::OutOfRange("1e300".into())));
        assert!(parse("1e").is_err());
    }

    proptest! {
        #[test]
        fn whole_numbers_survive(n in 0u64..1 << 50) {
            prop_assert_eq!(parse(&n.to_string()), Ok(n));
        }

        #[test]
        fn never_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
