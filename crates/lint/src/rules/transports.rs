//! Words in UCX_TLS that name no transport of UCX.
//! Not whether this machine has the transport: `busbw doctor` looks.

use busbw_core::finding::{Finding, Severity};

use super::either;
use crate::{assignment::Assignment, nearest::distance};

/// Transports (UCT_TL_DEFINE in src/uct) and their groups (ucp_tl_aliases, src/ucp/core/ucp_context.c:764) of openucx/ucx
/// at 9466d104a317 (1.22), and the connection managers of releases up to 1.9.
const TRANSPORTS: [&str; 50] = [
    "all",
    "cma",
    "cm",
    "cuda",
    "cuda_copy",
    "cuda_ipc",
    "dc",
    "dc_mlx5",
    "dc_x",
    "gaudi",
    "gaudi_gdr",
    "gdr_copy",
    "gga",
    "gga_mlx5",
    "ib",
    "knem",
    "mm",
    "posix",
    "rc",
    "rc_gda",
    "rc_mlx5",
    "rc_v",
    "rc_verbs",
    "rc_x",
    "rdmacm",
    "rocm",
    "rocm_copy",
    "rocm_gdr",
    "rocm_ipc",
    "self",
    "shm",
    "sm",
    "sockcm",
    "srd",
    "sysv",
    "tcp",
    "tcp_sockcm",
    "ud",
    "ud_mlx5",
    "ud_v",
    "ud_verbs",
    "ud_x",
    "ugni",
    "ugni_rdma",
    "ugni_smsg",
    "ugni_udt",
    "xpmem",
    "ze",
    "ze_copy",
    "ze_ipc",
];

/// Words that are reported of one list.
const MAX_WORDS: usize = 8;

pub(super) fn check(assignment: &Assignment) -> Vec<Finding> {
    let Some(value) = assignment.literal().filter(|_| assignment.name == "UCX_TLS") else {
        return Vec::new();
    };
    let (excludes, list) = match value.strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, value),
    };
    let unknown = list.split(',').map(name).filter(|name| !is_known(name));
    let said = unknown.take(MAX_WORDS).filter_map(|word| {
        let effect = if excludes { "excludes nothing by it" } else { "goes on without it" };
        let cause = format!("UCX has no transport '{word}', and {effect}");
        let remedy = match nearest(word).as_slice() {
            // `^openib`, a transport of Open MPI, is in many scripts and does no harm.
            [] if excludes => return None,
            [] => "`ucx_info -d` lists the transports of a machine".to_owned(),
            near => format!("did you mean {}?", either(near)),
        };
        let finding = Finding::new("ucx-transport", Severity::Warning, cause).remedy(remedy);
        Some(finding.place(assignment.place()))
    });
    said.collect()
}

/// The names that begin with the word, or else those with the fewest slips between.
fn nearest(word: &str) -> Vec<&'static str> {
    let begun: Vec<&str> =
        TRANSPORTS.into_iter().filter(|name| word.len() > 1 && name.starts_with(word)).collect();
    if !begun.is_empty() {
        return begun;
    }
    let slips = |name: &&str| distance(word, name, if word.len() > 3 { 2 } else { 1 });
    let least = TRANSPORTS.iter().filter_map(slips).min();
    TRANSPORTS.into_iter().filter(|name| least.is_some() && slips(name) == least).collect()
}

/// `\rc` is rc itself and no group; `ud:aux` is ud for bootstrap alone.
fn name(word: &str) -> &str {
    let word = word.trim();
    let word = word.strip_prefix('\\').unwrap_or(word);
    word.strip_suffix(":aux").unwrap_or(word)
}

fn is_known(name: &str) -> bool {
    name.is_empty() || name.contains(['*', '?', '[']) || TRANSPORTS.contains(&name)
}

#[cfg(test)]
mod tests {
    use crate::{Options, lint_text};

    fn found(value: &str) -> Vec<String> {
        let mut found = lint_text(&format!("export UCX_TLS={value}\n"), &Options::default());
        found.retain(|finding| finding.rule == "ucx-transport");
        found.iter().map(|f| format!("{} {}", f.cause, f.remedy.as_deref().unwrap())).collect()
    }

    #[test]
    fn transports_and_groups_are_known() {
        for value in [
            "rc,sm,self,cuda_copy,cuda_ipc,gdr_copy",
            "^tcp",
            "all",
            "rc_x,ud_x:aux",
            "tcp,",
            "$TLS",
        ] {
            assert_eq!(found(value), [""; 0], "{value}");
        }
    }

    #[test]
    fn others_are_named_with_the_nearest() {
        let [one] = &found("rc_x,sm,cuda_cpy")[..] else { panic!() };
        assert_eq!(
            one,
            "UCX has no transport 'cuda_cpy', and goes on without it did you mean cuda_copy?"
        );
        let [one] = &found("^tpc,rc")[..] else { panic!() };
        assert!(one.contains("excludes nothing") && one.ends_with("did you mean tcp?"), "{one}");
        assert_eq!(found("rc,cuda_cpy,gdr").len(), 2);
        assert!(found("gdr")[0].ends_with("did you mean gdr_copy?"));
        assert!(found("openib")[0].contains("ucx_info -d"));
        assert_eq!(found("^openib"), [""; 0]);
    }
}
