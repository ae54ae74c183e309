//! Names that no library reads: mistyped, invented, or published by mistake.
//! Not names that older releases read (`releases`).

use std::collections::HashMap;

use busbw_core::finding::{Finding, Severity};

use super::either;
use super::rccl::own_name;
use crate::accepted::belongs_to_others;
use crate::assignment::{Assignment, Form, repaired};
use crate::document::Document;
use crate::known::tables;
use crate::nearest::{Likeness, nearest};
use crate::rccl;

/// A search goes through all names; a text with more unknown names than this is not a script.
const MAX_SEARCHES: usize = 200;

/// Caches searches: scripts repeat their mistakes.
#[derive(Debug, Default)]
pub(super) struct Names {
    searched: HashMap<String, Option<Finding>>,
}

impl Names {
    pub(super) fn check(
        &mut self,
        assignment: &Assignment,
        document: &Document,
    ) -> Option<Finding> {
        let name = assignment.name.as_str();
        if let Some(right) = repaired(name) {
            return slip(assignment, &right, document)
                .map(|finding| finding.place(assignment.place()));
        }
        let known = tables();
        if let Some(why) = known.not_read.get(name) {
            let finding = Finding::new("not-read", why.severity, why.cause).remedy(why.remedy);
            return Some(finding.place(assignment.place()));
        }
        // RCCL's names are `rccl`'s.
        if name.starts_with("RCCL_") || rccl::names().contains_key(name) {
            return None;
        }
        if known.nccl.contains_key(name) || known.ucx.contains_key(name) || belongs_to_others(name)
        {
            return None;
        }
        self.unknown(name).map(|finding| finding.place(assignment.place()))
    }

    fn unknown(&mut self, name: &str) -> Option<Finding> {
        if let Some(finding) = self.searched.get(name) {
            return finding.clone();
        }
        if self.searched.len() >= MAX_SEARCHES {
            return Some(nothing_near(name));
        }
        let finding = Some(search(name));
        self.searched.insert(name.to_owned(), finding.clone());
        finding
    }
}

/// A slip in the family name, the case, or the joints: the rest of the name is known.
fn slip(assignment: &Assignment, right: &str, document: &Document) -> Option<Finding> {
    let name = &assignment.name;
    let local = assignment.form == Form::Local && !name.contains('-');
    // Scripts keep their own settings in lower case and export them later under the right name.
    let own = local && *name == name.to_ascii_lowercase();
    let used = document.used.contains(name);
    if own && used {
        return None;
    }
    let severity = if own { Severity::Note } else { Severity::Error };
    let cause = match (name.contains('-'), name.eq_ignore_ascii_case(right)) {
        (true, _) => {
            "the names of variables are joined with underscores, and this one with hyphens"
                .to_owned()
        }
        (false, true) => {
            "the names of variables are in capitals, and a library reads no other".to_owned()
        }
        (false, false) => "no library reads this name".to_owned(),
    };
    Some(Finding::new("unknown-variable", severity, cause).remedy(format!("did you mean {right}?")))
}

fn search(name: &str) -> Finding {
    if let Some(own) = own_name(name) {
        let cause = "no NCCL release known here reads it, and RCCL by another name";
        let remedy = format!("did you mean {own}, which RCCL reads?");
        return Finding::new("unknown-variable", Severity::Warning, cause).remedy(remedy);
    }
    let family = if name.starts_with("UCX") { "UCX_" } else { "NCCL_" };
    let Some((likeness, near)) = nearest(name, tables().offers(family)) else {
        return nothing_near(name);
    };
    let (severity, cause) = match likeness {
        Likeness::Typing(_) => (Severity::Error, "the name is mistyped, so nothing reads it"),
        Likeness::Reordered => {
            (Severity::Error, "the words of the name are in another order, so nothing reads it")
        }
        Likeness::OneWord => (Severity::Warning, "nothing known here reads this name"),
    };
    let remedy = format!("did you mean {}?", either(&near));
    Finding::new("unknown-variable", severity, cause).remedy(remedy)
}

fn nothing_near(name: &str) -> Finding {
    let cause = if name.starts_with("UCX") {
        "no UCX release known here reads it"
    } else {
        "no NCCL release known here reads it"
    };
    let remedy = "remove it, or check its spelling if a plugin reads it";
    Finding::new("unknown-variable", Severity::Warning, cause).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use busbw_core::finding::{Finding, Severity};

    use crate::{Options, lint_text};

    fn only(text: &str) -> Finding {
        let mut found = lint_text(text, &Options::default());
        found.retain(|f| matches!(&*f.rule, "unknown-variable" | "not-read"));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found.remove(0)
    }

    #[test]
    fn slips_name_the_right_variable() {
        for (text, right) in [
            ("export NCLL_DEBUG=INFO", "NCCL_DEBUG"),
            ("export NCCL-IB-HCA==mlx5_0", "NCCL_IB_HCA"),
            ("export nccl_debug=INFO", "NCCL_DEBUG"),
            ("export NCCL_DEBGU=INFO", "NCCL_DEBUG"),
            ("export NCCL_SOCKET_IFNAMES=eth0", "NCCL_SOCKET_IFNAME"),
            ("export NCCL_GDR_LEVEL=SYS", "NCCL_NET_GDR_LEVEL"),
            ("export NCCL_DISABLE_IB=1", "NCCL_IB_DISABLE"),
            ("export NCCL_TESTS_SPILT=0", "NCCL_TESTS_SPLIT"),
            ("export UCX_NET_DEVICE=mlx5_0:1", "UCX_NET_DEVICES"),
        ] {
            let finding = only(text);
            assert!(finding.remedy.as_deref().unwrap().contains(right), "{text}: {finding}");
        }
    }

    #[test]
    fn imex_is_explained() {
        let finding = only("mpirun -x NCCL_IMEX_ENABLE=1 ./run");
        assert_eq!(finding.rule, "not-read");
        assert!(
            finding
                .cause
                .starts_with("no NCCL release reads it; multi-node NVLink is NCCL_MNNVL_ENABLE")
        );
    }

    #[test]
    fn the_name_that_the_log_prints_is_explained() {
        assert!(
            only("export NCCL_MAX_P2P_PEERS=4")
                .remedy
                .as_deref()
                .unwrap()
                .contains("NCCL_P2P_MAX_PEERS")
        );
    }

    #[test]
    fn nothing_near_says_so() {
        let finding = only("export NCCL_WARP_DRIVE=9");
        assert_eq!(finding.cause, "no NCCL release known here reads it");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(only("export UCX_WARP_DRIVE=9").cause.contains("UCX"));
    }

    #[test]
    fn a_script_may_have_lower_case_variables_of_its_own() {
        let text = "nccl_debug=INFO\nexport NCCL_DEBUG=$nccl_debug\n";
        assert_eq!(lint_text(text, &Options::default()), []);
    }

    #[test]
    fn names_of_others_are_silent() {
        let text = "export RCCL_X=1 NCCL_OFI_X=1 NCCL_VERSION=2.1 UCC_TLS=nccl NCCL_HOME=/usr\n";
        assert_eq!(lint_text(text, &Options::default()), []);
    }
}
