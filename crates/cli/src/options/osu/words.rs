//! Words as OSU's programs read them: getopt's habits, of which clap has others. `-z50,99` stands beside
//! `-z` and beside the words `D D`, `-fc` are two options, `--val` is one that begins like that.
//! Not what options mean (`settings`).

use std::ffi::OsString;

use busbw_core::osu::{Program, Takes};

use busbw_lint::nearest::nearest;

/// Long names of OSU's options (c/util/osu_util_options.h: OMBOP_LONG_OPTIONS_ALL) that our programs have.
const LONG: [(&str, char); 26] = [
    ("help", 'h'),
    ("version", 'v'),
    ("full", 'f'),
    ("message-size", 'm'),
    ("window-size", 'W'),
    ("num-test-calls", 't'),
    ("iterations", 'i'),
    ("warmup", 'x'),
    ("array-size", 'a'),
    ("mem-limit", 'M'),
    ("accelerator", 'd'),
    ("cuda-target", 'r'),
    ("print-rate", 'R'),
    ("num-pairs", 'p'),
    ("vary-window", 'V'),
    ("validation", 'c'),
    ("buffer-num", 'b'),
    ("validation-warmup", 'u'),
    ("graph", 'G'),
    ("papi", 'P'),
    ("ddt", 'D'),
    ("type", 'T'),
    ("session", 'I'),
    ("in-place", 'l'),
    ("tail-lat", 'z'),
    ("root-rank", 'k'),
];

/// Short options of ours, each with a value.
const OURS: [(char, &str); 2] = [('g', "ngpus"), ('H', "hosts")];

/// Words by what they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// OSU's options with their values.
    pub(super) theirs: Vec<(char, Option<String>)>,
    /// Words that are no options.
    pub(super) plain: Vec<String>,
    /// Our own options, as typed.
    pub(super) ours: Vec<OsString>,
}

/// Sorts words. `ours` are our own long options, and whether each takes a value.
pub(super) fn sort(
    program: &Program,
    words: &[OsString],
    ours: &[(String, bool)],
) -> Result<Words, String> {
    let mut sorted = Words::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            return Err(format!("'{}' is no text", word.to_string_lossy()));
        };
        if text == "--" {
            let rest = words.by_ref().map(|word| word.to_string_lossy().into_owned());
            sorted.plain.extend(rest);
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            if let Some((_, takes)) = ours.iter().find(|(ours, _)| ours == name) {
                sorted.ours.push(word.clone());
                if *takes && value.is_none() {
                    sorted.ours.extend(words.next().cloned());
                }
                continue;
            }
            let letter = letter(program, name, ours)?;
            // The long form of -V wants a value and does not look at it (osu_util_options.h).
            let takes = match (letter, program.takes(letter)) {
                ('V', _) => Takes::Value,
                (_, takes) => takes.unwrap_or(Takes::Nothing),
            };
            let value = match (takes, value) {
                (Takes::Nothing, Some(value)) => {
                    return Err(format!("--{name} takes no value, and '{value}' is one"));
                }
                (Takes::Value, None) => Some(next(&mut words, &format!("--{name}"))?),
                (_, value) => value,
            };
            sorted.theirs.push((letter, value));
        } else if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            letters(program, cluster, &mut words, &mut sorted)?;
        } else {
            sorted.plain.push(text.to_owned());
        }
    }
    Ok(sorted)
}

/// `fc` of `-fc`: options until one that takes a value takes the rest.
fn letters<'a>(
    program: &Program,
    cluster: &str,
    words: &mut impl Iterator<Item = &'a OsString>,
    sorted: &mut Words,
) -> Result<(), String> {
    for (at, letter) in cluster.char_indices() {
        let rest = &cluster[at + letter.len_utf8()..];
        // Ours: OSU's ranks and hosts are its launcher's.
        if let Some((_, long)) = OURS.iter().find(|(ours, _)| *ours == letter) {
            let value = match rest {
                "" => next(words, &format!("-{letter}"))?,
                rest => rest.to_owned(),
            };
            sorted.ours.push(format!("--{long}={value}").into());
            return Ok(());
        }
        let takes = program
            .takes(letter)
            .ok_or_else(|| format!("{} has no option -{letter}: see {0} --help", program.name))?;
        let value = match takes {
            Takes::Nothing => None,
            Takes::Attached => Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
            Takes::Value if rest.is_empty() => Some(next(words, &format!("-{letter}"))?),
            Takes::Value => Some(rest.to_owned()),
        };
        sorted.theirs.push((letter, value));
        if takes != Takes::Nothing {
            return Ok(());
        }
    }
    Ok(())
}

