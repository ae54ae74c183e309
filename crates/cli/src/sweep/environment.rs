//! The environments to compare: the product of all `-x` lists.
//! Not starting anything in them (`launch`).

use std::{ffi::OsString, fmt};

use busbw_store as store;

/// The most environments of one sweep: more is a mistake in a list, or a job of days.
pub const MAX_ENVIRONMENTS: usize = 256;

/// The environment of a job, in addition to the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its short name, a column's heading.
    pub name: String,
    /// Variables that are set or removed.
    pub variables: Vec<Variable>,
    /// Options of the benchmark that belong to it.
    pub options: Vec<String>,
    /// Another benchmark in place of the job's, with all of its options.
    pub instead: Option<Vec<OsString>>,
}

impl Environment {
    /// What its launches have on their command line besides the job's words, or in place of them.
    pub fn shown_options(&self) -> Vec<String> {
        match &self.instead {
            None => self.options.clone(),
            Some(words) => {
                let words = words.iter().map(|word| store::masked(&word.to_string_lossy()));
                std::iter::once("busbw".to_owned()).chain(words).collect()
            }
        }
    }
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value; `None` where the variable is removed.
    pub value: Option<String>,
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={}", self.name, store::shown(&self.name, value)),
            None => write!(f, "{} not set", self.name),
        }
    }
}

/// All combinations of the lists, the last list's values changing fastest.
///
/// # Errors
/// An option is not `NAME=VALUE,…`, or there are too many combinations.
pub fn product(lists: &[String]) -> Result<Vec<Environment>, String> {
    let mut variables: Vec<(String, Vec<Option<String>>)> = Vec::new();
    for list in lists {
        let (name, values) = read(list)?;
        match variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.extend(values),
            None => variables.push((name, values)),
        }
    }
    for (name, values) in &mut variables {
        let mut seen = Vec::new();
        for value in values.drain(..) {
            if !seen.contains(&value) {
                seen.push(value);
            }
        }
        *values = seen;
        if values.is_empty() {
            return Err(format!("-x {name}: there is no value"));
        }
    }
    let many = variables.iter().try_fold(1_usize, |many, (_, v)| many.checked_mul(v.len()));
    let Some(many) = many.filter(|many| *many <= MAX_ENVIRONMENTS) else {
        return Err(format!(
            "the -x lists have more than {MAX_ENVIRONMENTS} combinations: shorten them"
        ));
    };
    let environment = |number: usize| {
        let mut rest = number;
        let mut chosen: Vec<Variable> = Vec::new();
        for (name, values) in variables.iter().rev() {
            let value = values.get(rest % values.len()).cloned().flatten();
            chosen.push(Variable { name: name.clone(), value });
            rest /= values.len();
        }
        chosen.reverse();
        let name = (number + 1).to_string();
        Environment { name, variables: chosen, options: Vec::new(), instead: None }
    };
    Ok((0..many).map(environment).collect())
}

/// `NAME=a,b\,c,unset`: the name and its values; `None` is a variable that is not set.
///
/// # Errors
/// It is not written so.
pub fn read(list: &str) -> Result<(String, Vec<Option<String>>), String> {
    let wrong = || format!("-x {list}: write it as NAME=VALUE,VALUE");
    let (name, text) = list.split_once('=').ok_or_else(wrong)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(wrong());
    }
    let mut values = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = values.len() - 1;
        match letter {
            '\\' if letters.next_if_eq(&',').is_some() => values[last].push(','),
            ',' => values.push(String::new()),
            '\0' => return Err(wrong()),
            other => values[last].push(other),
        }
    }
    // NCCL treats an empty value like an unset variable (src/misc/param.cc), so it stands for that.
    let value = |text: String| (!text.is_empty() && text != "unset").then_some(text);
    Ok((name.to_owned(), values.into_iter().map(value).collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(lists: &[&str]) -> Vec<String> {
        let lists: Vec<String> = lists.iter().map(|list| (*list).to_owned()).collect();
        let told = |one: Environment| {
            let words: Vec<String> = one.variables.iter().map(ToString::to_string).collect();
            format!("{}: {}", one.name, words.join(" "))
        };
        product(&lists).unwrap().into_iter().map(told).collect()
    }

    #[test]
    fn all_combinations() {
        assert_eq!(
            told(&["NCCL_A=1,4", "NCCL_B=x,unset"]),
            [
                "1: NCCL_A=1 NCCL_B=x",
                "2: NCCL_A=1 NCCL_B not set",
                "3: NCCL_A=4 NCCL_B=x",
                "4: NCCL_A=4 NCCL_B not set"
            ]
        );
    }

    #[test]
    fn values_as_they_are_written() {
        assert_eq!(told(&["A=,1"]), ["1: A not set", "2: A=1"]);
        assert_eq!(told(&["A=x\\,y,z"]), ["1: A=x,y", "2: A=z"]);
        assert_eq!(told(&["A=1", "A=2,1"]), ["1: A=1", "2: A=2"]);
        assert_eq!(told(&["A=b=c"]), ["1: A=b=c"]);
        assert_eq!(told(&["API_TOKEN=secret"]), ["1: API_TOKEN=***"]);
    }

    #[test]
    fn refused() {
        let many: String = (0..300).map(|n| format!("{n},")).collect();
        for list in ["A", "=1", "A B=1", "1A=2", &format!("A={many}")] {
            assert!(product(&[list.to_owned()]).is_err(), "{list}");
        }
    }

    proptest! {
        #[test]
        fn no_list_is_too_odd(lists in prop::collection::vec(".{0,40}", 0..4)) {
            if let Ok(environments) = product(&lists) {
                prop_assert!(!environments.is_empty() && environments.len() <= MAX_ENVIRONMENTS);
            }
        }
    }
}
