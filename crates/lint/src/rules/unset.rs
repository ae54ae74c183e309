//! Shell variables that a script uses on a launch line or in a setting, but never sets.
//! Not variables passed on by name only (`exports`).

use std::collections::HashSet;

use busbw_core::finding::{Finding, Place, Severity};

use super::either;
use crate::document::Document;
use crate::environment::is_set_elsewhere;
use crate::nearest::{Likeness, nearest};

/// Bounds the search in a text that is not a script after all.
const MAX_SEARCHES: usize = 50;
const MAX_NAMES: usize = 2000;

pub(super) fn check(document: &Document) -> Vec<Finding> {
    let mut searched = 0;
    // Sorted before it is cut, or a long script would get another answer every time.
    let mut set: Vec<&str> = document.set.iter().map(String::as_str).collect();
    set.sort_unstable();
    set.truncate(MAX_NAMES);
    let mut told = HashSet::new();
    let mut findings = Vec::new();
    for used in &document.uses {
        let name = used.name.as_str();
        if document.set.contains(name) || is_set_elsewhere(name) || !told.insert((used.line, name))
        {
            continue;
        }
        searched += 1;
        let near = if searched <= MAX_SEARCHES { near_name(name, &set) } else { None };
        // Where others may set variables, only a slip of the pen is worth a word.
        if near.is_none() && document.opaque {
            continue;
        }
        let cause = "it is used here but never set in this script, so it becomes nothing";
        let remedy = near.unwrap_or_else(|| format!("set {name}, or write ${{{name}:-default}}"));
        let finding = Finding::new("unset-variable", Severity::Warning, cause).remedy(remedy);
        findings.push(finding.place(Place::at(Some(used.line), format!("${name}"))));
    }
    findings
}

fn near_name(name: &str, names: &[&str]) -> Option<String> {
    if let Some(other_case) = names.iter().find(|other| other.eq_ignore_ascii_case(name)) {
        return Some(format!("did you mean ${other_case}?"));
    }
    // Two slips in a name of three letters make any other name of three letters.
    let allowed = u8::try_from(name.len() / 3).unwrap_or(2).min(2);
    match nearest(name, names.iter().copied())? {
        (Likeness::Typing(slips), near) if slips <= allowed => {
            let near: Vec<String> = near.iter().map(|name| format!("${name}")).collect();
            let near: Vec<&str> = near.iter().map(String::as_str).collect();
            Some(format!("did you mean {}?", either(&near)))
        }
        (Likeness::Reordered, near) => Some(format!("did you mean ${}?", near.join(" or $"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, lint_text};

    fn found(text: &str) -> Vec<Finding> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|f| f.rule == "unset-variable");
        found
    }

    #[test]
    fn a_misspelt_variable_is_named_with_its_line() {
        let found = found("NODES=4\nHOSTFILE=hosts\nmpirun -np $NODES --hostfile $HOSTFLE ./run\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].line(), found[0].variable()), (Some(3), Some("$HOSTFLE")));
        assert_eq!(found[0].remedy.as_deref(), Some("did you mean $HOSTFILE?"));
    }

    #[test]
    fn a_setting_of_ours_counts_too() {
        let found = found("export NCCL_IB_HCA=${HCAS}\n");
        assert_eq!(found[0].variable(), Some("$HCAS"));
        assert!(found[0].remedy.as_deref().unwrap().contains("${HCAS:-default}"));
    }

    #[test]
    fn what_is_set_or_comes_with_the_shell_is_silent() {
        for text in [
            "mpirun -np $SLURM_NTASKS -wd $PWD $HOME/x $1 \"$@\" ${N:-8}",
            "for n in 1 2; do mpirun -np $n ./x; done",
            "read -r n < f\nmpirun -np $n ./x",
            "n=$(nproc)\nmpirun -np $n ./x",
            "echo $FOO; ls $BAR",
            "mpirun -np 8 bash -c 'echo $OTHER'",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_script_of_thousands_of_names_gets_the_same_answer_every_time() {
        let mut text: String = (0..2 * MAX_NAMES).map(|i| format!("N{i}=1\n")).collect();
        text.push_str("ZEBRAS=1\nHOSTFILE=h\nmpirun -np $ZEBRSA --hostfile $HOSTFLE ./x\n");
        let first = found(&text);
        assert!((0..8).all(|_| found(&text) == first));
        assert_eq!(first[0].remedy.as_deref(), Some("did you mean $HOSTFILE?"));
    }

    #[test]
    fn a_script_that_sources_others_is_told_slips_only() {
        assert_eq!(found(". ./env.sh\nmpirun -np $RANKS ./x"), []);
        let found = found(". ./env.sh\nRANKS=8\nmpirun -np $RNAKS ./x");
        assert_eq!(found[0].remedy.as_deref(), Some("did you mean $RANKS?"));
    }
}
