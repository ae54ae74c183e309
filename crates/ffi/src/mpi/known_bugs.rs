//! Known bugs of libraries, by version: the affected calls are not made.
//! Not features that a library lacks (`library`, `element`).

use super::library::Implementation;

/// A version, such as (4, 0, 2).
type Version = (u32, u32, u32);

/// MPICH's versions with pmodels/mpich#6540, fixed by #6543.
const CRASHING_REDUCE: std::ops::RangeInclusive<Version> = (4, 0, 0)..=(4, 1, 1);
/// The first version of Open MPI without open-mpi/ompi#13883: #14249 is in 5.0.11; 4.1 is not corrected.
const SOUND_REDUCE_SCATTER: Version = (5, 0, 11);

/// The bugs of one library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Faults {
    /// An MPI_Reduce in place of more than 2 KiB whose root is not rank 0 ends with a segmentation fault
    /// (reproduced with Debian's MPICH 4.0.2).
    pub only_rank_0_reduces_in_place: bool,
    /// An MPI_Reduce_scatter_block in place in a GPU's memory copies one rank's share to the host and reduces what
    /// lies behind it: wrong results, or a segmentation fault (seen with Open MPI 4.1.4 on an H200).
    pub misreads_gpus_in_place: bool,
}

impl Faults {
    /// The bugs of the library with this version text.
    pub(super) fn of(implementation: Implementation, text: &str) -> Faults {
        let mpich = (implementation == Implementation::Mpich)
            .then(|| version(text, "MPICH Version:"))
            .flatten();
        let open_mpi = (implementation == Implementation::OpenMpi)
            .then(|| version(text, "Open MPI v"))
            .flatten();
        Faults {
            only_rank_0_reduces_in_place: mpich.is_some_and(|v| CRASHING_REDUCE.contains(&v)),
            misreads_gpus_in_place: open_mpi.is_some_and(|v| v < SOUND_REDUCE_SCATTER),
        }
    }
}

/// The version after these words in a library's version text.
fn version(text: &str, words: &str) -> Option<Version> {
    let (_, rest) = text.split_once(words)?;
    let word = rest.split_whitespace().next()?;
    // "4.2.0rc1" is 4.2.0.
    let mut numbers = word.split('.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse::<u32>().ok()
    });
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let of_mpich = |text| version(text, "MPICH Version:");
        assert_eq!(of_mpich("MPICH Version:\t4.0.2\nMPICH Release"), Some((4, 0, 2)));
        assert_eq!(of_mpich("MPICH Version: 4.2.0rc1"), Some((4, 2, 0)));
        assert_eq!(of_mpich("MPICH Version: 5.0"), Some((5, 0, 0)));
        assert_eq!(of_mpich("MPICH Version: next"), None);
        assert_eq!(of_mpich("Open MPI v4.1.4"), None);
    }

    #[test]
    fn each_has_its_own() {
        let of = |implementation, text| {
            let faults = Faults::of(implementation, text);
            (faults.only_rank_0_reduces_in_place, faults.misreads_gpus_in_place)
        };
        use Implementation::{Intel, Mpich, OpenMpi};
        for (implementation, text, want) in [
            (Mpich, "MPICH Version:\t4.0.2\n", (true, false)),
            (Mpich, "MPICH Version:\t4.1.2\n", (false, false)),
            (Intel, "Intel(R) MPI Library 2021.11", (false, false)),
            (OpenMpi, "Open MPI v4.1.4, package: Debian OpenMPI", (false, true)),
            (OpenMpi, "Open MPI v5.0.10, package: x", (false, true)),
            (OpenMpi, "Open MPI v5.0.11, package: x", (false, false)),
            (OpenMpi, "Open MPI v6.0.0, package: x", (false, false)),
            // Spectrum MPI has its own version numbers.
            (OpenMpi, "Spectrum MPI v10.4", (false, false)),
        ] {
            assert_eq!(of(implementation, text), want, "{text}");
        }
    }
}
