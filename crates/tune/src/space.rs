//! What may be set: variables, their values in order, and which of them mean something beside which others.
//! Not which variables NCCL has (`catalogue`), and not which values are good (`search`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// An environment as one level, a place in [`Variable::values`], for each variable of a [`Space`].
pub type Point = Vec<usize>;

/// When a variable's value takes effect, so that a driver knows which trials can share a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// At every call: `ncclCollConfig_t` (NCCL 2.31) or a tuner plugin can choose it inside one communicator.
    Call,
    /// When a process first uses the library: it needs a fresh launch.
    Process,
}

/// A variable that may be set, with the values that are tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The values in order; `None` means that the variable is not set.
    pub values: Vec<Option<String>>,
    /// The place of the value that holds without tuning.
    pub default: usize,
    /// Whether neighbours in `values` are alike, as 4 and 8 channels are, and `Ring` and `Tree` are not.
    pub ordered: bool,
    /// When a value takes effect.
    pub scope: Scope,
    /// Conditions that all hold where the variable means something. Elsewhere it keeps its default.
    pub needs: Vec<Need>,
}

/// A condition on an earlier variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The other variable's place in the space; smaller than that of the variable that has the condition.
    pub variable: usize,
    /// The levels of it with which the condition holds.
    pub levels: Vec<usize>,
}

/// One variable of an environment, set or removed, or one option of the command; what a trial adds to the user's own
/// environment and command line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Assignment {
    /// The variable's name, or the option's with its dashes.
    pub name: String,
    /// Its value; `None` where the variable is removed.
    pub value: Option<String>,
}

impl Assignment {
    /// Whether it is an option of the command, rather than a variable of the environment.
    #[must_use]
    pub fn is_option(&self) -> bool {
        self.name.starts_with("--")
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => write!(f, "{} not set", self.name),
        }
    }
}

/// Variables that cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// No variable has a second value.
    #[error("there is nothing to search: no variable has two values here; list values for some")]
    Empty,
    /// A variable's default, a need or its list of values is not usable.
    #[error("the space's variable {name} cannot be used: {why}; correct its definition")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The variables of a search, each with at least two values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Variable>", into = "Vec<Variable>")]
pub struct Space {
    variables: Vec<Variable>,
}

impl TryFrom<Vec<Variable>> for Space {
    type Error = SpaceError;

    fn try_from(variables: Vec<Variable>) -> Result<Self, SpaceError> {
        Self::new(variables)
    }
}

impl From<Space> for Vec<Variable> {
    fn from(space: Space) -> Self {
        space.variables
    }
}

impl Space {
    /// A space of these variables.
    ///
    /// # Errors
    /// There is none, or one of them has fewer than two values, the same value or name twice, a default that is
    /// none of its values, or a need of a variable that does not come before it.
    pub fn new(variables: Vec<Variable>) -> Result<Self, SpaceError> {
        if variables.is_empty() {
            return Err(SpaceError::Empty);
        }
        for (place, variable) in variables.iter().enumerate() {
            let wrong = |why: &str| {
                Err(SpaceError::Variable { name: variable.name.clone(), why: why.to_owned() })
            };
            if variable.values.len() < 2 {
                return wrong("it has fewer than two values");
            }
            if variable.default >= variable.values.len() {
                return wrong("its default is none of its values");
            }
            let is_twice =
                |(n, value): (usize, &Option<String>)| variable.values[..n].contains(value);
            if variable.values.iter().enumerate().any(is_twice) {
                return wrong("a value is listed twice");
            }
            if variables[..place].iter().any(|other| other.name == variable.name) {
                return wrong("it is listed twice");
            }
            let is_later = |need: &Need| {
                need.variable >= place
                    || need.levels.iter().any(|l| *l >= variables[need.variable].values.len())
            };
            if variable.needs.iter().any(is_later) {
                return wrong("it needs a variable or a value that does not come before it");
            }
        }
        Ok(Self { variables })
    }

    /// The variables, in the order of a point's levels.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The environment that holds without tuning.
    #[must_use]
    pub fn default_point(&self) -> Point {
        self.variables.iter().map(|variable| variable.default).collect()
    }

    /// The number of different environments, if dependencies are ignored.
    #[must_use]
    pub fn combinations(&self) -> f64 {
        self.variables.iter().map(|variable| variable.values.len() as f64).product()
    }

    /// Gives variables that mean nothing in `point` their defaults, so that one environment is one point.
    pub fn normalise(&self, point: &mut Point) {
        for (place, variable) in self.variables.iter().enumerate() {
            if !self.is_active(place, point) {
                point[place] = variable.default;
            }
        }
    }

    /// Whether the variable at `place` means something in `point`.
    #[must_use]
    pub fn is_active(&self, place: usize, point: &Point) -> bool {
        self.variables[place].needs.iter().all(|need| need.levels.contains(&point[need.variable]))
    }

    /// What `point` adds to the user's own environment: the variables that differ from their defaults.
    #[must_use]
    pub fn environment(&self, point: &Point) -> Vec<Assignment> {
        let changed = self.variables.iter().zip(point).filter(|(v, level)| **level != v.default);
        let assignment = |(variable, level): (&Variable, &usize)| Assignment {
            name: variable.name.clone(),
            value: variable.values.get(*level).cloned().flatten(),
        };
        changed.map(assignment).collect()
    }

    /// The places of the variables of `point` that differ from their defaults.
    #[must_use]
    pub fn changed(&self, point: &Point) -> Vec<usize> {
        let places = 0..self.variables.len();
        places.filter(|&place| point[place] != self.variables[place].default).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, values: &[&str], needs: Vec<Need>) -> Variable {
        let value = |text: &&str| (*text != "unset").then(|| (*text).to_owned());
        let values = values.iter().map(value).collect();
        let (ordered, scope) = (true, Scope::Process);
        Variable { name: name.to_owned(), values, default: 0, ordered, scope, needs }
    }

    #[test]
    fn a_variable_without_meaning_keeps_its_default() {
        let need = Need { variable: 0, levels: vec![1, 2] };
        let space = Space::new(vec![
            variable("QPS", &["unset", "4", "8"], Vec::new()),
            variable("SPLIT", &["unset", "1"], vec![need]),
        ])
        .unwrap();
        let mut point = vec![0, 1];
        space.normalise(&mut point);
        assert_eq!(point, [0, 0]);
        let mut point = vec![2, 1];
        space.normalise(&mut point);
        assert_eq!(point, [2, 1]);
        let set: Vec<String> = space
            .environment(&point)
            .into_iter()
            .map(|a| format!("{}={}", a.name, a.value.unwrap_or_default()))
            .collect();
        assert_eq!(set, ["QPS=8", "SPLIT=1"]);
        assert_eq!(space.combinations(), 6.0);
    }

    #[test]
    fn a_space_that_cannot_be_searched_is_refused() {
        assert_eq!(Space::new(Vec::new()), Err(SpaceError::Empty));
        let later = Need { variable: 1, levels: vec![0] };
        for bad in [
            vec![variable("A", &["unset"], Vec::new())],
            vec![variable("A", &["1", "1"], Vec::new())],
            vec![variable("A", &["1", "2"], Vec::new()), variable("A", &["1", "2"], Vec::new())],
            vec![variable("A", &["1", "2"], vec![later])],
            vec![Variable { default: 2, ..variable("A", &["1", "2"], Vec::new()) }],
        ] {
            let error = Space::new(bad).unwrap_err().to_string();
            assert!(error.contains("cannot be used"), "{error}");
        }
    }
}