fn next<'a>(
    words: &mut impl Iterator<Item = &'a OsString>,
    option: &str,
) -> Result<String, String> {
    let word = words.next().ok_or_else(|| format!("{option} lacks its value"))?;
    word.to_str().map(str::to_owned).ok_or_else(|| format!("the value of {option} is no text"))
}

/// The short form of the one long option of the program that is, or alone begins with, `name`.
fn letter(program: &Program, name: &str, ours: &[(String, bool)]) -> Result<char, String> {
    let there = LONG.into_iter().filter(|(_, letter)| program.takes(*letter).is_some());
    let there: Vec<(&str, char)> = there.collect();
    if let Some((_, letter)) = there.iter().find(|(long, _)| *long == name) {
        return Ok(*letter);
    }
    let begin: Vec<&(&str, char)> =
        there.iter().filter(|(long, _)| !name.is_empty() && long.starts_with(name)).collect();
    match begin.as_slice() {
        [(_, letter)] => Ok(*letter),
        [] => {
            let known = there.iter().map(|(long, _)| *long);
            let known = known.chain(ours.iter().map(|(name, _)| name.as_str()));
            let hint = nearest(name, known)
                .map_or(String::new(), |(_, near)| format!(", perhaps --{}", near.join(" or --")));
            Err(format!("{} has no option --{name}{hint}", program.name))
        }
        several => {
            let names: Vec<String> = several.iter().map(|(long, _)| format!("--{long}")).collect();
            Err(format!("--{name} may be {}", names.join(" or ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(name: &str, line: &str) -> Result<Words, String> {
        let ours = [("backend".to_owned(), true), ("json".to_owned(), false)];
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        sort(Program::find(name).unwrap(), &words, &ours)
    }

    #[test]
    fn as_getopt_reads_them() {
        let words = sorted(
            "osu_latency",
            "-z50,99 -c -m 1:4 --backend host -i50 D H --json --validation=log:x -z --warm 3",
        )
        .unwrap();
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(
            words.theirs,
            [
                ('z', value("50,99")),
                ('c', None),
                ('m', value("1:4")),
                ('i', value("50")),
                ('c', value("log:x")),
                ('z', None),
                ('x', value("3"))
            ]
        );
        assert_eq!(words.plain, ["D", "H"]);
        assert_eq!(words.ours, ["--backend", "host", "--json"]);
        let words = sorted("osu_allreduce", "-fclog:x -g 4 -g2 -Ha:1,b -H c").unwrap();
        assert_eq!(words.theirs, [('f', None), ('c', value("log:x"))]);
        assert_eq!(words.ours, ["--ngpus=4", "--ngpus=2", "--hosts=a:1,b", "--hosts=c"]);
        let words = sorted("osu_mbw_mr", "-V -R 0 --vary-window 1 -x -5").unwrap();
        assert_eq!(
            words.theirs,
            [('V', None), ('R', value("0")), ('V', value("1")), ('x', value("-5"))]
        );
    }

    #[test]
    fn refused() {
        for (program, line, why) in [
            ("osu_latency", "-A", "no option -A"),
            ("osu_latency", "-f", "no option -f"),
            ("osu_bcast", "-l", "no option -l"),
            ("osu_bw", "--full", "no option --full"),
            ("osu_latency", "--va", "--validation or --validation-warmup"),
            ("osu_latency", "--bakend x", "perhaps --backend"),
            ("osu_latency", "-m", "-m lacks its value"),
            ("osu_latency", "--message-size", "lacks its value"),
            ("osu_allreduce", "--full=1", "takes no value"),
        ] {
            let refused = sorted(program, line).unwrap_err();
            assert!(refused.contains(why), "{program} {line}: {refused}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_words_panic(words in proptest::collection::vec("[-=a-zA-Z0-9:,é]{0,8}", 0..6)) {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            for program in &busbw_core::osu::PROGRAMS {
                let _ = sort(program, &words, &[]);
            }
        }
    }
}
