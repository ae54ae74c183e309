//! The part of the environment that belongs in a record: variables that change results, with
//! secrets masked.
//! Nothing else of the environment is ever written.

use std::collections::BTreeMap;

/// Prefixes of the variables that change results.
const KEPT_PREFIXES: [&str; 6] = ["NCCL_", "RCCL_", "UCX_", "OMPI_", "CUDA_", "BUSBW_"];

/// Parts of the names of variables with secret values.
const SECRETS: [&str; 12] = [
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "AUTH",
    "KEY",
    "CREDENTIAL",
    "COOKIE",
    "JWT",
    "MUNGE",
    // Open MPI's transport key, which every process of a job has (orte_precondition_transports).
    "PRECONDITION_TRANSPORTS",
];

/// Beginnings of the names of variables by which a launcher's daemon knows its processes. All of them: which of
/// them authenticate changes with the release (PMIX_SECURITY_*, PMIX_SERVER_URI*, PMI_FD, PMI2_*).
const LAUNCHERS: [&str; 6] = ["PMIX_", "PMI_", "PMI2_", "PRTE_", "ORTE_", "SPANK_"];

/// The same for addresses of daemons among other variables: a contact is all that it takes to join a job.
const CONTACTS: [&str; 2] = ["OMPI_MCA_ORTE_HNP_URI", "OMPI_MCA_ORTE_LOCAL_DAEMON_URI"];

/// The replacement of a masked value.
const MASK: &str = "***";

/// The variables of `all` that change results.
pub fn environment(variables: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    variables
        .filter(|(name, _)| KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, value)| {
            let value = shown(&name, &value);
            (name, value)
        })
        .collect()
}

/// A variable's value as it may be shown: masked when its name says that it is secret.
pub fn shown(name: &str, value: &str) -> String {
    if is_secret(name) { MASK.to_owned() } else { masked(value) }
}

/// A partition key of InfiniBand (NCCL_IB_PKEY, UCX_IB_PKEY) is a public number.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace("_PKEY", "");
    SECRETS.iter().any(|part| name.contains(part))
        || LAUNCHERS.iter().chain(&CONTACTS).any(|start| name.starts_with(start))
}

/// A text with passwords in addresses masked: `scheme://user:password@host`, `--token=…` words, and
/// what follows `--token`.
pub fn masked(text: &str) -> String {
    let mut follows_secret = false;
    let words = text.split(' ').map(|word| {
        let is_parameter = word == "orte_precondition_transports";
        let names_secret = (word.starts_with('-') || is_parameter)
            && !word.contains('=')
            && is_secret(&word.replace('-', "_"));
        if word.is_empty() {
            return String::new();
        }
        let is_value = std::mem::replace(&mut follows_secret, names_secret);
        if is_value && !word.starts_with('-') { MASK.to_owned() } else { masked_word(word) }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn masked_word(word: &str) -> String {
    if let Some((scheme, rest)) = word.split_once("://")
        && let Some((login, host)) = rest.split_once('@')
        && let Some((user, _)) = login.split_once(':')
        && !login.contains('/')
    {
        return format!("{scheme}://{user}:{MASK}@{host}");
    }
    match word.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => {
            format!("{name}={MASK}")
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_command_are_masked() {
        for (command, masked_one) in [
            ("run --token abc --n 2", "run --token *** --n 2"),
            ("run --api-key=abc -x HF_TOKEN=hf_1 x", "run --api-key=*** -x HF_TOKEN=*** x"),
            ("run --token --n 2", "run --token --n 2"),
            ("-x PMIX_SERVER_URI2=a;tcp4://1.2.3.4:5", "-x PMIX_SERVER_URI2=***"),
            (
                "--mca orte_precondition_transports a1-b2 --np 2",
                "--mca orte_precondition_transports *** --np 2",
            ),
            ("run  http://me:word@proxy:1", "run  http://me:***@proxy:1"),
        ] {
            assert_eq!(masked(command), masked_one);
        }
    }

    #[test]
    fn keeps_what_matters_and_masks_secrets() {
        let all = [
            ("NCCL_DEBUG", "INFO"),
            ("UCX_TLS", "rc"),
            ("UCX_IB_PKEY", "0x8001"),
            ("HOME", "/root"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("NCCL_API_TOKEN", "abc"),
            ("OMPI_MCA_orte_precondition_transports", "e5a0-11"),
            ("OMPI_MCA_orte_hnp_uri", "1;tcp://10.0.0.1:1"),
            ("BUSBW_JOB_SECRET", "abc"),
            ("PMIX_SECURITY_MODE", "munge"),
            ("OMPI_MCA_proxy", "http://me:word@proxy:1"),
        ];
        let kept = environment(all.map(|(n, v)| (n.to_owned(), v.to_owned())).into_iter());
        let want = [
            ("BUSBW_JOB_SECRET", "***"),
            ("NCCL_API_TOKEN", "***"),
            ("NCCL_DEBUG", "INFO"),
            ("OMPI_MCA_orte_hnp_uri", "***"),
            ("OMPI_MCA_orte_precondition_transports", "***"),
            ("OMPI_MCA_proxy", "http://me:***@proxy:1"),
            ("UCX_IB_PKEY", "0x8001"),
            ("UCX_TLS", "rc"),
        ];
        assert_eq!(kept, want.map(|(n, v)| (n.to_owned(), v.to_owned())).into());
        assert_eq!(masked("run --token=abc -n 2"), "run --token=*** -n 2");
    }
}
