//! The list of rules, in order. Each rule is a file and independent of the others.
//! Their input is parsed before, in `document`.

mod devices;
mod exports;
mod handed_on;
mod names;
mod net_plugin;
mod not_exported;
mod own_tuner;
mod pairs;
mod prefixes;
mod rccl;
mod releases;
mod sockets;
mod stray;
mod test_options;
mod transports;
mod tuner_files;
mod typography;
mod unset;
mod values;

use busbw_core::finding::Finding;

use super::Options;
use super::document::Document;
use super::settings::views;

/// The rules that apply to a process environment.
pub(super) fn check_settings(document: &Document, options: &Options) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names = names::Names::default();
    for assignment in &document.assignments {
        findings.extend(names.check(assignment, document));
        findings.extend(rccl::misspelt(assignment));
        findings.extend(releases::check(assignment, options.nccl_version));
        findings.extend(typography::check_value(assignment, document));
        let stray = stray::check(assignment);
        // A stray quote spoils the value for the rules below; one finding is enough.
        if stray.is_some() {
            findings.extend(stray);
            continue;
        }
        findings.extend(values::check(assignment));
        findings.extend(prefixes::check(assignment));
        findings.extend(transports::check(assignment));
    }
    for view in views(document) {
        findings.extend(pairs::check(&view));
        findings.extend(devices::check(&view));
        findings.extend(tuner_files::check(&view, document));
        findings.extend(own_tuner::check(&view));
        findings.extend(net_plugin::check(&view, options.nccl_version));
    }
    findings
}

/// All rules: those above, and those that need a script.
pub(super) fn check_document(document: &Document, options: &Options) -> Vec<Finding> {
    let mut findings = check_settings(document, options);
    findings.extend(document.assignments.iter().filter_map(|a| rccl::check(a, document)));
    findings.extend(typography::check_words(document));
    findings.extend(unset::check(document));
    findings.extend(exports::check(document));
    findings.extend(not_exported::check(document));
    findings.extend(handed_on::check(document));
    findings.extend(test_options::check(document));
    for view in views(document) {
        findings.extend(sockets::check(&view));
        findings.extend(tuner_files::check_script(&view, document));
    }
    findings
}

/// "A", "A or B", "A, B or C".
fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint_text;

    #[test]
    fn choices_read_as_english() {
        assert_eq!(either(&["A"]), "A");
        assert_eq!(either(&["A", "B", "C"]), "A, B or C");
    }

    #[test]
    fn a_stray_quote_is_reported_once() {
        let found = lint_text("export NCCL_IB_TC=\"'106'\"\n", &Options::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].rule, "stray-characters");
    }
}
