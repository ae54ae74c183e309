//! The variables that may be tuned, as data (variables.tsv), and those of them that mean something here.
//! Not what a machine has: the caller says so ([`Here`]).

mod by_call;
mod rungs;

use std::collections::BTreeMap;

use busbw_core::nccl_version::Version;
use serde::{Deserialize, Serialize};

pub use by_call::{ALGORITHM, CHANNELS, by_call};
pub use rungs::{RungRow, rung_rows, rungs};

use crate::space::{Need, Scope, Space, SpaceError, Variable};

const TABLE: &str = include_str!("catalogue/variables.tsv");
const COLUMNS: usize = 10;
/// The variables that choose for all calls what is chosen by call.
const BY_CALL: [&str; 2] = ["NCCL_ALGO", "NCCL_PROTO"];
/// Why what can harm others is not tried.
const UNLISTED: &str = "not tried unless -x lists values";
/// The word for a variable that is not set.
const UNSET: &str = "unset";

/// What there is on the machine and in the job that is tuned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Here {
    /// NCCL's release; `None` without NCCL, whose variables then are not tried.
    pub nccl: Option<Version>,
    /// Whether ranks are joined by RDMA.
    pub rdma: bool,
    /// Whether ranks are joined by NCCL's own sockets.
    pub sockets: bool,
    /// Whether ranks are joined by busbw's net plugin.
    pub busbw_net: bool,
    /// Whether a node may have several network devices: not where NCCL names one alone.
    pub rails: bool,
    /// Whether an option of the command names the net plugin: the `net` backend.
    pub net_backend: bool,
    /// Whether ranks of a node are joined by NVLink switches.
    pub nvlink: bool,
    /// Whether the job has collectives that NCCL has algorithms for.
    pub collectives: bool,
    /// Whether the job has sends and receives, alltoall among them.
    pub messages: bool,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The variable's name, or the option's with its dashes.
    pub name: &'static str,
    /// What it needs here: `any`, `network`, `rails`, `rdma`, `sockets`, `nvlink`, `busbw_net`, `net_backend`.
    pub place: &'static str,
    /// The operations that it changes: `all`, `collectives`, `messages`.
    pub operations: &'static str,
    /// Whether its values are in an order that means something.
    pub ordered: bool,
    /// Whether what the environment sets is left alone: somebody had a reason that no measurement shows.
    pub kept: bool,
    /// The values that are tried, each with NCCL's first release for it; none where only the user may list values.
    pub values: Vec<(Option<&'static str>, Option<Version>)>,
    /// What a user may list.
    pub accepts: Accepts,
    /// Conditions on other variables.
    pub needs: Vec<RowNeed>,
    /// NCCL's first release with it; `None` for variables of others.
    pub since: Option<Version>,
    /// What it costs, or why it is not tried unless the user lists values; `-` for nothing.
    pub cost: &'static str,
    /// Where this is from.
    pub source: &'static str,
}

/// A condition on another variable: that its value is one of these, or none of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowNeed {
    /// The other variable.
    pub name: &'static str,
    /// Whether it has to be one of the values.
    pub is_one: bool,
    /// The values; `None` for a variable that is not set.
    pub values: Vec<Option<&'static str>>,
}

/// The values that a variable takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepts {
    /// Whole numbers from the first to the second.
    Int(i64, i64),
    /// These words.
    Words(Vec<&'static str>),
    /// Any text without control characters.
    Text,
}

/// A variable that is not tried here, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waived {
    /// Its name.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// A list of the user's that cannot be tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Not in the table.
    #[error(
        "{0} is not a variable that is tuned, and nothing unknown is tried; `busbw sweep -x {0}=…` compares its values"
    )]
    Unknown(String),
    /// Another search chooses it.
    #[error(
        "{0} is not set for all calls alike: --search chooses algorithm and protocol by size; `busbw sweep -x {0}=…` compares its values"
    )]
    ByCall(String),
    /// Not one of its values.
    #[error("{name}={value} cannot be tried: {accepts}")]
    Value {
        /// The variable.
        name: String,
        /// The value.
        value: String,
        /// What it takes.
        accepts: String,
    },
    /// The release has no such variable, or it changes nothing here.
    #[error("{name} cannot be tried here: {reason}")]
    NotHere {
        /// The variable.
        name: String,
        /// Why.
        reason: String,
    },
    /// No space is left.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// The table. A row that cannot be read would be left out; a test holds that every row is read.
