//! The messages of an ssh connection: the agent's description of its host and its answers, lines among the host's own,
//! and those to the agent, in frames.
//! Not how they travel.

use serde::{Deserialize, Serialize};

use super::connection::Connection;
use crate::launchers::job::Job;

/// Beginning of the line of an agent that is ready; a [`Greeting`] follows.
pub(super) const READY: &str = "busbw-agent ";

/// An agent's description of its host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// A free TCP port.
    pub(super) port: u16,
    /// The agent's process ID.
    pub(super) pid: u32,
    /// The host's name.
    pub(super) host: String,
    /// The address at which ssh reached it.
    pub(super) address: Option<String>,
}

/// Beginning of an agent's answer to a heartbeat; an [`Answer`] follows.
pub(super) const ANSWER: &str = "busbw-answer ";

/// An agent's answer to a heartbeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Process 0 of the run, if it is stopped: its process ID.
    pub(super) stopped: Option<u32>,
}

/// To an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ToAgent {
    /// The first message: what to start.
    Start(Orders),
    /// The connection is alive.
    Heartbeat,
    /// Process 0 is to be interrupted.
    Interrupt,
}

/// What an agent is to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Orders {
    /// The arguments behind the program's name.
    pub(super) words: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    /// Variables that processes are not to have.
    pub(super) unset: Vec<String>,
    /// The working folder, if the host has it.
    pub(super) folder: Option<String>,
    /// Number of its first process, its number of processes, and the number of all.
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) size: usize,
    /// Names and addresses of the first host; the first one that resolves here is used.
    pub(super) masters: Vec<String>,
    pub(super) port: u16,
}

impl Orders {
    /// The orders for every host, from the greetings of all.
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

/// Names of the first of `hosts` for the others: the user's name for it; the address at which ssh reached it, in case
/// the name is one of ~/.ssh/config; its own name. A loopback name means another host elsewhere.
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
            masters(hosts, &Greeting { port: 1, pid: 2, host: "node1".to_owned(), address })
        };
        assert_eq!(masters(&["a", "b"], "10.0.0.1"), ["a", "10.0.0.1", "node1"]);
        // The user is on the first host, or on the only one.
        assert_eq!(masters(&["localhost", "b"], "127.0.0.1"), ["node1"]);
        assert_eq!(
            masters(&["127.0.0.1", "::1"], "127.0.0.1"),
            ["127.0.0.1", "127.0.0.1", "node1"]
        );
    }
}
