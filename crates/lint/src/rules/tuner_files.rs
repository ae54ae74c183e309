//! The three variables that name a tuner's file, each of which one tuner reads and the others ignore.
//! Not the files, and not the plugin's own name (`values`).

use busbw_core::finding::{Finding, Severity};

use crate::assignment::Assignment;
use crate::document::Document;
use crate::rccl::Library;
use crate::settings::View;

/// NCCL's example tuner (NVIDIA/nccl plugins/tuner/example/plugin.c), and RCCL itself from ROCm 7.13 on
/// (src/plugin/tuner/csv_tuner.cc).
const EXAMPLE: &str = "NCCL_TUNER_CONFIG_FILE";
/// The tuner of Google's gIB and TCPXO, which fails without it
/// (llm-d.ai/docs/dev/guides/recipes/modelserver/components/disable-gke-nccl-tuner-patch).
const GOOGLE: &str = "NCCL_TUNER_CONFIG_PATH";
/// The tuner inside Meta's NCCLX, which wins over NCCL_TUNER_PLUGIN
/// (the document in meta/tuner, and src/plugin/tuner.cc, of NCCLX 2.29 and 2.30).
const META: &str = "NCCLX_TUNER_CONFIG_FILE";
/// The plugin, or `none`.
const PLUGIN: &str = "NCCL_TUNER_PLUGIN";

/// Who reads which.
const READERS: &str = "NCCL_TUNER_CONFIG_FILE is read by NCCL's example tuner and by RCCL, \
    NCCL_TUNER_CONFIG_PATH by Google's (gIB, TCPXO), NCCLX_TUNER_CONFIG_FILE by Meta's NCCLX";

/// A finding at a setting.
fn unread(at: &Assignment, severity: Severity, cause: &str, remedy: &str) -> Finding {
    let remedy = format!("{remedy}; {READERS}");
    Finding::new("tuner-file", severity, cause).remedy(remedy).place(at.place())
}

/// What the settings alone prove. A file beside `none` may be left over from a site's profile: a note.
pub(super) fn check(view: &View<'_>, document: &Document) -> Vec<Finding> {
    let plugin = view.get(PLUGIN).and_then(|setting| setting.literal());
    let mut findings = Vec::new();
    if set(view, META).is_some() {
        let cause = "NCCLX_TUNER_CONFIG_FILE is set as well: NCCLX then uses its own tuner and loads no other";
        let ignored = [PLUGIN, EXAMPLE, GOOGLE].into_iter().filter_map(|name| set(view, name));
        let ignored = ignored.filter(|at| at.name != PLUGIN || at.literal() != Some("none"));
        findings.extend(ignored.map(|at| unread(at, Severity::Warning, cause, "set one of them")));
        return findings;
    }
    // RCCL has a tuner that is no plugin.
    if plugin.is_some_and(|plugin| plugin.eq_ignore_ascii_case("none")) {
        let cause =
            "NCCL itself does not read it, and NCCL_TUNER_PLUGIN=none loads no tuner that could";
        let remedy = "remove it, or name the tuner in NCCL_TUNER_PLUGIN";
        let readers: &[&str] =
            if document.library == Library::Rccl { &[GOOGLE] } else { &[EXAMPLE, GOOGLE] };
        let files = readers.iter().filter_map(|name| set(view, name));
        findings.extend(files.map(|at| unread(at, Severity::Note, cause, remedy)));
    }
    findings
}

/// What a script leaves open: notes, for a person who knows which tuner is meant.
pub(super) fn check_script(view: &View<'_>, document: &Document) -> Vec<Finding> {
    let plugin = set(view, PLUGIN);
    let literal = plugin.and_then(|setting| setting.literal());
    let none = literal.is_some_and(|plugin| plugin.eq_ignore_ascii_case("none"));
    // A plugin whose name is not in the text may be any.
    if none || set(view, META).is_some() || (plugin.is_some() && literal.is_none()) {
        return Vec::new();
    }
    let (file, path) = (set(view, EXAMPLE), set(view, GOOGLE));
    if let (Some(file), Some(_)) = (file, path) {
        let cause = "NCCL_TUNER_CONFIG_PATH is set as well, and one tuner is loaded, which reads one of the two";
        return vec![unread(file, Severity::Note, cause, "remove the other one")];
    }
    let mut findings = Vec::new();
    let named = |words: &[&str]| {
        literal.is_some_and(|plugin| words.iter().any(|word| plugin.contains(word)))
    };
    if let Some(at) = path.filter(|_| !is_googles(view) && !named(&["gib", "tcpxo"])) {
        let cause = match literal {
            Some(plugin) => {
                format!("Google's tuner alone reads it, and NCCL_TUNER_PLUGIN names {plugin}")
            }
            None => "Google's tuner alone reads it, and nothing here names that tuner: NCCL itself does not read it"
                .to_owned(),
        };
        // libnccl-tuner.so is what Google's is called in its images, and what anyone's may be.
        if !named(&["libnccl-tuner.so"]) {
            findings.push(unread(at, Severity::Note, &cause, "check which tuner is loaded"));
        }
    }
    if let Some(at) = file.filter(|_| document.library != Library::Rccl) {
        let cause = match literal {
            Some(plugin) if named(&["gib", "tcpxo", "ofi", "busbw"]) => {
                Some(format!("NCCL_TUNER_PLUGIN names {plugin}, which does not read it"))
            }
            None => Some(
                "NCCL itself does not read it, and NCCL_TUNER_PLUGIN is not set: only a libnccl-tuner.so that the loader finds could"
                    .to_owned(),
            ),
            Some(_) => None,
        };
        let note = |cause: String| {
            unread(at, Severity::Note, &cause, "name the tuner in NCCL_TUNER_PLUGIN")
        };
        findings.extend(cause.map(note));
    }
    findings
}

