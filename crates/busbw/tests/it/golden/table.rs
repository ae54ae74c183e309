//! The strict comparison of tables: lines outside rows are the same but for the figures in them; a
//! row has the same text up to its root, and its figures end in the same columns.
//! Not what may differ on purpose (`differences`).

use super::{differences::LEAD, run::Backend};

/// Lines without their newlines; a last line without one is not the same as one with.
pub fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

/// Everything that is not as expected, readable.
pub fn compare(expected: &[String], got: &str, backend: Backend) -> Vec<String> {
    let got = lines(got);
    if expected.len() != got.len() {
        return vec![format!(
            "{} lines instead of {}; expected\n{}\ngot\n{}",
            got.len(),
            expected.len(),
            visible(&expected.join("\n")),
            visible(&got.join("\n"))
        )];
    }
    let per_half = if expected.iter().any(|line| line.contains("  i_min  ")) { 8 } else { 4 };
    let same = |want: &str, got: &str| match want {
        _ if want.starts_with("#  Rank ") => device(want, got, backend),
        _ if is_row(want) => row(want, got, per_half),
        _ if masked(want) == masked(got) => Ok(()),
        _ => Err("another line".to_owned()),
    };
    expected
        .iter()
        .zip(&got)
        .enumerate()
        .filter_map(|(at, (want, got))| {
            let why = same(want, got).err()?;
            let (want, got) = (visible(want), visible(got));
            Some(format!("line {}, {why}: expected\n  {want}\ngot\n  {got}", at + 1))
        })
        .collect()
}

/// Blanks that can be seen, and where each line ends.
pub fn visible(text: &str) -> String {
    text.split('\n').map(|line| line.replace(' ', "·") + "¶").collect::<Vec<_>>().join("\n")
}

/// Whether a line is a row: a size right-aligned in twelve columns.
pub fn is_row(line: &str) -> bool {
    let size = line.get(..12).unwrap_or_default().trim_start();
    line.len() > LEAD && !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit())
}

fn row(want: &str, got: &str, per_half: usize) -> Result<(), String> {
    if want.len() != got.len() {
        return Err(format!("{} columns instead of {}", got.len(), want.len()));
    }
    if want.get(..LEAD) != got.get(..LEAD) {
        return Err("another size, count, type, redop or root".to_owned());
    }
    let (want, got) = (fields(&want[LEAD..]), fields(&got[LEAD..]));
    if want.len() != got.len() {
        return Err(format!("{} figures instead of {}", got.len(), want.len()));
    }
    for (at, ((want_end, want), (got_end, got))) in want.iter().zip(&got).enumerate() {
        let column = at + 1;
        if want_end != got_end {
            return Err(format!("figure {column} ends in column {got_end}, not {want_end}"));
        }
        let wrong = at < 2 * per_half && at % per_half == 3;
        let same = match want.parse::<f64>() {
            // What does not depend on time is the same: #wrong and N/A.
            _ if wrong => want == got,
            Ok(_) => got.parse::<f64>().is_ok_and(f64::is_finite),
            Err(_) => digits(want) == digits(got),
        };
        if !same {
            return Err(format!("figure {column} is {got}, not like {want}"));
        }
    }
    Ok(())
}

/// Words with the column in which each ends.
fn fields(text: &str) -> Vec<(usize, &str)> {
    let start = text.as_ptr() as usize;
    text.split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - start + word.len(), word))
        .collect()
}

/// A date's or time's shape: every digit a 9.
pub fn digits(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect()
}

/// A device line is what its own words give in the original's format, of the same rank and group;
/// where devices are counted, of the same device.
fn device(want: &str, got: &str, backend: Backend) -> Result<(), String> {
    let ([want_rank, want_group, want_device], want_formatted) = device_words(want)?;
    assert_eq!(want_formatted, want, "the format is not the original's");
    let ([rank, group, device], formatted) = device_words(got)?;
    if formatted != got {
        return Err(format!("its shape should be {}", visible(&formatted)));
    }
    if (want_rank, want_group) != (rank, group) {
        return Err("another rank or group".to_owned());
    }
    if backend != Backend::Host && want_device != device {
        return Err("another device".to_owned());
    }
    Ok(())
}

/// Rank, group and device of a device line, and the line that they and the other words give.
fn device_words(line: &str) -> Result<([u64; 3], String), String> {
    let shape = || "no device line".to_owned();
    let (words, named) = line.split_once('[').ok_or_else(shape)?;
    let (address, name) = named.split_once("] ").ok_or_else(shape)?;
    let words: Vec<&str> = words.split_whitespace().collect();
    let [_, _, rank, _, group, _, pid, _, host, _, device] = words[..] else {
        return Err(shape());
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| shape());
    let (rank, group, device) = (number(rank)?, number(group)?, number(device)?);
    let pid = number(pid)?;
    let hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<usize> = address.split(':').filter(|p| hex(p)).map(str::len).collect();
    if parts != [4, 2, 2] || name.is_empty() || name != name.trim() || host.contains('.') {
        return Err(shape());
    }
    let formatted = format!(
        "#  Rank {rank:2} Group {group:2} Pid {pid:6} on {host:>10} device {device:2} [{address}] {name}"
    );
    Ok(([rank, group, device], formatted))
}

/// A line outside rows with 9 for what depends on the library, on time or on memory; all other
/// figures must be the same.
fn masked(line: &str) -> String {
    let keys: &[&str] = if line.starts_with("# nccl-tests version ") {
        &["nccl-headers=", "nccl-library="]
    } else if line.starts_with("# Avg bus bandwidth ") {
        &["bandwidth    : "]
    } else if line.starts_with("# GPU memory usage ") {
        &["Initialization ", "User-Allocated ", "Collective ", "Total  "]
    } else if line.starts_with("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: ") {
        &["time_usec="]
    } else if line.starts_with("#   rank=") {
        &["alg_bw=", "bus_bw="]
    } else {
        return line.to_owned();
    };
    let mut text = line.to_owned();
    for key in keys {
        let Some((before, after)) = text.split_once(key) else { continue };
        let number = after.trim_start_matches(|c: char| c.is_ascii_digit() || ".e+-".contains(c));
        let nine = if number.len() < after.len() { "9" } else { "" };
        let unit = [" GB", " MB", " KB"].iter().find_map(|unit| number.strip_prefix(unit));
        let rest = unit.map_or(number.to_owned(), |rest| format!(" B{rest}"));
        text = format!("{before}{key}{nine}{rest}");
    }
    text
}
