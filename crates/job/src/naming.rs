//! How messages name many ranks and hosts: `8-15, 24`, `node[2-5], login`.
//! Not which ones.

use std::ops::RangeInclusive;

/// "0, 1, 8-15": runs of three or more as ranges.
pub fn list(numbers: &[usize]) -> String {
    let words = runs(numbers).into_iter().flat_map(|run| match (*run.start(), *run.end()) {
        (first, last) if last >= first + 2 => vec![format!("{first}-{last}")],
        (first, last) => (first..=last).map(|number| number.to_string()).collect(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// "rank 3", "ranks 0-7".
pub fn ranks(numbers: &[usize]) -> String {
    format!("{} {}", if numbers.len() == 1 { "rank" } else { "ranks" }, list(numbers))
}

/// "ranks 3, 4 on node2, rank 9 on node3": each with its host, in the order given.
pub fn placed<'a>(ranks_on: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    let mut pieces: Vec<(Vec<usize>, &str)> = Vec::new();
    for (rank, host) in ranks_on {
        match pieces.last_mut() {
            Some((ranks, known)) if *known == host => ranks.push(rank),
            _ => pieces.push((vec![rank], host)),
        }
    }
    let words: Vec<String> =
        pieces.iter().map(|(numbers, host)| format!("{} on {host}", ranks(numbers))).collect();
    words.join(", ")
}

/// Numbers that follow each other, in the order given.
fn runs(numbers: &[usize]) -> Vec<RangeInclusive<usize>> {
    let mut runs: Vec<RangeInclusive<usize>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if *run.end() + 1 == *number => *run = *run.start()..=*number,
            _ => runs.push(*number..=*number),
        }
    }
    runs
}

/// Host names, each once, with those that differ only in a number at the end as Slurm writes them:
/// `node[2-5], login`.
pub(super) fn hosts<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<(&str, Option<u64>, &str)> = names.into_iter().map(numbered).collect();
    names.sort_unstable();
    names.dedup();
    let mut words: Vec<String> = Vec::new();
    let mut rest = names.as_slice();
    while let [(stem, number, digits), ..] = rest {
        let follows = |((other, next, theirs), at): (&(&str, Option<u64>, &str), u64)| {
            let alike = theirs.len() == digits.len() || !digits.starts_with('0');
            other == stem && alike && *next == number.and_then(|number| number.checked_add(at))
        };
        let count = rest.iter().zip(0..).take_while(|pair| follows(*pair)).count();
        let (run, others) = rest.split_at(if number.is_some() { count } else { 1 });
        match run {
            [_, _, .., (_, _, last)] => words.push(format!("{stem}[{digits}-{last}]")),
            few => words.extend(few.iter().map(|(stem, _, digits)| format!("{stem}{digits}"))),
        }
        rest = others;
    }
    words.join(", ")
}

/// A name without the number at its end, that number, and its digits.
fn numbered(name: &str) -> (&str, Option<u64>, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    match digits.parse() {
        Ok(number) => (stem, Some(number), digits),
        Err(_) => (name, None, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folded() {
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7, 8");
        assert_eq!(list(&[]), "");
        assert_eq!((ranks(&[3]), ranks(&[0, 1])), ("rank 3".to_owned(), "ranks 0, 1".to_owned()));
        let three = [(3, "a"), (4, "a"), (9, "b")];
        assert_eq!(placed(three), "ranks 3, 4 on a, rank 9 on b");
        let names =
            ["node9", "node10", "login", "node11", "node3", "node9", "gpu08", "gpu09", "gpu10"];
        assert_eq!(hosts(names), "gpu[08-10], login, node3, node[9-11]");
        assert_eq!(hosts(["a"]), "a");
        assert_eq!(hosts(["host-a", "host-b"]), "host-a, host-b");
        assert_eq!(hosts(["99999999999999999999", "n1", "n2"]), "99999999999999999999, n1, n2");
    }

    proptest! {
        /// Whoever reads a list back gets the numbers that were in it.
        #[test]
        fn lists_can_be_read_back(numbers in prop::collection::btree_set(0usize..60, 0..40)) {
            let numbers: Vec<usize> = numbers.into_iter().collect();
            let text = list(&numbers);
            let read: Vec<usize> = text
                .split(", ")
                .filter(|word| !word.is_empty())
                .flat_map(|word| {
                    let (first, last) = word.split_once('-').unwrap_or((word, word));
                    first.parse().unwrap()..=last.parse().unwrap()
                })
                .collect();
            prop_assert_eq!(read, numbers);
        }

        /// Of any names, those that no range stands for are there as they are.
        #[test]
        fn hosts_can_be_read_back(names in prop::collection::btree_set("[ab]{0,1}[0-2]{1,2}", 0..12)) {
            let text = hosts(names.iter().map(String::as_str));
            let mut read: Vec<String> = Vec::new();
            for word in text.split(", ").filter(|word| !word.is_empty()) {
                let Some((stem, range)) = word.strip_suffix(']').and_then(|w| w.split_once('[')) else {
                    read.push(word.to_owned());
                    continue;
                };
                let (first, last) = range.split_once('-').unwrap();
                let width = if first.starts_with('0') { first.len() } else { 0 };
                let numbers = first.parse::<u32>().unwrap()..=last.parse().unwrap();
                read.extend(numbers.map(|number| format!("{stem}{number:0width$}")));
            }
            read.sort();
            prop_assert_eq!(read, names.into_iter().collect::<Vec<_>>());
        }
    }
}