/// A setting that has a value.
fn set<'d>(view: &View<'d>, name: &str) -> Option<&'d Assignment> {
    view.get(name).copied().filter(|setting| setting.value.as_deref() != Some(""))
}

/// Whether settings show Google's network, whose tuner comes with it.
fn is_googles(view: &View<'_>) -> bool {
    let net = view.get("NCCL_NET").and_then(|setting| setting.literal());
    let file = view.get(GOOGLE).and_then(|setting| setting.literal()).unwrap_or_default();
    net.is_some_and(|net| net.eq_ignore_ascii_case("gib") || net.eq_ignore_ascii_case("fastrak"))
        || ["/gib/", "tcpxo"].iter().any(|word| file.contains(word))
}

#[cfg(test)]
mod tests {
    use busbw_core::finding::{Finding, Severity};

    use crate::{Options, lint_environment, lint_text};

    fn found(text: &str) -> Vec<Finding> {
        let mut found = lint_text(text, &Options::default());
        found.retain(|finding| finding.rule == "tuner-file");
        found
    }

    fn names(text: &str) -> Vec<(String, Severity)> {
        let of = |f: &Finding| {
            let place = f.place.as_ref().map(|place| place.variable.clone());
            (place.unwrap_or_default(), f.severity)
        };
        found(text).iter().map(of).collect()
    }

    #[test]
    fn no_tuner_reads_no_file() {
        let text = "export NCCL_TUNER_PLUGIN=none NCCL_TUNER_CONFIG_PATH=/x.txtpb\n./run\n";
        let found = found(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].severity, Severity::Note);
        assert!(found[0].cause.contains("NCCL_TUNER_PLUGIN=none"), "{}", found[0]);
        assert!(found[0].remedy.as_deref().unwrap().contains("Google's (gIB, TCPXO)"));
    }

    #[test]
    fn ncclx_ignores_the_others() {
        let text = "NCCLX_TUNER_CONFIG_FILE=/a.csv NCCL_TUNER_PLUGIN=example NCCL_TUNER_CONFIG_FILE=/b.csv ./run\n";
        let warned = |name: &str| (name.to_owned(), Severity::Warning);
        let both = [warned("NCCL_TUNER_PLUGIN"), warned("NCCL_TUNER_CONFIG_FILE")];
        let mut said = names(text);
        said.sort();
        let mut wanted = both.to_vec();
        wanted.sort();
        assert_eq!(said, wanted);
        // The name of NCCLX is no slip of NCCL's.
        assert_eq!(lint_text("export NCCLX_TUNER_CONFIG_FILE=/a.csv\n", &Options::default()), []);
    }

    #[test]
    fn a_file_for_another_tuner_is_a_note() {
        for (text, name) in [
            (
                "NCCL_TUNER_PLUGIN=example NCCL_TUNER_CONFIG_PATH=/x ./run\n",
                "NCCL_TUNER_CONFIG_PATH",
            ),
            ("export NCCL_TUNER_CONFIG_PATH=/x\n./run\n", "NCCL_TUNER_CONFIG_PATH"),
            ("export NCCL_TUNER_CONFIG_FILE=/x.csv\n./run\n", "NCCL_TUNER_CONFIG_FILE"),
            (
                "NCCL_TUNER_PLUGIN=ofi NCCL_TUNER_CONFIG_FILE=/x.csv ./run\n",
                "NCCL_TUNER_CONFIG_FILE",
            ),
            (
                "NCCL_TUNER_CONFIG_PATH=/y NCCL_TUNER_CONFIG_FILE=/x ./run\n",
                "NCCL_TUNER_CONFIG_FILE",
            ),
        ] {
            assert_eq!(names(text), [(name.to_owned(), Severity::Note)], "{text}");
        }
    }

    #[test]
    fn the_recipes_of_each_owner_are_silent() {
        for text in [
            "export NCCL_NET=gIB NCCL_TUNER_CONFIG_PATH=/usr/local/gib/configs/tuner_config_a4.txtpb\n./run\n",
            "export NCCL_TUNER_PLUGIN=libnccl-tuner.so\nexport NCCL_TUNER_CONFIG_PATH=/var/lib/tcpxo/lib64/a3plus_tuner_config.textproto\n./run\n",
            "export NCCL_TUNER_PLUGIN=/x/libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=/x.csv\n./run\n",
            "export NCCL_TUNER_PLUGIN=$MINE NCCL_TUNER_CONFIG_FILE=/x.csv\n./run\n",
            "module load rocm\nexport NCCL_TUNER_CONFIG_FILE=/x.csv\n./run\n",
            "export NCCL_TUNER_PLUGIN=none\n./run\n",
        ] {
            assert_eq!(names(text), [], "{text}");
        }
        // In an environment a tuner may come from anywhere.
        let alone = [("NCCL_TUNER_CONFIG_FILE", "/etc/t.csv")];
        assert_eq!(lint_environment(alone.into_iter(), &Options::default()), []);
    }
}
