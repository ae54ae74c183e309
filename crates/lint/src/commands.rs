//! Reads shell commands: which settings they make, which variables they use, which tests they run.
//! It does not run or judge them.

use super::assignment::{self, Assignment, Form, is_name, is_ours};
use super::document::{Document, Export, TypographicWord, VariableUse};
use super::expansion::{self, Fallback};
use super::launches::{exported, exports_all, launch};
use super::perf;
use super::tokens::{Position, Quoted, Tokens, Word};
use super::vocabulary::{
    base_name, core, export_list, head_index, holds_on, is_exported_name, is_interesting, is_talk,
    launches,
};

/// Maximum depth of quotes within quotes.
const MAX_NESTING: u8 = 3;

/// Fills a document from commands.
#[derive(Debug)]
pub(crate) struct Reader<'d> {
    document: &'d mut Document,
    commands: u32,
}

/// How a quoted text is nested in the text around it.
#[derive(Debug, Clone, Copy)]
struct Nesting {
    depth: u8,
    /// Its `$X` were counted already, or belong to another shell.
    skip_uses: bool,
}

impl<'d> Reader<'d> {
    pub(crate) fn new(document: &'d mut Document) -> Self {
        Reader { document, commands: 0 }
    }

    /// Reads a whole text.
    pub(crate) fn read(&mut self, text: &str) {
        let start = Position { line: 1, column: 1 };
        self.read_part(text, start, Nesting { depth: 0, skip_uses: false });
    }

    fn read_part(&mut self, text: &str, place: Position, nesting: Nesting) {
        let mut tokens = Tokens::new(text, place);
        let mut words = Vec::new();
        while tokens.command(&mut words) {
            self.commands = self.commands.saturating_add(1);
            self.command(&words, nesting);
        }
    }

