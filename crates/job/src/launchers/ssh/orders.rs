//! What the two ends of an ssh connection tell each other: an agent what its host is, the user's busbw what to
//! start there. Not how it travels.

use serde::{Deserialize, Serialize};

use super::connection::Connection;
use crate::launchers::job::Job;

/// The line of an agent that is ready begins with this, and goes on with a [`Greeting`].
pub(super) const READY: &str = "busbw-agent ";
/// A line for an agent: process 0 is to end the run.
pub(super) const INTERRUPT: &str = "interrupt";

/// What an agent says of its host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// A TCP port that is free there.
    pub(super) port: u16,
    /// Its name.
    pub(super) host: String,
    /// The address at which ssh reached it.
    pub(super) address: Option<String>,
}

/// What an agent is to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Orders {
    /// Behind the program's name.
    pub(super) words: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    /// Variables of the host that processes are not to have.
    pub(super) unset: Vec<String>,
    /// A folder to be in, where the host has it.
    pub(super) folder: Option<String>,
    /// Number of its first process, how many there are here, and in all.
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) size: usize,
    /// Names and addresses of the first host; the first one that this host knows is taken.
    pub(super) masters: Vec<String>,
    pub(super) port: u16,
}

impl Orders {
    /// For every host of the job, by what all of them have said.
    pub(super) fn of(job: &Job, connections: &[Connection]) -> Vec<Orders> {
        let Some(master) = connections.first() else { return Vec::new() };
        let names: Vec<&str> = connections.iter().map(|one| one.host.as_str()).collect();
        let masters = masters(&names, &master.greeting);
        let port = job.master[1].as_ref().and_then(|port| port.trim().parse().ok());
        let port = port.unwrap_or(master.greeting.port);
        let mut variables = job.variables.clone();
        variables.extend(
            job.private_variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
        let words = job.words.iter().map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.collect();
        let folder =
            std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
        let size = job.hosts.0.iter().map(|host| host.slots).sum();
        let mut first = 0;
        let orders = job.hosts.0.iter().map(|host| {
            let orders = Orders {
                words: words.clone(),
                variables: variables.clone(),
                unset: job.unset.clone(),
                folder: folder.clone(),
                first,
                count: host.slots,
                size,
                masters: job.master[0].clone().map_or_else(|| masters.clone(), |name| vec![name]),
                port,
            };
            first += host.slots;
            orders
        });
        orders.collect()
    }
}

/// Under which names the others may know the first of `hosts`: as the user calls it; the address at which ssh
/// reached it, should that be a name of ~/.ssh/config; its own name. Loopback is another host for each.
fn masters(hosts: &[&str], first: &Greeting) -> Vec<String> {
    let loopback = |name: &str| name == "localhost" || name == "::1" || name.starts_with("127.");
    let here = hosts.iter().all(|host| loopback(host));
    let names = [hosts.first().copied(), first.address.as_deref(), Some(first.host.as_str())];
    let known = names.into_iter().flatten().filter(|name| here || !loopback(name));
    known.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_first_host() {
        let masters = |hosts: &[&str], address: &str| {
            let address = Some(address.to_owned());
            masters(hosts, &Greeting { port: 1, host: "node1".to_owned(), address })
        };
        assert_eq!(masters(&["a", "b"], "10.0.0.1"), ["a", "10.0.0.1", "node1"]);
        // The user sits on the first host, or on the only one.
        assert_eq!(masters(&["localhost", "b"], "127.0.0.1"), ["node1"]);
        assert_eq!(
            masters(&["127.0.0.1", "::1"], "127.0.0.1"),
            ["127.0.0.1", "127.0.0.1", "node1"]
        );
    }
}
