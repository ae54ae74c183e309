//! What holds of every file: it comes back from its text, any bytes are read or refused, and the quick choice is the
//! first line that matches. Not examples, which are beside the code.
#![allow(clippy::unwrap_used)]

use busbw_tuner_file::{
    Algorithm, Call, Choices, Collective, Digest, Entry, Protocol, Reference, TunerFile, offered,
};
use proptest::{collection::vec, option, prelude::*, sample::select};

/// Few different bounds, so that entries overlap, touch and end at the last size.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![0..12_u64, Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()]
}

fn entry() -> impl Strategy<Value = Entry> {
    let what = (
        select(Collective::ALL),
        select(Algorithm::ALL),
        select(Protocol::ALL),
        option::of(1..=64_u8),
    );
    let when = (sizes(), sizes(), option::of(1..3_u32), option::of(3..5_u32), option::of(1..4_u32));
    (what, when)
        .prop_filter("NCCL has it", |((collective, algorithm, protocol, _), _)| {
            offered(*collective, *algorithm, *protocol)
        })
        .prop_map(|((collective, algorithm, protocol, channels), when)| {
            let (one, other, nodes, ranks, pipe_ops) = when;
            let channels = channels.filter(|_| !algorithm.takes_any_channels(nodes));
            let (least_bytes, most_bytes) = (one.min(other), one.max(other));
            Entry {
                collective,
                least_bytes,
                most_bytes,
                algorithm,
                protocol,
                channels,
                nodes,
                ranks,
                pipe_ops,
            }
        })
}

proptest! {
    #[test]
    fn a_file_comes_back_from_its_text(entries in vec(entry(), 0..40)) {
        let file = TunerFile { entries };
        prop_assert_eq!(TunerFile::parse(file.to_string().as_bytes()).unwrap(), file);
    }

    #[test]
    fn the_quick_choice_is_the_first_line_that_matches(
        entries in vec(entry(), 0..24),
        calls in vec((select(Collective::ALL), sizes(), 1..5_u32), 1..40),
        ranks in 3..5_u64,
        nodes in 1..3_u64,
    ) {
        let file = TunerFile { entries };
        let choices = Choices::new(&file, ranks, nodes);
        for (collective, bytes, pipe_ops) in calls {
            let call = Call { collective, bytes, pipe_ops, ranks, nodes };
            prop_assert_eq!(choices.choose(collective, bytes, pipe_ops), file.decide(&call));
            let ranges = choices.ranges(collective, pipe_ops);
            let range = ranges.iter().find(|range| range.most_bytes >= bytes).unwrap();
            prop_assert!(range.least_bytes <= bytes);
            prop_assert_eq!(range.entry, file.decide(&call));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..400)) {
        let _ = TunerFile::parse(&bytes);
    }

    #[test]
    fn any_text_of_its_words_is_read_or_refused(text in "([a-z_]{2,9}|allreduce|ring|simple|-?[0-9]{1,20}|[,\n\r #]){0,60}") {
        if let Ok(file) = TunerFile::parse(text.as_bytes()) {
            prop_assert_eq!(TunerFile::parse(file.to_string().as_bytes()).unwrap(), file);
        }
        let _ = text.parse::<Reference>();
    }

    #[test]
    fn a_reference_comes_back(file in "[^\0]{1,40}", bytes in vec(any::<u8>(), 0..40)) {
        let reference = Reference { file: file.into(), digest: Digest::of(&bytes) };
        prop_assert_eq!(reference.to_string().parse::<Reference>().unwrap(), reference);
    }
}
