//! Numbers, read the way NCCL reads them: C's strtoll with base 0.
//! It does not know which variables are numbers; the table does.

use busbw_core::finding::{Finding, Severity};

use super::finding;
use crate::known::tables;

/// Threads come in warps of this many.
const WARP_THREADS: i64 = 32;

/// What strtoll makes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading<'v> {
    Whole(i64),
    /// It stops early: the number so far, and what is left.
    Cut(i64, &'v str),
    /// No digit at all; NCCL goes on with 0.
    Nothing,
    /// Out of 64 bits; NCCL goes on with its default.
    TooLarge,
}

pub(super) fn read(value: &str) -> Reading<'_> {
    let text = value.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (radix, digits) = match hex.filter(|h| h.starts_with(|c: char| c.is_ascii_hexdigit())) {
        Some(hex) => (16, hex),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    if number.is_empty() {
        return Reading::Nothing;
    }
    let Ok(magnitude) = i64::from_str_radix(number, radix) else {
        return Reading::TooLarge;
    };
    let number = if negative { -magnitude } else { magnitude };
    if rest.is_empty() { Reading::Whole(number) } else { Reading::Cut(number, rest) }
}

pub(super) fn check(
    name: &str,
    value: &str,
    least: Option<i64>,
    most: Option<i64>,
) -> Option<Finding> {
    let number = match read(value) {
        Reading::Whole(number) => number,
        Reading::Cut(number, rest) => return Some(cut(number, rest)),
        Reading::Nothing => return Some(nothing(name, value, (least, most) == (Some(0), Some(1)))),
        Reading::TooLarge => return Some(too_large()),
    };
    // A default is a legal value, even as -2 for "automatic".
    let is_default = tables().nccl.get(name).is_some_and(|parameter| {
        parameter.defaults.iter().any(|(_, default)| default.parse() == Ok(number))
    });
    let low = least.is_some_and(|least| number < least);
    let high = most.is_some_and(|most| number > most);
    if !(low || high) || is_default {
        return None;
    }
    let wanted = match (least, most) {
        (Some(0), Some(1)) => "0 or 1".to_owned(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, Some(most)) => format!("{most} or less"),
        (None, None) => return None,
    };
    Some(finding(Severity::Error, "the value is out of range", format!("use {wanted}")))
}

pub(super) fn check_warps(
    name: &str,
    value: &str,
    least: Option<i64>,
    most: Option<i64>,
) -> Option<Finding> {
    if let Some(finding) = check(name, value, least, most) {
        return Some(finding);
    }
    let Reading::Whole(number) = read(value) else {
        return None;
    };
    let cause = format!("threads come in warps, and {number} is not a multiple of {WARP_THREADS}");
    (number > 0 && number % WARP_THREADS != 0)
        .then(|| finding(Severity::Error, cause, format!("use a multiple of {WARP_THREADS}")))
}

fn cut(number: i64, rest: &str) -> Finding {
    let cause = format!("NCCL stops reading at '{rest}' and takes {number}");
    let shift = match rest.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        _ => None,
    };
    let bytes = shift.and_then(|shift| number.checked_mul(1 << shift));
    let remedy = match bytes {
        Some(bytes) => format!("write the bytes out: {bytes}"),
        None => "write a plain whole number".to_owned(),
    };
    finding(Severity::Error, cause, remedy)
}

fn nothing(name: &str, value: &str, is_switch: bool) -> Finding {
    let cause = "NCCL reads a number here, and takes a word for 0";
    let word = value.trim().to_ascii_lowercase();
    if matches!(word.as_str(), "false" | "no" | "off" | "n" | "f" | "disable" | "disabled") {
        return finding(Severity::Warning, cause, format!("write {name}=0"));
    }
    let remedy =
        if is_switch { format!("write {name}=1") } else { "write a whole number".to_owned() };
    finding(Severity::Error, cause, remedy)
}

fn too_large() -> Finding {
    let cause = "the number does not fit 64 bits, so NCCL uses its default";
    finding(Severity::Error, cause, "write a smaller number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(name: &str, value: &str, least: i64, most: i64) -> Option<String> {
        check(name, value, Some(least), Some(most)).map(|v| v.to_string())
    }

    #[test]
    fn numbers_are_read_as_c_does() {
        assert_eq!(read("0x10"), Reading::Whole(16));
        assert_eq!(read("010"), Reading::Whole(8));
        assert_eq!(read(" +5"), Reading::Whole(5));
        assert_eq!(read("-2"), Reading::Whole(-2));
        assert_eq!(read("08"), Reading::Cut(0, "8"));
        assert_eq!(read("4M"), Reading::Cut(4, "M"));
        assert_eq!(read("0x"), Reading::Cut(0, "x"));
        assert_eq!(read("true"), Reading::Nothing);
        assert_eq!(read("99999999999999999999"), Reading::TooLarge);
    }

    #[test]
    fn words_become_zero() {
        let text = cause("NCCL_IB_DISABLE", "true", 0, 1).unwrap();
        assert!(
            text.contains("takes a word for 0") && text.contains("NCCL_IB_DISABLE=1"),
            "{text}"
        );
        let finding = check("NCCL_IB_DISABLE", "off", Some(0), Some(1)).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn units_are_not_read() {
        let text = cause("NCCL_BUFFSIZE", "8M", 1, i64::MAX).unwrap();
        assert!(text.contains("takes 8") && text.contains("8388608"), "{text}");
    }

    #[test]
    fn ranges_hold_at_both_ends() {
        assert_eq!(cause("NCCL_IB_TC", "255", -1, 255), None);
        assert!(cause("NCCL_IB_TC", "256", -1, 255).unwrap().contains("-1 to 255"));
        assert!(cause("NCCL_IB_SL", "16", -1, 15).is_some());
    }

    #[test]
    fn the_default_is_legal_even_when_odd() {
        assert_eq!(cause("NCCL_BUFFSIZE", "-2", 1, i64::MAX), None);
        assert!(cause("NCCL_BUFFSIZE", "-3", 1, i64::MAX).is_some());
    }

    #[test]
    fn threads_come_in_warps() {
        let warps = |value| check_warps("NCCL_NTHREADS", value, Some(64), Some(512));
        assert_eq!(warps("256"), None);
        assert!(warps("100").unwrap().cause.contains("multiple of 32"));
        assert!(warps("1024").unwrap().remedy.as_deref().unwrap().contains("64 to 512"));
    }
}
