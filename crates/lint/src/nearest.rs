//! The nearest of several names: by typing slips, or by words in another order.
//! It does not know which names exist.

/// More than this many equally near names are no help to anyone.
const MOST_OFFERED: usize = 3;

/// How a known name resembles the one given; smaller is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// One or two letters wrong, missing, doubled or swapped.
    Typing(u8),
    /// The same words in another order.
    Reordered,
    /// One word more or less.
    OneWord,
}

/// The nearest names, all equally near; none when nothing is near or too many are.
pub fn nearest<'k>(
    name: &str,
    candidates: impl Iterator<Item = &'k str>,
) -> Option<(Likeness, Vec<&'k str>)> {
    let limit = slips_allowed(name);
    let words = sorted_words(name);
    let mut best: Option<Likeness> = None;
    let mut found: Vec<&str> = Vec::new();
    for candidate in candidates {
        let Some(likeness) = likeness(name, &words, candidate, limit) else {
            continue;
        };
        if best.is_none_or(|b| likeness < b) {
            best = Some(likeness);
            found.clear();
        }
        if best == Some(likeness) {
            found.push(candidate);
        }
    }
    found.sort_unstable();
    found.dedup();
    let best = best?;
    (found.len() <= MOST_OFFERED).then_some((best, found))
}

/// Short names are near to everything: two slips in UCX_TLS leave nothing of it.
fn slips_allowed(name: &str) -> usize {
    let tail = name.split_once('_').map_or(name, |(_, tail)| tail);
    if tail.len() < 5 { 1 } else { 2 }
}

fn likeness(name: &str, words: &[&str], candidate: &str, limit: usize) -> Option<Likeness> {
    if let Some(slips) = distance(name, candidate, limit) {
        return Some(Likeness::Typing(slips as u8));
    }
    let other = sorted_words(candidate);
    if words == other.as_slice() {
        return Some(Likeness::Reordered);
    }
    // The prefix alone in common (NCCL_X and NCCL_X_Y) says little; ask for two words.
    let common = words.len().min(other.len());
    (common >= 3 && words.len().abs_diff(other.len()) == 1 && contains_all(words, &other))
        .then_some(Likeness::OneWord)
}

fn sorted_words(name: &str) -> Vec<&str> {
    let mut words: Vec<&str> = name.split('_').filter(|w| !w.is_empty()).collect();
    words.sort_unstable();
    words
}

/// Whether the shorter sorted list is the longer one less one word.
fn contains_all(a: &[&str], b: &[&str]) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let mut rest = long.iter();
    short.iter().all(|word| rest.any(|other| other == word))
}

/// Damerau-Levenshtein distance (adjacent letters may be swapped), or none above `limit`.
pub fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    // Names from outside have any length: those of very different ones are not compared.
    let comparable = a.len().abs_diff(b.len()) <= limit;
    comparable.then(|| strsim::osa_distance(a, b)).filter(|slips| *slips <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 7] = [
        "NCCL_DEBUG",
        "NCCL_DEBUG_FILE",
        "NCCL_IB_HCA",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_P2P_LEVEL",
        "NCCL_NSOCKS_PERTHREAD",
        "UCX_TLS",
    ];

    fn one(name: &str) -> Option<&'static str> {
        nearest(name, KNOWN.into_iter()).map(|(_, names)| names[0])
    }

    #[test]
    fn slips_of_typing_are_found() {
        assert_eq!(one("NCLL_DEBUG"), Some("NCCL_DEBUG"));
        assert_eq!(one("NCCL_DEBGU"), Some("NCCL_DEBUG"));
        assert_eq!(one("NCCL_IB_HAC"), Some("NCCL_IB_HCA"));
    }

    #[test]
    fn a_swap_is_one_slip() {
        assert_eq!(distance("HAC", "HCA", 2), Some(1));
        assert_eq!(distance("", "ab", 2), Some(2));
        assert_eq!(distance("abc", "xyz", 2), None);
    }

    #[test]
    fn words_may_change_places_or_be_one_more() {
        assert_eq!(one("NCCL_GDR_NET_LEVEL"), Some("NCCL_NET_GDR_LEVEL"));
        assert_eq!(one("NCCL_GDR_LEVEL"), Some("NCCL_NET_GDR_LEVEL"));
        assert_eq!(one("NCCL_SOCKET_NSOCKS_PERTHREAD"), Some("NCCL_NSOCKS_PERTHREAD"));
    }

    #[test]
    fn short_names_allow_one_slip_only() {
        assert_eq!(one("UCX_TL"), Some("UCX_TLS"));
        assert_eq!(one("UCX_PLX"), None);
    }

    #[test]
    fn nothing_near_is_nothing() {
        assert_eq!(one("NCCL_WARP_DRIVE"), None);
        assert_eq!(one(""), None);
    }
}
