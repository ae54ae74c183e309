//! The token bucket (tbf) at the root of an interface's queueing discipline, as `tc` shows it: it limits what leaves.
//! Not classes (htb, hfsc): what a job's packets would get of them depends on filters.

use std::process::{Command, Stdio};

use serde::Deserialize;

/// The rate of an interface's token bucket, bytes/s; none where there is none, or no `tc`.
pub fn shaped_rate(interface: &str) -> Option<u64> {
    let mut command = Command::new("tc");
    command.args(["-j", "qdisc", "show", "dev", interface, "root"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    rate_of(&output.stdout)
}

/// One discipline of `tc -j qdisc show` (iproute2, tc/tc_qdisc.c, print_qdisc; tc/q_tbf.c, tbf_print_opt).
#[derive(Deserialize)]
struct Discipline {
    kind: String,
    #[serde(default)]
    options: serde_json::Value,
}

fn rate_of(json: &[u8]) -> Option<u64> {
    let all: Vec<Discipline> = serde_json::from_slice(json).ok()?;
    all.iter().find(|one| one.kind == "tbf")?.options.get("rate")?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_prints() {
        let bucket = br#"[{"kind":"tbf","handle":"8012:","root":true,"refcnt":3,"options":{"rate":125000000,"burst":131000,"lat":8000}}]"#;
        assert_eq!(rate_of(bucket), Some(125_000_000));
        let none = br#"[{"kind":"noqueue","handle":"0:","root":true,"refcnt":2,"options":{}}]"#;
        assert_eq!(rate_of(none), None);
        assert_eq!(rate_of(b""), None);
        assert_eq!(rate_of(b"Cannot find device"), None);
    }
}
