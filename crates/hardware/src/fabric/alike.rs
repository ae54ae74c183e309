//! Parts of a fabric in groups that are alike: parts of a group take the same from the same trunks, parts of two groups share
//! none. Not what their loss costs (`forecast::tolerance`).

use std::collections::HashMap;

use super::{Built, Parts};

/// Parts that no trunk tells apart, such as the uplinks of one leaf, or the spines of one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Alike {
    /// Their numbers among all parts of the kind.
    pub parts: Vec<usize>,
    /// What the loss of one takes: trunks, and bytes per microsecond of each.
    pub takes: Vec<(usize, f64)>,
}

/// The parts in groups, by their first parts. `whole` is the fabric without failures, by trunks.
pub fn alike(parts: &Parts, whole: &Built) -> Vec<Alike> {
    let mut groups: Vec<Alike> = Vec::new();
    let mut known: HashMap<Vec<(usize, u64)>, usize> = HashMap::new();
    for part in 0..parts.count() {
        let links = parts.links_of(part).into_iter();
        let mut takes: Vec<(usize, f64)> =
            links.map(|(link, keeps)| whole.trunk_loss(link, keeps)).collect();
        takes.sort_by_key(|(trunk, _)| *trunk);
        takes.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        let key = takes.iter().map(|(trunk, loss)| (*trunk, loss.to_bits())).collect();
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(Alike { parts: Vec::new(), takes });
            groups.len() - 1
        });
        groups[at].parts.push(part);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::{Balance, Failure, Shape, ready::ready};
    use super::*;

    /// Every part of every kind is in one group, and no trunk is in two: what one group loses costs another nothing.
    #[test]
    fn groups_share_no_trunk() {
        for name in super::super::ready::names() {
            let fabric = ready(name).expect("an example");
            let shape = Shape::of(&fabric).expect("built");
            let built = Built::new(&fabric, &shape, &[], Balance::Trunks, 450.0).expect("whole");
            for kind in [
                "link:host",
                "link:leaf",
                "link:spine",
                "switch:leaf",
                "switch:spine",
                "switch:core",
                "plane",
            ] {
                let failure: Failure = kind.parse().expect("a failure");
                let Ok(parts) = failure.parts(&fabric, &shape) else { continue };
                let groups = alike(&parts, &built);
                let all: usize = groups.iter().map(|group| group.parts.len()).sum();
                assert_eq!(all, parts.count(), "{name} {kind}");
                let mut trunks: Vec<usize> = groups
                    .iter()
                    .flat_map(|group| group.takes.iter().map(|(trunk, _)| *trunk))
                    .collect();
                let named = trunks.len();
                trunks.sort_unstable();
                trunks.dedup();
                assert_eq!(trunks.len(), named, "{name} {kind}");
                // All parts of a group take all that a trunk of single links has.
                for (trunk, loss) in groups.iter().flat_map(|group| {
                    group
                        .takes
                        .iter()
                        .map(|(trunk, loss)| (*trunk, loss * group.parts.len() as f64))
                }) {
                    assert!(
                        loss <= built.capacity[2 * trunk] * (1.0 + 1e-9),
                        "{name} {kind} {trunk}"
                    );
                }
            }
        }
    }
}
