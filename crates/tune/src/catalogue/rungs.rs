//! The ladder's rungs, as data (rungs.tsv), and the steps of them that the space has.
//! Not climbing (`search::climb`).

use super::{UNLISTED, Waived};
use crate::{
    search::Rung,
    space::{Assignment, Space},
};

const TABLE: &str = include_str!("rungs.tsv");

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RungRow {
    /// Its name.
    pub name: &'static str,
    /// What it changes.
    pub changes: &'static str,
    /// Its steps: names and values, `*` for each value that the variable has.
    pub steps: Vec<Vec<(&'static str, &'static str)>>,
    /// Where this is from.
    pub source: &'static str,
}

/// The table. A row that cannot be read would be left out; a test holds that every row is read.
#[must_use]
pub fn rung_rows() -> Vec<RungRow> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

fn row(line: &'static str) -> Option<RungRow> {
    let [name, changes, steps, source] =
        <[&str; 4]>::try_from(line.split('\t').collect::<Vec<_>>()).ok()?;
    let step = |text: &'static str| -> Option<Vec<(&'static str, &'static str)>> {
        text.split_whitespace().map(|one| one.split_once('=')).collect()
    };
    let steps = steps.split('|').map(step).collect::<Option<_>>()?;
    Some(RungRow { name, changes, steps, source })
}

/// The rungs of this space, and why others are left out: `waived` are the variables that the space does not have.
#[must_use]
pub fn rungs(space: &Space, waived: &[Waived]) -> (Vec<Rung>, Vec<Waived>) {
    let (mut rungs, mut left_out) = (Vec::new(), Vec::new());
    for row in rung_rows() {
        let steps: Vec<Vec<Assignment>> =
            row.steps.iter().flat_map(|step| steps(space, step)).collect();
        let name = row.name.to_owned();
        if steps.is_empty() {
            left_out.push(Waived { name, reason: reason(&row, waived) });
        } else {
            rungs.push(Rung { name, steps });
        }
    }
    (rungs, left_out)
}

/// The assignments that a step of the table stands for; none where the space lacks a variable or a value.
fn steps(space: &Space, step: &[(&'static str, &'static str)]) -> Vec<Vec<Assignment>> {
    let variable = |name: &str| space.variables().iter().find(|one| one.name == name);
    let assignment =
        |name: &str, value: Option<String>| Assignment { name: name.to_owned(), value };
    if let [(name, "*")] = step {
        let values = variable(name).map(|one| one.values.clone()).unwrap_or_default();
        return values.into_iter().map(|value| vec![assignment(name, value)]).collect();
    }
    let fixed = step.iter().map(|(name, value)| {
        let value = Some((*value).to_owned());
        let is_there = variable(name).is_some_and(|one| one.values.contains(&value));
        is_there.then(|| assignment(name, value))
    });
    fixed.collect::<Option<Vec<_>>>().into_iter().collect()
}

/// Why a rung has no step: the reasons of its variables, what they begin with alike said once.
fn reason(row: &RungRow, waived: &[Waived]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for (name, _) in row.steps.iter().flatten() {
        let of_it = waived.iter().find(|one| one.name == *name);
        if let Some(reason) = of_it.map(|one| one.reason.as_str())
            && !reasons.contains(&reason)
        {
            let is_said = reasons.iter().any(|one| one.starts_with(UNLISTED));
            let unlisted = reason.strip_prefix(UNLISTED).filter(|_| is_said);
            reasons.push(unlisted.map_or(reason, |rest| rest.trim_start_matches(": ")));
        }
    }
    match reasons.is_empty() {
        true => "its variables have one value here".to_owned(),
        false => reasons.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use busbw_core::nccl_version::Version;

    use super::*;
    use crate::catalogue::{Here, rows, space};

    #[test]
    fn every_rung_is_read_and_names_what_is_tuned() {
        let rungs = rung_rows();
        assert_eq!(rungs.len(), TABLE.lines().filter(|line| !line.starts_with('#')).count());
        let variables = rows();
        for rung in &rungs {
            assert!(rung.changes.len() > 10 && rung.source.len() > 5, "{}", rung.name);
            for (name, value) in rung.steps.iter().flatten() {
                let row = variables.iter().find(|row| row.name == *name);
                let row = row.unwrap_or_else(|| panic!("{name} of rung {}", rung.name));
                let is_value = row.values.iter().any(|(known, _)| *known == Some(*value));
                assert!(*value == "*" || is_value, "{name}={value}");
            }
        }
    }

    #[test]
    fn what_is_not_here_is_waived_with_the_variables_reason() {
        let here = Here {
            nccl: Some(Version::new(2, 28, 9)),
            sockets: true,
            collectives: true,
            ..Here::default()
        };
        let (space, waived) = space(&here, &BTreeMap::new(), &BTreeMap::new()).unwrap();
        let (rungs, waived) = rungs(&space, &waived);
        let names: Vec<&str> = rungs.iter().map(|rung| rung.name.as_str()).collect();
        assert_eq!(names, ["socket threads", "rails", "channels", "buffer size"]);
        let reason = |name: &str| &waived.iter().find(|one| one.name == name).unwrap().reason;
        assert!(reason("queue pairs").contains("rdma"));
        assert!(reason("traffic class").contains("rdma"));
        assert!(reason("HCAs and interfaces").contains("not tried unless"));
        assert!(reason("event-based load balancing").contains("2.31.2"));
        assert_eq!(names.len() + waived.len(), rung_rows().len());
    }
}
