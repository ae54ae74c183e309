//! Numbers as C's printf writes them, which is what byte-identical output needs.
//! Not general formatting: only the forms that nccl-tests uses.

/// `%W.2f`, else `%W.1f`, else `%W.0f`, whichever first fits `width`, else an exponent with one
/// digit (width 7 and more) or none (nccl-tests src/util.cu:487, `getFloatStr`).
pub(super) fn fitted(value: impl Into<Option<f64>>, width: usize) -> String {
    let value = or_nan(value);
    for decimals in [2, 1, 0] {
        let text = fixed(value, decimals);
        if text.len() <= width {
            return format!("{text:>width$}");
        }
    }
    let text = exponent(value, if width >= 7 { 1 } else { 0 });
    // snprintf cuts what does not fit.
    format!("{:>width$}", &text[..text.len().min(width)])
}

/// A figure that there is not prints as C's `nan`.
pub(super) fn or_nan(figure: impl Into<Option<f64>>) -> f64 {
    figure.into().unwrap_or(f64::NAN)
}

/// `%.Nf`, with C's words for what is not a number.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    special(value).unwrap_or_else(|| format!("{value:.decimals$}"))
}

/// `%.Ne`: at least two exponent digits.
fn exponent(value: f64, decimals: usize) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let text = format!("{value:.decimals$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

/// `%g`: six significant digits, trailing zeros dropped, an exponent below 1e-4 and from 1e6 on.
pub(super) fn general(value: f64) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // The exponent after rounding to six digits decides, as in C.
    let scientific = format!("{value:.5e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    if !(-4..6).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), power.abs());
    }
    trimmed(&format!("{value:.*}", (5 - power) as usize)).to_owned()
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn special(value: f64) -> Option<String> {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    match value {
        v if v.is_nan() => Some(format!("{sign}nan")),
        v if v.is_infinite() => Some(format!("{sign}inf")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// reference/golden/float_format_compare.txt, column "new".
    #[test]
    fn agrees_with_nccl_tests() {
        for (value, time, bw) in [
            (0.0, "   0.00", "  0.00"),
            (0.004, "   0.00", "  0.00"),
            (9.994, "   9.99", "  9.99"),
            (99.996, " 100.00", "100.00"),
            (999.94, " 999.94", "999.94"),
            (999.996, "1000.00", "1000.0"),
            (1234.5, "1234.50", "1234.5"),
            (9999.96, "9999.96", " 10000"),
            (9999.94, "9999.94", "9999.9"),
            (12345.6, "12345.6", " 12346"),
            (99999.4, "99999.4", " 99999"),
            (99999.6, "99999.6", "100000"),
            (123456.0, " 123456", "123456"),
            (999_999.6, "1000000", " 1e+06"),
            (1_234_567.0, "1234567", " 1e+06"),
            (9_999_999.6, "1.0e+07", " 1e+07"),
            (12_345_678.0, "1.2e+07", " 1e+07"),
            (1.5e12, "1.5e+12", " 2e+12"),
        ] {
            assert_eq!(fitted(value, 7), time, "{value}");
            assert_eq!(fitted(value, 6), bw, "{value}");
        }
    }

    #[test]
    fn general_as_printf() {
        for (value, text) in [
            (0.0, "0"),
            (84.8558, "84.8558"),
            (120.613, "120.613"),
            (0.000_649_4, "0.0006494"),
            (0.000_01, "1e-05"),
            (1e6, "1e+06"),
            (999_999.5, "1e+06"),
            (123_456.7, "123457"),
            (1_234_567.0, "1.23457e+06"),
            (123_456_789.0, "1.23457e+08"),
            (3.0, "3"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(general(value), text, "{value}");
        }
    }
}
