//! A tuner's file and the value of BUSBW_TUNER: `busbw_tuner_file::TunerFile::parse` reads any bytes, and the quick choice is
//! the first line that matches.
//! Not what NCCL makes of a choice.
#![no_main]

use busbw_fuzz::{
    draw::{Draw, edit, put},
    share,
};
use busbw_tuner_file::{
    Algorithm, Call, Choices, Collective, Digest, Entry, MOST_ENTRIES, Protocol, Reference,
    TunerFile, offered,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    let file = TunerFile::parse(data);
    share::count(file.as_ref().is_ok_and(|file| !file.entries.is_empty()));
    match file {
        Ok(file) => chooses(&file),
        Err(why) => {
            let why = why.to_string();
            assert!(!why.is_empty() && !why.contains('\n'), "{why}");
        }
    }
    let text = String::from_utf8_lossy(data);
    let value = format!("{text}#sha256={}", Digest::of(data));
    match value.parse::<Reference>() {
        Ok(reference) => assert_eq!(reference.to_string(), value),
        Err(_) => assert!(text.is_empty()),
    }
    let _ = text.parse::<Reference>();
});

/// A file comes back from its text, and both ways of choosing agree at every edge.
fn chooses(file: &TunerFile) {
    assert!(file.entries.len() <= MOST_ENTRIES);
    assert_eq!(TunerFile::parse(file.to_string().as_bytes()).as_ref(), Ok(file));
    let Some(last) = file.entries.last() else { return };
    let (ranks, nodes) = (last.ranks.unwrap_or(8).into(), last.nodes.unwrap_or(2).into());
    let choices = Choices::new(file, ranks, nodes);
    for entry in file.entries.iter().take(64) {
        let collective = entry.collective;
        for pipe_ops in [entry.pipe_ops.unwrap_or(1), 1] {
            for edge in [entry.least_bytes, entry.most_bytes] {
                for bytes in [edge.saturating_sub(1), edge, edge.saturating_add(1)] {
                    let call = Call { collective, bytes, pipe_ops, ranks, nodes };
                    assert_eq!(choices.choose(collective, bytes, pipe_ops), file.decide(&call));
                }
            }
        }
    }
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw::new(seed);
    let old = String::from_utf8_lossy(&data[..size]).into_owned();
    let mut lines: Vec<String> = old.lines().map(str::to_owned).collect();
    match draw.below(8) {
        0..=3 => lines = (0..=draw.below(6)).map(|_| line(&mut draw)).collect(),
        4..=6 => edit(&mut draw, &mut lines, |draw, _| line(draw)),
        _ => return fuzzer_mutate(data, size, max_size),
    }
    put(lines.join("\n").as_bytes(), data, max_size)
});

/// A line: mostly one that a file has, sometimes a broken one.
fn line(draw: &mut Draw) -> String {
    match draw.below(24) {
        0 => "# a comment".to_owned(),
        1 => draw
            .pick(&[
                "allreduce,0,9,ring,simple,2,-1,-1,1,0",
                "allreduce,9,0,ring,simple,2,-1,-1",
                "allreduce,0,9,nvls,simple,2,-1,-1",
                "alltoall,0,9,ring,simple,65,-1,-1,-1,-1,-1",
                "allgather,0,9,tree,ll,0,4,2",
            ])
            .to_owned(),
        _ => entry(draw).to_string(),
    }
}

/// An entry that a file may have.
fn entry(draw: &mut Draw) -> Entry {
    let (least_bytes, length) = (draw.number(20), draw.number(20));
    let most_bytes = if draw.one_in(6) { u64::MAX } else { least_bytes + length };
    let all = Algorithm::ALL
        .iter()
        .flat_map(|&algorithm| Protocol::ALL.iter().map(move |&protocol| (algorithm, protocol)));
    let collective = draw.pick(Collective::ALL);
    let pairs: Vec<(Algorithm, Protocol)> =
        all.filter(|&(algorithm, protocol)| offered(collective, algorithm, protocol)).collect();
    let (algorithm, protocol) = draw.pick(&pairs);
    let some = |draw: &mut Draw, from: u32| {
        draw.one_in(3).then(|| from + u32::try_from(draw.number(3)).unwrap_or(0))
    };
    let (nodes, ranks, pipe_ops) = (some(draw, 1), some(draw, 8), some(draw, 1));
    let channels = draw.pick(&[None, Some(1), Some(16), Some(64)]);
    let channels = channels.filter(|_| !algorithm.takes_any_channels(nodes));
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
}
