//! What to set, as people set it: shell, nccl.conf, Kubernetes, Slurm.
//! Not what is recommended (`busbw_tune`).

use std::fmt::Write;

use busbw_tune::Assignment;

/// The end of the path of busbw's net plugin, which is each host's own.
const OUR_PLUGIN: &str = "/libnccl-net-busbw.so";

/// The blocks, each under a line that names it.
pub(super) fn blocks(sets: &[Assignment]) -> String {
    let (options, sets): (Vec<_>, Vec<_>) = sets.iter().partition(|one| one.is_option());
    let mut text = String::new();
    for one in options {
        let value = one.value.as_deref().unwrap_or_default();
        let _ = writeln!(text, "# an option of busbw's command\n{} {}", one.name, quoted(value));
    }
    if sets.is_empty() {
        return text;
    }
    text.push_str("# shell\n");
    for one in &sets {
        let _ = match &one.value {
            Some(value) if value.ends_with(OUR_PLUGIN) => {
                writeln!(text, "export {}=$(busbw plugin path net)", one.name)
            }
            Some(value) => writeln!(text, "export {}={}", one.name, quoted(value)),
            None => writeln!(text, "unset {}", one.name),
        };
    }
    let set: Vec<(&str, &str)> =
        sets.iter().filter_map(|one| Some((one.name.as_str(), one.value.as_deref()?))).collect();
    if set.is_empty() {
        return text;
    }
    if set.iter().any(|(_, value)| value.ends_with(OUR_PLUGIN)) {
        text.push_str(
            "# below, the path of the net plugin is this host's: busbw plugin path net\n",
        );
    }
    let removed: Vec<&str> =
        sets.iter().filter(|one| one.value.is_none()).map(|one| one.name.as_str()).collect();
    if !removed.is_empty() {
        let _ = writeln!(text, "# below, nothing may set {}", removed.join(", "));
    }
    // NCCL reads its own variables alone from its file, and nothing there can remove one.
    let nccls: Vec<_> = set.iter().filter(|(name, _)| name.starts_with("NCCL_")).collect();
    if !nccls.is_empty() {
        text.push_str("# /etc/nccl.conf or ~/.nccl.conf, on every host\n");
        for (name, value) in nccls {
            let _ = writeln!(text, "{name}={value}");
        }
    }
    text.push_str("# Kubernetes, in the container\nenv:\n");
    for (name, value) in &set {
        let value = serde_json::Value::from(*value);
        let _ = writeln!(text, "- name: {name}\n  value: {value}");
    }
    let exports: Vec<String> = set.iter().map(|(name, value)| format!("{name}={value}")).collect();
    // srun splits --export at commas, and nothing escapes one.
    match set.iter().any(|(_, value)| value.contains(',')) {
        true => text.push_str("# Slurm: the lines for the shell, in the batch script\n"),
        false => {
            let _ = writeln!(text, "# Slurm\nsrun --export=ALL,{} ...", exports.join(","));
        }
    }
    text
}

/// A value as a shell takes it.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,=^%+@".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: Option<&str>) -> Assignment {
        Assignment { name: name.to_owned(), value: value.map(str::to_owned) }
    }

    #[test]
    fn each_form_sets_the_same() {
        let sets = [
            one("NCCL_BUFFSIZE", Some("8388608")),
            one("BUSBW_NET_THREADS", Some("4")),
            one("NCCL_ALGO", None),
        ];
        insta::assert_snapshot!(blocks(&sets), @r#"
        # shell
        export NCCL_BUFFSIZE=8388608
        export BUSBW_NET_THREADS=4
        unset NCCL_ALGO
        # below, nothing may set NCCL_ALGO
        # /etc/nccl.conf or ~/.nccl.conf, on every host
        NCCL_BUFFSIZE=8388608
        # Kubernetes, in the container
        env:
        - name: NCCL_BUFFSIZE
          value: "8388608"
        - name: BUSBW_NET_THREADS
          value: "4"
        # Slurm
        srun --export=ALL,NCCL_BUFFSIZE=8388608,BUSBW_NET_THREADS=4 ...
        "#);
    }

    #[test]
    fn an_option_is_none_of_the_variables() {
        insta::assert_snapshot!(blocks(&[one("--net", Some("busbw"))]), @r"
        # an option of busbw's command
        --net busbw
        ");
    }

    #[test]
    fn odd_values_are_quoted() {
        let text = blocks(&[one("NCCL_IB_HCA", Some("mlx5_0,it's"))]);
        assert!(text.contains(r"export NCCL_IB_HCA='mlx5_0,it'\''s'"), "{text}");
        assert!(!text.contains("srun --export"), "{text}");
    }
}
