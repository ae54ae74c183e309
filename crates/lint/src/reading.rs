//! From a text to a document: which kind of text it is, and what its lines set.
//! Not shell words (`commands`), and nothing is judged.

use super::assignment::{self, Form};
use super::commands::Reader;
use super::document::{Document, reaching};
use super::rccl::Library;
use super::yaml::{self, EntryForm};

/// Bounds the search for uses of local variables.
const MAX_LOCAL: usize = 200;

impl Document {
    /// Reads a text of any of the supported kinds.
    pub(crate) fn from_text(text: &str) -> Self {
        if is_environment_dump(text) {
            return Self::from_dump(text);
        }
        let is_yaml = yaml::looks_like_yaml(text);
        let mut document = Document { opaque: is_yaml, ..Document::default() };
        Reader::new(&mut document).read(text);
        document.scheduled = is_job(text);
        document.library = Library::of(text);
        let named =
            |name: &str| text.contains(&format!("${name}")) || text.contains(&format!("${{{name}"));
        let local = document
            .assignments
            .iter()
            .filter(|setting| setting.form == Form::Local)
            .take(MAX_LOCAL);
        let used: Vec<String> =
            local.map(|setting| setting.name.clone()).filter(|name| named(name)).collect();
        document.used.extend(used);
        document.add_yaml(text);
        if is_yaml {
            // Prose in a description may be typeset as it likes.
            document.strange.retain(|found| assignment::split(&found.word).is_some());
        }
        document.assignments.sort_by_key(|a| a.line);
        document
    }

    fn from_dump(text: &str) -> Self {
        let mut document = Document { library: Library::of(text), ..Document::default() };
        for (line, text) in numbered(text) {
            let Some((name, value)) = assignment::split(text) else {
                continue;
            };
            if assignment::is_ours(name) {
                document.assignments.push(reaching(Some(line), name, value));
            }
        }
        document
    }

    fn add_yaml(&mut self, text: &str) {
        for entry in yaml::entries(text) {
            // A lower-case key is a template's own name, not a slip.
            let has_lower = entry.name.bytes().any(|b| b.is_ascii_lowercase());
            if entry.form == EntryForm::Map && has_lower {
                continue;
            }
            if entry.form == EntryForm::List && assignment::is_name(entry.name) {
                self.set.insert(entry.name.to_owned());
            }
            if !assignment::is_name(entry.name) || !assignment::is_ours(entry.name) {
                continue;
            }
            let value = entry.value.unwrap_or("");
            let mut assignment = reaching(Some(entry.line), entry.name, value);
            assignment.expands =
                value.contains("$(") || value.contains("${") || value.contains("{{");
            assignment.value = entry.value.map(str::to_owned);
            self.assignments.push(assignment);
        }
    }
}

/// Whether a scheduler reads directives of this text: Slurm, PBS, LSF, Grid Engine.
fn is_job(text: &str) -> bool {
    let directives = ["#SBATCH", "#PBS", "#BSUB", "#$ "];
    text.lines().any(|line| directives.iter().any(|directive| line.starts_with(directive)))
}

fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let number = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    text.lines().enumerate().map(move |(index, line)| (number(index), line))
}

/// The output of `env`: nearly all lines are NAME=value, and one is a login variable as only an
/// environment has it. There, quotes and blanks belong to the value.
fn is_environment_dump(text: &str) -> bool {
    let (mut settings, mut others, mut login) = (0_usize, 0_usize, false);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once('=') else {
            others += 1;
            continue;
        };
        if !assignment::is_name(name) {
            others += 1;
            continue;
        }
        settings += 1;
        let is_login = matches!(name, "PATH" | "HOME" | "PWD");
        login |= is_login && value.starts_with('/') && !value.contains('$');
    }
    login && settings >= 3 && others * 10 <= settings
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "HOME=/root\nPATH=/bin\nNCCL_DEBUG=INFO \nNCCL_IB_HCA=\"mlx5_0\"\n";

    #[test]
    fn a_dump_keeps_quotes_and_blanks() {
        let document = Document::from_text(DUMP);
        let values: Vec<_> = document.assignments.iter().map(|a| a.value.as_deref()).collect();
        assert_eq!(values, [Some("INFO "), Some("\"mlx5_0\"")]);
    }

    #[test]
    fn a_script_is_not_a_dump() {
        assert!(!is_environment_dump("export PATH=/bin\nA=1\nB=2\n"));
        assert!(!is_environment_dump("A=1\nB=2\nPATH=$PATH:/x\n"));
        assert!(!is_environment_dump("PATH=/bin\nA=1\nB=2\nmpirun ./x\n"));
    }

    #[test]
    fn yaml_and_shell_are_read_together() {
        let text =
            "kind: Job\n- name: NCCL_DEBUG\n  value: INFO\n- NCCL_ALGO=Ring\nNCCL_PROTO: LL\n";
        let document = Document::from_text(text);
        let names: Vec<_> = document.assignments.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["NCCL_DEBUG", "NCCL_ALGO", "NCCL_PROTO"]);
    }

    #[test]
    fn templates_are_not_judged() {
        let document = Document::from_text("  NCCL_DEBUG: \"{{ .Values.level }}\"\n");
        assert_eq!(document.assignments[0].literal(), None);
    }
}
