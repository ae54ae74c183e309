//! Hosts and the number of processes on each, as mpirun takes them: `-H` and host files.
//! Not names in Slurm's brackets (`launched::nodes`), and not whether a host is there.

use std::str::FromStr;

/// A host with slots for processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The user to log in as, if given.
    pub user: Option<String>,
    /// Its name or address, an IPv6 address without brackets.
    pub name: String,
    /// How many processes it takes.
    pub slots: usize,
}

/// Hosts in the order in which they are filled; none twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(pub Vec<Host>);

/// Largest number of processes of a run (`planning`).
const MAX_PROCESSES: usize = 4096;

impl Hosts {
    /// Reads a host file: a host a line, comments after `#`.
    ///
    /// # Errors
    /// A line that names none.
    pub fn from_file(text: &str) -> Result<Hosts, String> {
        let mut hosts = Hosts::default();
        for (number, line) in text.lines().enumerate() {
            let at = |why: String| format!("line {}: {why}", number + 1);
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(name) = words.next() else { continue };
            let mut host: Host = name.parse().map_err(at)?;
            for word in words {
                match word.split_once('=') {
                    Some(("slots", number)) => host.slots = slots(number).map_err(at)?,
                    // Open MPI's limit on oversubscription, which busbw does not use.
                    Some(("max_slots" | "max-slots", _)) => {}
                    _ => return Err(at(format!("'{word}' is unknown; slots=N is allowed"))),
                }
            }
            hosts.add(host);
        }
        if hosts.0.is_empty() { Err("no line names a host".to_owned()) } else { Ok(hosts) }
    }

    /// Only the first `count` slots.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn first(mut self, count: usize) -> Result<Hosts, String> {
        let all: usize = self.0.iter().map(|host| host.slots).sum();
        if count > all {
            return Err(format!(
                "--np {count}: the hosts have {all} slots; write host:N for N slots"
            ));
        }
        let mut left = count;
        for host in &mut self.0 {
            host.slots = host.slots.min(left);
            left -= host.slots;
        }
        self.0.retain(|host| host.slots > 0);
        Ok(self)
    }

    /// Adds a host; one that is listed already gets more slots.
    fn add(&mut self, host: Host) {
        match self.0.iter_mut().find(|h| (&h.user, &h.name) == (&host.user, &host.name)) {
            Some(known) => known.slots += host.slots,
            None => self.0.push(host),
        }
    }
}

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Hosts, String> {
        let mut hosts = Hosts::default();
        for word in text.split(',') {
            hosts.add(word.trim().parse()?);
        }
        Ok(hosts)
    }
}

impl FromStr for Host {
    type Err = String;

    /// `host`, `host:8`, `user@host:8`, `[::1]:8`, or an IPv6 address as it is.
    fn from_str(text: &str) -> Result<Host, String> {
        let wrong = || format!("'{text}' is not a host: write name:N, user@name:N or [address]:N");
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, text),
        };
        let (name, number) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (name, after) = rest.split_once(']').ok_or_else(wrong)?;
                let number = match after {
                    "" => None,
                    after => Some(after.strip_prefix(':').ok_or_else(wrong)?),
                };
                (name, number)
            }
            None => match rest.matches(':').count() {
                1 => rest.split_once(':').map_or((rest, None), |(name, n)| (name, Some(n))),
                _ => (rest, None),
            },
        };
        let is_word = |word: &str| {
            // A leading dash would be an option of the launcher.
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
            !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
        };
        if !is_word(name) || user.as_deref().is_some_and(|user| !is_word(user)) {
            return Err(wrong());
        }
        let slots = number.map_or(Ok(1), slots)?;
        Ok(Host { user, name: name.to_owned(), slots })
    }
}

fn slots(number: &str) -> Result<usize, String> {
    match number.parse() {
        Ok(slots) if (1..=MAX_PROCESSES).contains(&slots) => Ok(slots),
        _ => Err(format!("'{number}' is not a number of processes from 1 to {MAX_PROCESSES}")),
    }
}

impl Host {
    /// Whether the name means this machine, whatever its own `host_name` is.
    pub fn is_here(&self, host_name: &str) -> bool {
        let name = self.name.as_str();
        matches!(name, "localhost" | "::1") || name.starts_with("127.") || name == host_name
    }

    /// The name as an address with something behind it: IPv6 in brackets.
    pub fn bracketed(&self) -> String {
        if self.name.contains(':') { format!("[{}]", self.name) } else { self.name.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(hosts: &Hosts) -> Vec<String> {
        let host = |host: &Host| {
            let user = host.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
            format!("{user}{} {}", host.name, host.slots)
        };
        hosts.0.iter().map(host).collect()
    }

    #[test]
    fn as_people_write_them() {
        for (text, hosts) in [
            ("hostA:8,hostB:8", vec!["hostA 8", "hostB 8"]),
            ("node-1.cluster", vec!["node-1.cluster 1"]),
            ("[::1]:2,[fe80::1%eth0]", vec!["::1 2", "fe80::1%eth0 1"]),
            ("fe80::2,me@10.0.0.1:4", vec!["fe80::2 1", "me@10.0.0.1 4"]),
            ("a:2,b:1,a:3", vec!["a 5", "b 1"]),
        ] {
            assert_eq!(written(&text.parse().unwrap()), hosts, "{text}");
        }
        for text in
            ["", "a,,b", "a:0", "a:x", "a:5000", "-oProxyCommand=x", "a b", "[::1", "[::1]2", "@a"]
        {
            assert!(text.parse::<Hosts>().is_err(), "{text}");
        }
    }

    #[test]
    fn files_of_mpirun() {
        let text =
            "# two nodes\nnode1 slots=8 max_slots=8\n\nnode2:4  # half\nnode3\nnode1 slots=1\n";
        let hosts = Hosts::from_file(text).unwrap();
        assert_eq!(written(&hosts), ["node1 9", "node2 4", "node3 1"]);
        assert_eq!(written(&hosts.clone().first(10).unwrap()), ["node1 9", "node2 1"]);
        assert!(hosts.first(15).unwrap_err().contains("have 14 slots"));
        assert!(Hosts::from_file("\n#\n").unwrap_err().contains("no line"));
        assert!(Hosts::from_file("a\nb cpu=2").unwrap_err().starts_with("line 2: 'cpu=2'"));
    }

    #[test]
    fn this_machine() {
        let here = |text: &str| text.parse::<Host>().unwrap().is_here("node7");
        assert!(here("localhost:4") && here("127.0.0.1") && here("[::1]:2") && here("node7:8"));
        assert!(!here("node8:8"));
    }
}