    fn command(&mut self, words: &[Word<'_>], nesting: Nesting) {
        let head_at = head_index(words);
        let head = head_at.map_or("", |at| base_name(&words[at].text));
        if is_talk(head) {
            // `echo "export NCCL_DEBUG=INFO" >> .bashrc` is a setting all the same.
            if words.iter().any(|word| word.raw.starts_with('>')) {
                self.read_quoted(words, nesting, false);
            }
            return;
        }
        self.note_strange(words);
        self.note_set(words, head_at, head);
        let run_at = words.iter().position(|word| perf::program(&word.text).is_some());
        let launches = launches(words);
        let counts_uses = !nesting.skip_uses;
        if counts_uses && (launches || run_at.is_some()) {
            words.iter().for_each(|word| self.note_uses(word));
        }
        let holds_on = head_at.is_none() || holds_on(head);
        let form = if head_at.is_none() { Form::Local } else { Form::Reaching };
        let command = (!holds_on).then_some(self.commands);
        let mut setting =
            Setting { form, command, counts_uses: counts_uses && !launches && run_at.is_none() };
        if launches {
            setting.form = Form::Reaching;
        }
        if launches && counts_uses {
            self.document.launches.extend(launch(words, self.commands));
        }
        let ends = run_at.unwrap_or(words.len());
        self.settings(&words[..ends], head, setting, launches);
        if let Some(at) = run_at {
            self.note_run(&words[at..]);
        }
        self.read_quoted(words, nesting, launches || run_at.is_some());
    }

    fn settings(&mut self, words: &[Word<'_>], head: &str, setting: Setting, launches: bool) {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let text = core(word);
            let next = words.get(at).map(|word| core(word));
            if let Some(list) = export_list(text) {
                self.export_list(word.line, list, setting, launches);
                continue;
            }
            if launches && text == "-x" {
                if let Some(name) = next.filter(|name| is_name(name) && !name.starts_with('-')) {
                    self.document.exports.push(Export { line: word.line, name: name.to_owned() });
                }
                continue;
            }
            if matches!(text, "-genv" | "-env" | "setenv") || (head == "ENV" && text == "ENV") {
                let value = words.get(at + 1);
                if let (Some(name), Some(value)) = (next.filter(|name| is_name(name)), value) {
                    self.note_setting(word.line, name, &value.text, value, setting);
                }
                continue;
            }
            // `"NCCL_DEBUG=INFO ./run"` in quotes is a command line, not one setting.
            if word.raw.starts_with(['"', '\'']) && text.contains(char::is_whitespace) {
                continue;
            }
            if let Some((name, value)) = assignment::split(text) {
                self.note_setting(word.line, name, value, word, setting);
            }
        }
    }

    /// `--export=ALL,NCCL_DEBUG=INFO,FOO` of srun, `--env A=1,B=2` of container tools.
    fn export_list(&mut self, line: u32, list: &str, setting: Setting, launches: bool) {
        for part in list.split(',') {
            if let Some((name, value)) = assignment::split(part) {
                self.document.set.insert(name.to_owned());
                self.push(line, name, value, value.contains('$'), setting);
            } else if launches && is_exported_name(part) {
                let name = part.to_owned();
                self.document.exports.push(Export { line, name });
            }
        }
    }

    fn note_setting(
        &mut self,
        line: u32,
        name: &str,
        value: &str,
        word: &Word<'_>,
        setting: Setting,
    ) {
        self.document.set.insert(name.to_owned());
        if !is_ours(name) {
            return;
        }
        if setting.counts_uses {
            self.note_uses(word);
        }
        let expands = word.raw.contains('$') || word.raw.contains('`');
        self.push(line, name, value, expands, setting);
    }

    fn push(&mut self, line: u32, name: &str, value: &str, expands: bool, setting: Setting) {
        if !is_ours(name) {
            return;
        }
        self.document.assignments.push(Assignment {
            line: Some(line),
            name: name.to_owned(),
            value: Some(value.to_owned()),
            expands,
            form: setting.form,
            command: setting.command,
        });
    }

    fn note_uses(&mut self, word: &Word<'_>) {
        for used in expansion::uses(word.raw) {
            match used.fallback {
                Fallback::None => {
                    let name = used.name.to_owned();
                    self.document.used.insert(name.clone());
                    self.document.uses.push(VariableUse { line: word.line, name });
                }
                Fallback::Sets => {
                    self.document.set.insert(used.name.to_owned());
                }
                Fallback::Given => {}
            }
        }
    }

    fn note_strange(&mut self, words: &[Word<'_>]) {
        for word in words {
            if let Some(strange) = word.strange {
                let word = word.raw.chars().take(60).collect();
                self.document.strange.push(TypographicWord { word, strange });
            }
        }
    }

    /// Names that the command itself gives a value: `for`, `read`, `export`, ...
    fn note_set(&mut self, words: &[Word<'_>], head_at: Option<usize>, head: &str) {
        let rest = head_at.map_or(&[][..], |at| &words[at + 1..]);
        self.document.exported.extend(exported(head, rest));
        self.document.opaque |= exports_all(head, rest);
        let mut set = |name: &str| {
            if let Some(name) = expansion::leading_name(name) {
                self.document.set.insert(name.to_owned());
            }
        };
        match head {
            "for" | "select" | "foreach" | "set" | "setenv" | "ENV" | "ARG" => {
                rest.iter().take(1).for_each(|word| set(&word.text));
            }
            "read" | "mapfile" | "readarray" | "getopts" | "export" | "declare" | "typeset"
            | "local" | "readonly" | "printf" => rest.iter().for_each(|word| set(&word.text)),
            "source" | "." | "eval" | "module" | "ml" | "spack" => self.document.opaque = true,
            _ => {
                // `: ${A:=1}` sets A whatever the command.
                let texts = words.iter().filter(|word| word.raw.contains('='));
                for used in texts.flat_map(|word| expansion::uses(word.raw)) {
                    if used.fallback == Fallback::Sets {
                        set(used.name);
                    }
                }
            }
        }
    }

    fn note_run(&mut self, words: &[Word<'_>]) {
        let Some((first, rest)) = words.split_first() else {
            return;
        };
        let Some(program) = perf::program(&first.text) else {
            return;
        };
        let rest = rest.iter().map(|word| word.text.as_ref());
        self.document.runs.push(perf::parse(first.line, program, rest));
    }

    /// Reads what stands in quotes, where it holds a command line of interest.
    fn read_quoted(&mut self, words: &[Word<'_>], nesting: Nesting, uses_counted: bool) {
        if nesting.depth >= MAX_NESTING {
            return;
        }
        for word in words {
            let Some(Quoted { inside, place }) = word.quoted else {
                continue;
            };
            if !inside.contains(char::is_whitespace) || !is_interesting(inside) {
                continue;
            }
            let starts_quoted = word.raw.starts_with(['"', '\'', '[']);
            if !starts_quoted
                && assignment::split(&word.text).is_some_and(|(name, _)| is_ours(name))
            {
                continue;
            }
            let skip_uses = nesting.skip_uses || uses_counted || word.raw.ends_with('\'');
            self.read_part(inside, place, Nesting { depth: nesting.depth + 1, skip_uses });
        }
    }
}

/// The scope of the settings of one command.
#[derive(Debug, Clone, Copy)]
struct Setting {
    form: Form,
    command: Option<u32>,
    counts_uses: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Document {
        let mut document = Document::default();
        Reader::new(&mut document).read(text);
        document
    }

    fn pairs(text: &str) -> Vec<String> {
        let all = read(text).assignments;
        all.into_iter().map(|a| format!("{}={}", a.name, a.value.unwrap_or_default())).collect()
    }

    #[test]
    fn every_way_to_set_is_read() {
        for text in [
            "NCCL_ALGO=Ring",
            "export NCCL_ALGO=Ring",
            "NCCL_ALGO=Ring ./run",
            "mpirun -np 8 -x NCCL_ALGO=Ring ./run",
            "srun --export=ALL,NCCL_ALGO=Ring ./run",
            "mpiexec -genv NCCL_ALGO Ring ./run",
            "setenv NCCL_ALGO Ring",
            "ENV NCCL_ALGO Ring",
            "ENV A=1 NCCL_ALGO=Ring",
            "docker run -e NCCL_ALGO=Ring image",
            "- \"NCCL_ALGO=Ring\"",
            "bash -c \"NCCL_ALGO=Ring ./run\"",
            "command: [\"sh\", \"-c\", \"NCCL_ALGO=Ring ./run\"]",
            "ARGS=\"-x NCCL_ALGO=Ring --bind-to numa\"",
            "echo 'export NCCL_ALGO=Ring' >> ~/.bashrc",
            "#SBATCH --export=NCCL_ALGO=Ring",
        ] {
            assert_eq!(pairs(text), ["NCCL_ALGO=Ring"], "{text}");
        }
    }

    #[test]
    fn talk_and_comments_set_nothing() {
        assert!(pairs("echo NCCL_ALGO=$X\n# NCCL_ALGO=Ring\ngrep NCCL_ALGO=1 log").is_empty());
    }

    #[test]
    fn options_of_a_test_are_not_exports() {
        let document = read("mpirun -x NCCL_DEBUG all_reduce_perf -x 1 -n 5");
        assert_eq!(document.exports.len(), 1);
        assert_eq!(document.runs[0].number('n'), Some(5));
    }

    #[test]
    fn a_prefix_holds_for_its_command_only() {
        let document = read("export NCCL_ALGO=Ring\nNCCL_PROTO=LL ./run\n");
        assert_eq!(document.assignments[0].command, None);
        assert_eq!(document.assignments[1].command, Some(2));
    }

    #[test]
    fn names_are_set_by_loops_and_reads() {
        let set = read("for h in a b; do read -r x y; done\nexport A\nB=1\n: ${C:=2}").set;
        for name in ["h", "x", "y", "A", "B", "C"] {
            assert!(set.contains(name), "{name}");
        }
    }

    #[test]
    fn uses_count_on_launch_lines_and_in_our_values_only() {
        let uses = read("cd $A\nmpirun -np $NP x\nexport NCCL_IB_HCA=$HCA\nssh h 'mpirun $Z'").uses;
        let names: Vec<_> = uses.iter().map(|used| used.name.as_str()).collect();
        assert_eq!(names, ["NP", "HCA"]);
    }
}