#[must_use]
pub fn rows() -> Vec<Row> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

fn row(line: &'static str) -> Option<Row> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, place, operations, kind, values, accepts, needs, since, cost, source] =
        <[&str; COLUMNS]>::try_from(fields).ok()?;
    let value = |word: &'static str| {
        let (word, since) = word.split_once('@').map_or((word, None), |(w, s)| (w, Some(s)));
        let since = since.map(str::parse).transpose().ok()?;
        Some(((word != UNSET).then_some(word), since))
    };
    let words = if values == "-" { "" } else { values };
    Some(Row {
        name,
        place,
        operations,
        ordered: kind == "ordered",
        kept: kind == "kept",
        values: words.split_whitespace().map(value).collect::<Option<_>>()?,
        accepts: Accepts::read(accepts)?,
        needs: match needs {
            "-" => Vec::new(),
            needs => needs.split_whitespace().map(RowNeed::read).collect::<Option<_>>()?,
        },
        since: if since == "-" { None } else { Some(since.parse().ok()?) },
        cost,
        source,
    })
}

impl RowNeed {
    fn read(text: &'static str) -> Option<Self> {
        let (name, values) = text.split_once('=')?;
        let is_one = !name.ends_with('!');
        let values = values.split(',').map(|word| (word != UNSET).then_some(word)).collect();
        Some(Self { name: name.trim_end_matches('!'), is_one, values })
    }

    fn holds(&self, value: Option<&str>) -> bool {
        self.values.contains(&value) == self.is_one
    }
}

impl Accepts {
    fn read(text: &'static str) -> Option<Self> {
        let mut words = text.split_whitespace();
        match words.next()? {
            "int" => Some(Self::Int(words.next()?.parse().ok()?, words.next()?.parse().ok()?)),
            "words" => Some(Self::Words(words.collect())),
            "text" => Some(Self::Text),
            _ => None,
        }
    }

