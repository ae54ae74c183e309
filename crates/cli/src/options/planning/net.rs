//! Which net plugin is asked for.
//! Not loading it: only ranks do.

use busbw_core::plan::{BackendChoice, MovedBy};

use super::BenchArguments;
use crate::options::BadOption;
use busbw_runner::backend::net::{OWN_PLUGIN, Wanted};

/// The plugin, where there is one: always on a backend of net plugins, on NCCL's where it is named.
pub(super) fn wanted(
    a: &BenchArguments,
    backend: &BackendChoice,
) -> Result<Option<Wanted>, BadOption> {
    match (backend.spec().moved_by, &a.net) {
        (MovedBy::NetPlugin | MovedBy::Nccl, Some(word)) => Ok(Some(Wanted { word: word.clone() })),
        (MovedBy::NetPlugin, None) => Ok(Some(Wanted { word: OWN_PLUGIN.to_owned() })),
        (_, None) => Ok(None),
        (_, Some(word)) => Err(BadOption::new(format!(
            "--net {word} is for --backend net, and for NCCL's ranks: --backend {} uses no net plugin",
            backend.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use busbw_core::exit::Exit;

    use super::*;
    use crate::options::HostResources;
    use crate::options::{self, Command};
    use busbw_runner::request::Request;

    fn planned(line: &str) -> Result<Request, BadOption> {
        let words = line.split_whitespace().map(OsString::from);
        let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words)
        else {
            panic!("{line} does not parse");
        };
        let none = || "there is none".to_owned();
        let host_resources = HostResources {
            cores: 4,
            cores_of_parent: 4,
            gpus: Err(none()),
            mpi: Err(none()),
            seed: 1,
        };
        options::plan(
            benchmark,
            style,
            &program,
            &arguments,
            &crate::options::Environment::default(),
            &host_resources,
        )
    }

    #[test]
    fn our_own_plugin_unless_another_is_named() {
        let ours = planned("busbw latency --backend net").unwrap();
        assert_eq!((ours.plan.backend, ours.plan.ranks()), (BackendChoice::Net, 2));
        assert_eq!(ours.resources.net, Some(Wanted { word: OWN_PLUGIN.to_owned() }));
        let other = planned("busbw bw --backend net --net /a/b.so").unwrap();
        assert_eq!(other.resources.net.unwrap().word, "/a/b.so");
        assert_eq!(planned("busbw latency --backend host").unwrap().resources.net, None);
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        for (line, exit, why) in [
            ("busbw all_gather --backend net", Exit::Impossible, "all_reduce and sendrecv"),
            ("busbw latency --backend net -t 2", Exit::Usage, "use -g"),
            ("busbw latency --backend host --net x", Exit::Usage, "uses no net plugin"),
        ] {
            let refused = planned(line).unwrap_err();
            assert_eq!(refused.exit, exit, "{line}");
            assert!(refused.to_string().contains(why), "{line}: {refused}");
        }
    }
}
