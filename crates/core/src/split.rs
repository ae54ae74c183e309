//! NCCL_TESTS_SPLIT: which ranks form which communicator.
//! Not the communicators themselves: a colour per rank, nothing else.

use thiserror::Error;

/// How a rank's colour follows from its number (nccl-tests src/common.cu:1497-1520).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// colour = rank & value
    And(u64),
    /// colour = rank | value
    Or(u64),
    /// colour = rank % value
    Mod(u64),
    /// colour = rank / value
    Div(u64),
}

/// Why a split was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{variable}='{text}' cannot be used: {why}; write for example \"MOD 2\", \"DIV 0x4\" or \"&7\""
)]
pub struct SplitError {
    variable: &'static str,
    text: String,
    why: &'static str,
}

impl Split {
    /// Reads NCCL_TESTS_SPLIT: `AND|&|OR|'|'|MOD|%|DIV|/` and a value in decimal, 0x or 0b.
    ///
    /// # Errors
    /// Unknown operators, missing values, and division by zero (where nccl-tests takes colour 0 or
    /// dies of SIGFPE).
    pub fn parse(text: &str) -> Result<Split, SplitError> {
        let refuse = |why| SplitError { variable: "NCCL_TESTS_SPLIT", text: text.to_owned(), why };
        let upper: String =
            text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_uppercase();
        type Make = fn(u64) -> Split;
        let operators: [(&str, Make); 8] = [
            ("AND", Split::And),
            ("&", Split::And),
            ("OR", Split::Or),
            ("|", Split::Or),
            ("MOD", Split::Mod),
            ("%", Split::Mod),
            ("DIV", Split::Div),
            ("/", Split::Div),
        ];
        let (rest, make) = operators
            .iter()
            .find_map(|(name, make)| upper.strip_prefix(name).map(|rest| (rest, make)))
            .ok_or_else(|| refuse("it starts with none of AND, &, OR, |, MOD, %, DIV, /"))?;
        let value = whole_number(rest).ok_or_else(|| refuse("no number follows the operator"))?;
        let split = make(value);
        match split {
            Split::Mod(0) | Split::Div(0) => Err(refuse("it divides by zero")),
            _ => Ok(split),
        }
    }

    /// Reads NCCL_TESTS_SPLIT_MASK: always base 16, with or without 0x.
    ///
    /// # Errors
    /// Anything that is not a hexadecimal number.
    pub fn parse_mask(text: &str) -> Result<Split, SplitError> {
        let digits = text.trim().trim_start_matches("0x").trim_start_matches("0X");
        u64::from_str_radix(digits, 16).map(Split::And).map_err(|_| SplitError {
            variable: "NCCL_TESTS_SPLIT_MASK",
            text: text.to_owned(),
            why: "it is not a hexadecimal number",
        })
    }

    /// The colour of a world rank.
    pub fn colour(self, rank: usize) -> u64 {
        let rank = rank as u64;
        match self {
            Split::And(v) => rank & v,
            Split::Or(v) => rank | v,
            Split::Mod(v) => rank % v,
            Split::Div(v) => rank / v,
        }
    }
}

/// Decimal, 0x or 0b.
fn whole_number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0X") {
        return u64::from_str_radix(hex, 16).ok();
    }
    if let Some(binary) = text.strip_prefix("0B") {
        return u64::from_str_radix(binary, 2).ok();
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form() {
        assert_eq!(Split::parse("MOD 2"), Ok(Split::Mod(2)));
        assert_eq!(Split::parse("and 0x3"), Ok(Split::And(3)));
        assert_eq!(Split::parse("%0b10"), Ok(Split::Mod(2)));
        assert_eq!(Split::parse("| 4"), Ok(Split::Or(4)));
        assert_eq!(Split::parse("div4"), Ok(Split::Div(4)));
        assert_eq!(Split::parse_mask("f"), Ok(Split::And(15)));
        assert_eq!(Split::parse_mask("0x7"), Ok(Split::And(7)));
    }

    #[test]
    fn refuses_what_nccl_tests_dies_of() {
        for text in ["MOD 0", "/0", "XOR 2", "MOD", "MOD two", ""] {
            assert!(Split::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn colours() {
        assert_eq!([0, 1, 2, 3].map(|r| Split::Mod(2).colour(r)), [0, 1, 0, 1]);
        assert_eq!([0, 1, 2, 3].map(|r| Split::Div(2).colour(r)), [0, 0, 1, 1]);
    }
}
