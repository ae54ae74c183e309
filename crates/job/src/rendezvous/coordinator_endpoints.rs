//! The coordinator's endpoints as far as they are known now: the address in its file, then those of its names.
//! Not the connections to them (`connect`).

use std::{
    fs::File,
    io::Read,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    path::Path,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use busbw_core::environment::COORDINATOR_FILE;

use crate::launched::{CoordinatorAddress, bare};

/// How long an attempt waits for names: a server that is not there answers after several times 5 s (man resolv.conf,
/// timeout), while the file may tell the address.
const RESOLUTION_WAIT: Duration = Duration::from_secs(1);
/// More than any address takes.
const MAX_FILE: u64 = 256;

/// What is known of the coordinator's endpoints.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The file's endpoint.
    pub(super) told: Option<SocketAddr>,
    /// Those of the names that resolve.
    pub(super) named: Vec<SocketAddr>,
    /// Why nothing more is known, for the error of the last attempt.
    pub(super) missing: Vec<String>,
}

/// Finds endpoints, attempt after attempt. A resolution that lasts longer than an attempt goes on, and a later attempt
/// gets its answer: at most one is under way.
#[derive(Debug, Default)]
pub(super) struct Finder {
    under_way: Mutex<Option<mpsc::Receiver<Known>>>,
}

impl Finder {
    /// The endpoints that are known now.
    pub(super) fn find(&self, first: &CoordinatorAddress) -> Known {
        self.find_by(first, resolve)
    }

    fn find_by(
        &self,
        first: &CoordinatorAddress,
        resolve: impl FnOnce(&[String], u16) -> Known + Send + 'static,
    ) -> Known {
        let told = first.file.as_deref().map(in_file).transpose();
        let plain: Option<Vec<IpAddr>> = first.hosts.iter().map(|host| host.parse().ok()).collect();
        let mut known = match plain {
            Some(plain) => Known {
                named: plain.into_iter().map(|ip| (ip, first.port).into()).collect(),
                ..Known::default()
            },
            None => self.names(first, resolve),
        };
        match told {
            Ok(told) => known.told = told.flatten().map(|ip| (ip, first.port).into()),
            Err(why) => known.missing.push(why),
        }
        if let (Some(file), None, true) = (&first.file, known.told, known.missing.is_empty()) {
            known.missing.push(format!("{COORDINATOR_FILE}={} is empty", file.display()));
        }
        known
    }

    fn names(
        &self,
        first: &CoordinatorAddress,
        resolve: impl FnOnce(&[String], u16) -> Known + Send + 'static,
    ) -> Known {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = under_way.take().unwrap_or_else(|| {
            let (sender, answer) = mpsc::channel();
            let (hosts, port) = (first.hosts.clone(), first.port);
            // Nobody waits for it: it ends with the process.
            thread::spawn(move || sender.send(resolve(&hosts, port)).is_ok());
            answer
        });
        match answer.recv_timeout(RESOLUTION_WAIT) {
            Ok(known) => known,
            Err(error) => {
                if error == mpsc::RecvTimeoutError::Timeout {
                    *under_way = Some(answer);
                }
                let why = format!("no answer yet to the name {}{REMEDY}", first.hosts.join(" or "));
                Known { missing: vec![why], ..Known::default() }
            }
        }
    }
}

/// What to do about a name that does not resolve.
const REMEDY: &str = ": in a cluster a headless Service with publishNotReadyAddresses gives a pod its name; without DNS set MASTER_ADDR to the address of process 0, or BUSBW_COORDINATOR_FILE to a file that holds it";

/// Every endpoint of these hosts. One that does not resolve (yet) takes nothing from the others.
pub(super) fn resolve(hosts: &[String], port: u16) -> Known {
    let mut known = Known::default();
    for host in hosts {
        match (host.as_str(), port).to_socket_addrs() {
            Ok(found) => known.named.extend(found),
            Err(error) => {
                known.missing.push(format!("the name {host} does not resolve ({error}){REMEDY}"));
            }
        }
    }
    known
}

/// The address in a file; none while it is empty.
fn in_file(path: &Path) -> Result<Option<IpAddr>, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE).read_to_string(&mut text))
        .map_err(|error| format!("cannot read {COORDINATOR_FILE}={}: {error}", path.display()))?;
    address(&text).map_err(|text| {
        format!("{COORDINATOR_FILE}={} holds {text:?}, which is no IP address", path.display())
    })
}

fn address(text: &str) -> Result<Option<IpAddr>, &str> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    bare(text).parse().map(Some).map_err(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(host: &str, file: Option<&Path>) -> CoordinatorAddress {
        CoordinatorAddress {
            hosts: vec![host.to_owned()],
            file: file.map(Path::to_owned),
            port: 29500,
            assumed: false,
        }
    }

    #[test]
    fn the_file_is_read_at_every_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator");
        let (finder, first) = (Finder::default(), first("192.0.2.1", Some(&path)));
        let said = |known: &Known| (known.told, known.missing.join(" "));
        let (told, why) = said(&finder.find(&first));
        assert!(told.is_none() && why.contains("BUSBW_COORDINATOR_FILE=/"), "{why}");
        std::fs::write(&path, "\n").unwrap();
        assert!(said(&finder.find(&first)).1.contains("is empty"));
        std::fs::write(&path, "pod-0").unwrap();
        assert!(said(&finder.find(&first)).1.contains("\"pod-0\", which is no IP address"));
        std::fs::write(&path, " [fd00::7]\n").unwrap();
        let known = finder.find(&first);
        assert_eq!(known.told, Some("[fd00::7]:29500".parse().unwrap()));
        assert_eq!(known.named, ["192.0.2.1:29500".parse().unwrap()]);
        assert_eq!(known.missing, [""; 0]);
    }

    /// A name server that never answers costs an attempt its wait, and the file's address is found all the same.
    #[test]
    fn a_resolution_goes_on_from_attempt_to_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coordinator");
        std::fs::write(&path, "192.0.2.7").unwrap();
        let (finder, first) = (Finder::default(), first("pod-0.job", Some(&path)));
        let (answer, question) = mpsc::channel::<Known>();
        let known = finder.find_by(&first, move |_, _| question.recv().unwrap_or_default());
        assert!(
            known.told.is_some()
                && known.missing[0].contains("no answer yet to the name pod-0.job")
        );
        let late: SocketAddr = "192.0.2.8:29500".parse().unwrap();
        answer.send(Known { named: vec![late], ..Known::default() }).unwrap();
        let known = finder.find_by(&first, |_, _| panic!("a second resolution at once"));
        assert_eq!(known.named, [late]);
    }

    #[test]
    fn a_name_that_does_not_resolve_is_named() {
        let hosts = ["127.0.0.1".to_owned(), "pod-0.invalid".to_owned()];
        let known = resolve(&hosts, 1);
        assert_eq!(known.named, ["127.0.0.1:1".parse().unwrap()]);
        assert!(known.missing[0].contains("pod-0.invalid does not resolve"), "{:?}", known.missing);
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_none(text in "[ \\[\\]0-9a-f:.\\n]{0,50}", ip: u32) {
            if let Ok(Some(found)) = address(&text) {
                let again = found.to_string();
                prop_assert_eq!(address(&again), Ok(Some(found)));
            }
            let ip = IpAddr::from(ip.to_be_bytes());
            let text = format!("\n {ip} ");
            prop_assert_eq!(address(&text), Ok(Some(ip)));
        }
    }
}
