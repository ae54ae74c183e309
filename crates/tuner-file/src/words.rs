//! Words of the file and NCCL's numbers for them: collectives, algorithms, protocols.
//! Not which of them NCCL has on a machine: its cost table says so at every call.
//!
//! Words: parseCollType, parseAlgorithm and parseProtocol of plugins/tuner/example/plugin.c. Numbers:
//! src/include/plugin/nccl_tuner.h and ncclFunc_t. Both of NCCL 2.30.7; the numbers are the same from 2.21 to 2.32.

use std::fmt;

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $number:literal $word:literal $log:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$of])* $variant),+ }

        impl $name {
            /// All of them, in the order of NCCL's numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// NCCL's number.
            #[must_use]
            pub fn number(self) -> usize {
                match self { $(Self::$variant => $number),+ }
            }

            /// The one with this number of NCCL's, if the file has a word for it.
            #[must_use]
            pub fn numbered(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// The word of the file.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The name in NCCL's log.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $log),+ }
            }

            /// The one with this word. NCCL's example takes small letters alone, and so does this.
            #[must_use]
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }

            /// All words, for messages.
            pub(crate) fn list() -> String {
                Self::ALL.iter().map(|one| one.word()).collect::<Vec<_>>().join(", ")
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.word())
            }
        }
    };
}

words! {
    /// A collective for which the file can choose.
    Collective {
        /// ncclFuncBroadcast.
        Broadcast = 0 "broadcast" "Broadcast",
        /// ncclFuncReduce.
        Reduce = 1 "reduce" "Reduce",
        /// ncclFuncAllGather.
        AllGather = 2 "allgather" "AllGather",
        /// ncclFuncReduceScatter.
        ReduceScatter = 3 "reducescatter" "ReduceScatter",
        /// ncclFuncAllReduce.
        AllReduce = 4 "allreduce" "AllReduce",
    }
}

words! {
    /// An algorithm of NCCL's.
    Algorithm {
        /// NCCL_ALGO_TREE.
        Tree = 0 "tree" "TREE",
        /// NCCL_ALGO_RING.
        Ring = 1 "ring" "RING",
        /// NCCL_ALGO_COLLNET_DIRECT.
        CollNetDirect = 2 "collnet_direct" "COLLNET_DIRECT",
        /// NCCL_ALGO_COLLNET_CHAIN.
        CollNetChain = 3 "collnet_chain" "COLLNET_CHAIN",
        /// NCCL_ALGO_NVLS.
        Nvls = 4 "nvls" "NVLS",
        /// NCCL_ALGO_NVLS_TREE.
        NvlsTree = 5 "nvls_tree" "NVLS_TREE",
        /// NCCL_ALGO_PAT.
        Pat = 6 "pat" "PAT",
    }
}

words! {
    /// A protocol of NCCL's.
    Protocol {
        /// NCCL_PROTO_LL.
        Ll = 0 "ll" "LL",
        /// NCCL_PROTO_LL128.
        Ll128 = 1 "ll128" "LL128",
        /// NCCL_PROTO_SIMPLE.
        Simple = 2 "simple" "SIMPLE",
    }
}

impl Algorithm {
    /// Whether NCCL takes a tuner's channels without holding them against those that a communicator of `nodes` (`None`:
    /// any number) has: CollNet's, and NVLS between nodes (scheduleCollTasksToPlan in src/enqueue.cc of NCCL 2.30.7).
    #[must_use]
    pub fn takes_any_channels(self, nodes: Option<u32>) -> bool {
        match self {
            Self::CollNetDirect | Self::CollNetChain => true,
            Self::Nvls => nodes != Some(1),
            Self::Tree | Self::Ring | Self::NvlsTree | Self::Pat => false,
        }
    }
}

/// Whether NCCL has the algorithm with the protocol for the collective on any machine (`ncclTopoTuneModel` in
/// src/graph/tuning.cc of NCCL 2.30.7). Elsewhere every entry of its cost table is -1.
#[must_use]
pub fn offered(collective: Collective, algorithm: Algorithm, protocol: Protocol) -> bool {
    use Algorithm::{CollNetDirect, Nvls, Pat, Ring, Tree};
    let algorithms = match collective {
        Collective::Broadcast | Collective::Reduce => algorithm == Ring,
        Collective::AllGather | Collective::ReduceScatter => {
            matches!(algorithm, Pat | Ring | Nvls | CollNetDirect)
        }
        Collective::AllReduce => algorithm != Pat,
    };
    algorithms && (protocol == Protocol::Simple || matches!(algorithm, Ring | Tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_come_back() {
        for (number, one) in Collective::ALL.iter().enumerate() {
            assert_eq!((one.number(), Collective::of_word(one.word())), (number, Some(*one)));
            assert_eq!(Collective::numbered(number as i32), Some(*one));
        }
        for (number, one) in Algorithm::ALL.iter().enumerate() {
            assert_eq!((one.number(), Algorithm::of_word(one.word())), (number, Some(*one)));
        }
        for (number, one) in Protocol::ALL.iter().enumerate() {
            assert_eq!((one.number(), Protocol::of_word(one.word())), (number, Some(*one)));
        }
        assert_eq!((Collective::numbered(5), Collective::numbered(-1)), (None, None));
        assert_eq!(Algorithm::of_word("RING"), None);
    }

    #[test]
    fn what_nccl_never_has() {
        use Algorithm::*;
        use Collective::*;
        use Protocol::*;
        assert!(offered(AllReduce, Tree, Ll128) && offered(AllReduce, NvlsTree, Simple));
        assert!(offered(AllGather, Pat, Simple) && offered(Broadcast, Ring, Ll));
        assert!(!offered(AllReduce, Pat, Simple) && !offered(AllGather, Tree, Simple));
        assert!(!offered(AllReduce, Nvls, Ll) && !offered(Broadcast, Tree, Simple));
    }
}