    fn takes(&self, value: &str) -> bool {
        match self {
            Self::Int(least, most) => {
                value.parse::<i64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            Self::Words(words) => words.contains(&value),
            Self::Text => !value.is_empty() && !value.chars().any(char::is_control),
        }
    }

    fn says(&self) -> String {
        match self {
            Self::Int(least, most) => format!("it takes whole numbers from {least} to {most}"),
            Self::Words(words) => format!("the search takes {}", words.join(", ")),
            Self::Text => "it takes a text without control characters".to_owned(),
        }
    }
}

impl Row {
    /// Why it is not tried here; `None` where it is.
    fn waived(&self, here: &Here) -> Option<String> {
        let network = here.rdma || here.sockets || here.busbw_net;
        let is_there = match self.place {
            "network" => network,
            "rails" => network && here.rails,
            "rdma" => here.rdma,
            "sockets" => here.sockets,
            "nvlink" => here.nvlink,
            "busbw_net" => here.busbw_net,
            "net_backend" => here.net_backend,
            _ => true,
        };
        let is_used = match self.operations {
            "collectives" => here.collectives,
            "messages" => here.messages,
            _ => true,
        };
        match (self.since, here.nccl) {
            // NCCL's sockets are also a plugin by itself, with the same variables.
            (Some(_), None) if self.place == "sockets" && here.sockets => {}
            (Some(_), None) => return Some("it is NCCL's, and NCCL does not run here".to_owned()),
            (Some(since), Some(nccl)) if nccl < since => {
                return Some(format!("it is read from NCCL {since} on, and {nccl} is loaded"));
            }
            _ => {}
        }
        if !is_there {
            let place = match self.place {
                "rails" => "several network devices a node",
                "sockets" => "NCCL's own sockets",
                "nvlink" => "NVLink switches",
                "busbw_net" => "busbw's net plugin",
                "net_backend" => "the net backend",
                place => place,
            };
            return Some(format!("it needs what this job does not have: {place}"));
        }
        (!is_used).then(|| format!("it changes {} alone, and the job has none", self.operations))
    }
}

/// Refuses lists of what is not in the table, or is not set for all calls alike: no launch is needed to know.
///
/// # Errors
/// The first of them.
pub fn hold_names<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Result<(), CatalogueError> {
    if let Some(name) = names.clone().find(|name| BY_CALL.contains(name)) {
        return Err(CatalogueError::ByCall(name.to_owned()));
    }
    let rows = rows();
    let unknown = names.into_iter().find(|name| rows.iter().all(|row| row.name != *name));
    unknown.map_or(Ok(()), |name| Err(CatalogueError::Unknown(name.to_owned())))
}

/// The space to search here, and what is left out of it. `present` is the environment without tuning; `listed` has
/// the values that the user lists for a variable, in place of the table's.
///
/// # Errors
/// A listed variable or value is not in the table or not of this machine, or nothing is left to search.
pub fn space(
    here: &Here,
    present: &BTreeMap<String, String>,
    listed: &BTreeMap<String, Vec<Option<String>>>,
) -> Result<(Space, Vec<Waived>), CatalogueError> {
    let rows = rows();
    hold_names(listed.keys().map(String::as_str))?;
    let mut variables: Vec<Variable> = Vec::new();
    let mut waived = Vec::new();
    for row in &rows {
        let name = row.name.to_owned();
        let user = listed.get(row.name);
        if let Some(reason) = row.waived(here) {
            if user.is_some() {
                return Err(CatalogueError::NotHere { name, reason });
            }
            waived.push(Waived { name, reason });
            continue;
        }
        if user.is_none() && row.values.is_empty() {
            let reason = format!("{UNLISTED}: {}", row.cost);
            waived.push(Waived { name, reason });
            continue;
        }
        let present = present.get(row.name).filter(|value| !value.is_empty()).cloned();
        if let Some(value) = present.as_ref().filter(|_| row.kept && user.is_none()) {
            let reason =
                format!("left as the environment sets it ({value}) unless -x lists values");
            waived.push(Waived { name, reason });
            continue;
        }
        let variable = variable(row, here, present, user, &variables)?;
        match variable {
            Some(variable) => variables.push(variable),
            None => waived.push(Waived { name, reason: "it has one value here".to_owned() }),
        }
    }
    Ok((Space::new(variables)?, waived))
}

fn variable(
    row: &Row,
    here: &Here,
    present: Option<String>,
    user: Option<&Vec<Option<String>>>,
    before: &[Variable],
) -> Result<Option<Variable>, CatalogueError> {
    let mut values: Vec<Option<String>> = Vec::new();
    let mut add = |value: Option<String>| {
        if !values.contains(&value) {
            values.push(value);
        }
    };
    if let Some(listed) = user {
        for value in listed {
            if let Some(text) = value.as_ref().filter(|text| !row.accepts.takes(text)) {
                let (name, accepts) = (row.name.to_owned(), row.accepts.says());
                return Err(CatalogueError::Value { name, value: text.clone(), accepts });
            }
            add(value.clone());
        }
    } else {
        let is_read = |since: &Option<Version>| since.is_none() || *since <= here.nccl;
        let known = row.values.iter().filter(|(_, since)| is_read(since));
        known.for_each(|(value, _)| add(value.map(str::to_owned)));
    }
    add(present.clone());
    if row.ordered {
        // "Not set" first, then by number: neighbours are alike.
        let number = |value: &Option<String>| value.as_ref().and_then(|v| v.parse::<i64>().ok());
        values.sort_by_key(number);
    }
    let default = values.iter().position(|value| *value == present).unwrap_or(0);
    let need = |need: &RowNeed| {
        let variable = before.iter().position(|other| other.name == need.name)?;
        let values = before[variable].values.iter().enumerate();
        let levels = values.filter(|(_, v)| need.holds(v.as_deref())).map(|(level, _)| level);
        Some(Need { variable, levels: levels.collect() })
    };
    let is_usable = values.len() > 1;
    Ok(is_usable.then(|| Variable {
        name: row.name.to_owned(),
        values,
        default,
        ordered: row.ordered,
        scope: Scope::Process,
        needs: row.needs.iter().filter_map(need).collect(),
    }))
}

#[cfg(test)]
mod tests;
