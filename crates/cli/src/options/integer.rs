//! Whole numbers as `strtol(text, NULL, 0)` reads them, except that garbage is refused.
//! Not sizes: those have units, see `busbw_core::size`.

/// Decimal, 0x hexadecimal or 0 octal, with a sign.
///
/// # Errors
/// Text that is no such number, where strtol would give 0.
pub fn parse(text: &str) -> Result<i64, String> {
    let refuse = || format!("'{text}' is not a whole number");
    let trimmed = text.trim();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.strip_prefix("0x") {
        Some(hex) => (16, hex),
        None if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        None => (10, lower.as_str()),
    };
    // from_str_radix takes a sign of its own, also behind 0x and 0.
    if digits.starts_with(['+', '-']) {
        return Err(refuse());
    }
    let value = i64::from_str_radix(digits, radix).map_err(|_| refuse())?;
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_and_signs() {
        for (text, value) in [("8", 8), ("0x10", 16), ("010", 8), ("-1", -1), ("0", 0), ("+3", 3)] {
            assert_eq!(parse(text), Ok(value), "{text}");
        }
        for text in ["", "abc", "1x", "0x", "09", "1.5", "--1", "99999999999999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["0x-5", "0x+5", "0-5", "-0x-5", "-0x-8000000000000000"] {
            assert!(parse(text).is_err(), "a second sign: {text}");
        }
    }
}
