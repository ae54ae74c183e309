//! Single options as typed become values: sizes, types, roots, numbers within their bounds.
//! Not what they mean together.

use busbw_core::{
    plan::{Blocking, Step},
    size,
};

use super::part::Sizes;
use crate::options::BadOption;
use crate::options::{BenchArguments, integer};
use busbw_lint::nearest::nearest;

/// nccl-tests' step where none is given, bytes; busbw's own sizes double.
const THEIR_STEP: u64 = 1 << 20;

pub(super) fn is_on(value: Option<i64>) -> bool {
    value.is_some_and(|v| v != 0)
}

pub(super) fn count(
    option: &str,
    value: Option<i64>,
    default: i64,
    least: i64,
    most: i64,
) -> Result<i64, BadOption> {
    let value = value.unwrap_or(default);
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(BadOption::new(format!("{option} {value}: it must be between {least} and {most}")))
}

pub(super) fn sizes(a: &BenchArguments, ours: bool, range: (u64, u64)) -> Result<Sizes, BadOption> {
    let read = |option: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => {
            size::parse(text).map(Some).map_err(|e| BadOption::new(format!("{option}: {e}")))
        }
    };
    let min = read("-b", &a.min_bytes)?.unwrap_or(range.0);
    let max = read("-e", &a.max_bytes)?.unwrap_or(if ours { range.1.max(min) } else { range.1 });
    let by = read("-i", &a.step_bytes)?;
    let factor = count("-f", a.step_factor, 0, 0, 1 << 40)? as u64;
    if min > max {
        return Err(BadOption::new(format!(
            "-b is {min} bytes and -e {max}: the first size must not be above the last"
        )));
    }
    let step = match (factor, by) {
        (2.., _) => Step::Factor(factor),
        (_, Some(by)) => Step::Bytes(by),
        (1, None) => Step::Bytes(THEIR_STEP),
        (_, None) if ours => Step::Factor(2),
        _ => Step::Bytes(THEIR_STEP),
    };
    match step {
        Step::Factor(f) if min == 0 && max > 0 => Err(BadOption::new(format!(
            "-b 0 with the factor {f} never grows: use -b 8, or steps of bytes with -i"
        ))),
        Step::Bytes(0) if min < max => Err(BadOption::new(
            "-i 0 never grows: give the bytes from one size to the next, or a factor with -f",
        )),
        _ => Ok((min, max, step)),
    }
}

pub(super) fn names<T: Copy>(
    option: &str,
    text: Option<&str>,
    default: T,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    named: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, BadOption> {
    let Some(text) = text else { return Ok(vec![default]) };
    if text == "all" {
        return Ok(all.to_vec());
    }
    if let Some(found) = named(text) {
        return Ok(vec![found]);
    }
    let known: Vec<&str> = all.iter().map(|t| name(*t)).chain(["all"]).collect();
    let hint = nearest(text, known.iter().copied())
        .map_or(String::new(), |(_, near)| format!(", perhaps {}", near.join(" or ")));
    Err(BadOption::new(format!("{option} {text} is none of {}{hint}", known.join(", "))))
}

pub(super) fn roots(text: Option<&str>, ranks: usize) -> Result<Vec<usize>, BadOption> {
    let text = text.unwrap_or("0");
    if text == "all" {
        return Ok((0..ranks).collect());
    }
    let root = integer::parse(text)
        .map_err(|_| BadOption::new(format!("-r {text} is no rank: write its number, or all")))?;
    match usize::try_from(root) {
        _ if root == -1 => Ok((0..ranks).collect()),
        Ok(root) if root < ranks => Ok(vec![root]),
        _ => Err(BadOption::new(format!(
            "-r {root}: with {ranks} ranks in a communicator the root is 0 to {}, or all",
            ranks - 1
        ))),
    }
}

pub(super) fn blocking(
    a: &BenchArguments,
    graph: u32,
    remarks: &mut Vec<String>,
) -> Result<Blocking, BadOption> {
    Ok(match count("-z", a.blocking, 0, 0, 3)? {
        0 => Blocking::None,
        1 => Blocking::InnerBarrier,
        2 => Blocking::Inner,
        _ if graph > 0 => {
            remarks.push("-z 3 and -G exclude each other: -z 3 is ignored".to_owned());
            Blocking::None
        }
        _ => Blocking::Outer,
    })
}

/// `-I` and `-K`, lowered with a remark where nccl-tests lowers them with one.
pub(super) fn per_iteration(
    a: &BenchArguments,
    graph: u32,
    iterations: u32,
    remarks: &mut Vec<String>,
) -> (bool, u32) {
    let mut on = is_on(a.per_iteration);
    if let Some(value) = a.per_iteration.filter(|v| !(0..=1).contains(v)) {
        remarks
            .push(format!("-I {value}: the report of iterations is on (1) or off (0); it is off"));
        on = false;
    }
    if on && graph > 0 {
        remarks.push("-I and -G exclude each other: -I is ignored".to_owned());
        on = false;
    }
    let skip = a.per_iteration_skip.unwrap_or(0);
    if !(0..i64::from(iterations)).contains(&skip) {
        remarks.push(format!(
            "-K {skip}: it leaves out leading iterations, 0 to {}; none are left out",
            iterations - 1
        ));
        return (on, 0);
    }
    if skip > 0 && !on {
        remarks.push(format!("-K {skip} belongs to -I 1, which is off: ignored"));
        return (on, 0);
    }
    (on, skip as u32)
}
