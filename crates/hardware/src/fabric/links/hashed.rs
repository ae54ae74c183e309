//! The path of one connection under ECMP: at every switch a hash chooses among the links that reach the other end.
//! Not how often connections meet (`collisions`), and not spraying (`links`).

use std::rc::Rc;

use busbw_core::pattern::derive_seed;

use super::{Built, Port};
use crate::flows::Share;

impl Built {
    /// Adds the path that a hash gives. False where no way is left.
    pub(super) fn by_hash(
        &self,
        from: Port,
        to: Port,
        hash: u64,
        weight: f64,
        path: &mut Vec<Share>,
    ) -> bool {
        let (below, above) = (self.leaf(from), self.leaf(to));
        let salted = |salt: u64| derive_seed(hash, salt);
        let planes = 0..self.layout.planes;
        let plane = self.chosen(planes, salted(0), |plane| self.on_plane(from, to, plane));
        let Some(plane) = plane else { return false };
        let up = |link: usize| Share { link: 2 * link as u32, weight };
        let down = |link: usize| Share { link: 2 * link as u32 + 1, weight };
        path.push(up(self.layout.host_link(plane, from)));
        path.push(down(self.layout.host_link(plane, to)));
        if below == above {
            return true;
        }
        let leaf_up = match self.keeps.is_empty() {
            true => self.chosen(0..self.layout.leaf_up, salted(1), |_| true),
            false => {
                let ups = self.reaching(plane, below, above);
                ups.get((salted(1) % ups.len().max(1) as u64) as usize).copied()
            }
        };
        let Some(leaf_up) = leaf_up else { return false };
        let spine = leaf_up / self.layout.leaf_to_spine;
        path.push(up(self.layout.leaf_link(plane, below, leaf_up)));
        if self.pod(below) != self.pod(above) {
            let reaches = |up| self.core_reaches(plane, below, above, spine, up);
            let core = self.chosen(0..self.layout.spine_up, salted(2), reaches);
            let Some(core) = core else { return false };
            path.push(up(self.layout.spine_link(plane, self.pod(below), spine, core)));
            let link = |up| self.layout.spine_link(plane, self.pod(above), spine, up);
            let ups = self.parallel_cores(core);
            let chosen = self.chosen(ups, salted(3), |up| self.alive(link(up)));
            let Some(chosen) = chosen else { return false };
            path.push(down(link(chosen)));
        }
        let link = |up| self.layout.leaf_link(plane, above, up);
        let chosen = self.chosen(self.parallel(spine), salted(4), |up| self.alive(link(up)));
        let Some(chosen) = chosen else { return false };
        path.push(down(link(chosen)));
        true
    }

    fn reaching(&self, plane: usize, below: usize, above: usize) -> Rc<[usize]> {
        let mut known = self.reaching.borrow_mut();
        let reaches = |up| self.up_reaches(plane, below, above, up);
        let find = || self.those(0..self.layout.leaf_up, reaches).into();
        Rc::clone(known.entry([plane, below, above]).or_insert_with(find))
    }

    /// The one of those that a hash chooses.
    fn chosen(
        &self,
        all: std::ops::Range<usize>,
        hash: u64,
        holds: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if self.keeps.is_empty() {
            let at = hash % all.len().max(1) as u64;
            return all.clone().nth(at as usize);
        }
        let there = all.clone().filter(|one| holds(*one)).count();
        let at = hash % there.max(1) as u64;
        all.filter(|one| holds(*one)).nth(at as usize)
    }
}
