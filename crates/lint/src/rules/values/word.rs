//! Words from a short list: log levels, algorithms, path types.
//! It does not know the lists; the table does.

use busbw_core::finding::{Finding, Severity};

use super::finding;
use crate::nearest::distance;
use crate::rules::either;

/// The collectives that NCCL_ALGO and NCCL_PROTO can be set for one by one.
const FUNCTIONS: [&str; 5] = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"];

pub(super) fn check_one(value: &str, words: &[&str], any_case: bool) -> Option<Finding> {
    if words.contains(&value) {
        return None;
    }
    let other_case = words.iter().find(|word| word.eq_ignore_ascii_case(value));
    match other_case {
        Some(_) if any_case => None,
        Some(word) => Some(wrong_case(word)),
        None => Some(unknown(value, words)),
    }
}

pub(super) fn check_list(value: &str, words: &[&str]) -> Option<Finding> {
    let list = value.strip_prefix('^').unwrap_or(value);
    list.split(',').find_map(|word| check_one(word, words, true))
}

/// `ring,tree;allreduce:^tree`: only the first part may go without a collective.
pub(super) fn check_choice(value: &str, words: &[&str]) -> Option<Finding> {
    let parts = value.split(';').filter(|part| !part.is_empty());
    parts.enumerate().find_map(|(index, part)| {
        let (function, list) = match part.split_once(':') {
            Some((function, list)) => (Some(function), list),
            None => (None, part),
        };
        match function {
            Some(function) => check_one(function, &FUNCTIONS, true),
            None if index > 0 => Some(finding(
                Severity::Error,
                "only the first part of the list may go without a collective; NCCL refuses the rest",
                format!("write allreduce:{list}, or another collective"),
            )),
            None => None,
        }
        .or_else(|| {
            let list = list.strip_prefix('^').unwrap_or(list);
            list.split(',').filter(|word| !word.is_empty()).find_map(|word| check_one(word, words, true))
        })
    })
}

/// NCCL compares path types exactly, and else reads an old number if there is a digit.
pub(super) fn check_distance(value: &str, words: &[&str]) -> Option<Finding> {
    if value.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if value == "NODE" {
        let cause = "NODE is a word of nvidia-smi topo, and NCCL does not know it, so it ignores the setting";
        return Some(finding(Severity::Error, cause, "use PHB for one NUMA node, or SYS for all"));
    }
    check_one(value, words, false)
}

fn wrong_case(word: &str) -> Finding {
    let cause = "NCCL compares this word exactly, capitals included, and ignores another spelling";
    finding(Severity::Error, cause, format!("write {word}"))
}

fn unknown(value: &str, words: &[&str]) -> Finding {
    let cause = format!("NCCL does not know '{value}' here");
    let upper = value.to_ascii_uppercase();
    // Two slips in a word of three letters make any other word of three letters.
    let slips = |word: &str| {
        distance(&upper, &word.to_ascii_uppercase(), if word.len() > 3 { 2 } else { 1 })
    };
    let least = words.iter().filter_map(|word| slips(word)).min();
    let near: Vec<&str> =
        words.iter().copied().filter(|word| least.is_some() && slips(word) == least).collect();
    let remedy = match near.as_slice() {
        [] => format!("use {}", either(words)),
        near => format!("did you mean {}?", either(near)),
    };
    finding(Severity::Error, cause, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALGORITHMS: [&str; 3] = ["Tree", "Ring", "NVLS"];
    const PATHS: [&str; 4] = ["LOC", "NVL", "PHB", "SYS"];

    #[test]
    fn case_matters_only_where_the_library_says_so() {
        assert_eq!(check_one("info", &["INFO"], true), None);
        let finding = check_one("af_inet", &["AF_INET", "AF_INET6"], false).unwrap();
        assert_eq!(finding.remedy.as_deref(), Some("write AF_INET"));
    }

    #[test]
    fn a_near_word_is_offered() {
        assert_eq!(
            check_one("IFNO", &["WARN", "INFO"], true).unwrap().remedy.as_deref(),
            Some("did you mean INFO?")
        );
        assert_eq!(
            check_one("NETS", &["NVLS", "NET", "INIT"], true).unwrap().remedy.as_deref(),
            Some("did you mean NET?")
        );
        assert_eq!(
            check_one("999", &["A", "B"], true).unwrap().remedy.as_deref(),
            Some("use A or B")
        );
    }

    #[test]
    fn choices_follow_the_grammar() {
        for good in ["Ring", "^NVLS", "ring,tree;allreduce:tree;broadcast:^ring", "tree;"] {
            assert_eq!(check_choice(good, &ALGORITHMS), None, "{good}");
        }
        assert!(
            check_choice("Rnig", &ALGORITHMS).unwrap().remedy.as_deref().unwrap().contains("Ring")
        );
        assert!(check_choice("ring;tree", &ALGORITHMS).unwrap().cause.contains("first part"));
        assert!(
            check_choice("allreduc:ring", &ALGORITHMS)
                .unwrap()
                .remedy
                .as_deref()
                .unwrap()
                .contains("AllReduce")
        );
    }

    #[test]
    fn path_types_are_exact_or_old_numbers() {
        assert_eq!(check_distance("SYS", &PATHS), None);
        assert_eq!(check_distance("5", &PATHS), None);
        assert_eq!(check_distance("sys", &PATHS).unwrap().remedy.as_deref(), Some("write SYS"));
        assert!(check_distance("NODE", &PATHS).unwrap().remedy.as_deref().unwrap().contains("PHB"));
        assert!(check_distance("FAR", &PATHS).is_some());
    }

    #[test]
    fn lists_may_be_turned_round() {
        assert_eq!(check_list("^INIT,net", &["INIT", "NET"]), None);
        assert!(check_list("INIT,NETS", &["INIT", "NET"]).is_some());
    }
}
