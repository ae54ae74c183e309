//! Names of hosts, users and their folders, and serial numbers: what was learnt from texts, and the word
//! that each gets. `hosts` and `people` say where names stand.
//! Not addresses, which are known by their shape (`shapes`).

mod hosts;
mod people;

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;

use super::shapes;
use people::Person;

/// Names of hosts and users, numbered as they are learnt.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// In small letters: the number.
    hosts: BTreeMap<String, usize>,
    users: BTreeMap<String, usize>,
    folders: BTreeMap<String, usize>,
    serials: BTreeMap<String, usize>,
    jobs: BTreeMap<String, usize>,
    host_count: usize,
}

/// Names that every machine has, which identify nothing.
const COMMON_NAMES: [&str; 22] = [
    "localhost",
    "root",
    "user",
    "users",
    "home",
    "admin",
    "nobody",
    "ubuntu",
    "debian",
    "centos",
    "rocky",
    "ec2-user",
    "azureuser",
    "opc",
    "unknown",
    "shared",
    "none",
    "null",
    "true",
    "false",
    "git",
    "auto",
];

/// Ends of names that are files and not domains.
const FILES: [&str; 38] = [
    "json", "jsonl", "xml", "log", "txt", "so", "py", "sh", "html", "toml", "yaml", "yml", "csv",
    "tsv", "cu", "cc", "cpp", "hpp", "rs", "out", "err", "gz", "conf", "cfg", "sif", "sqsh", "md",
    "svg", "pdf", "dat", "bin", "exe", "hosts", "js", "ini", "deb", "rpm", "whl",
];

/// Names with their domains.
static DOMAINS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b([A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9][A-Za-z0-9-]*)+)\b").ok()
});

impl Names {
    /// A host; with its domain it is the same one.
    pub fn host(&mut self, name: &str) {
        let name = name.trim().trim_end_matches(['.', '-']).to_lowercase();
        let short = name.split('.').next().unwrap_or(&name).to_owned();
        if !is_name(&short) {
            return;
        }
        let number = *self.hosts.entry(short).or_insert_with(|| {
            self.host_count += 1;
            self.host_count
        });
        self.hosts.insert(name, number);
    }

    /// A user.
    pub fn user(&mut self, name: &str) {
        let name = name.trim_end_matches(['.', '-']).to_lowercase();
        if is_name(&name) {
            let number = self.users.len() + 1;
            self.users.entry(name).or_insert(number);
        }
    }

    /// A job, by the launcher's name for it: one with letters may name a server or a project.
    pub fn job(&mut self, name: &str) {
        let name = name.to_lowercase();
        if is_name(&name) {
            let number = self.jobs.len() + 1;
            self.jobs.entry(name).or_insert(number);
        }
    }

    /// A rank's label in a matrix of pairs: it begins with its host, if it names one.
    pub fn label(&mut self, label: &str) {
        let first = label.split([' ', ':', '/', ',']).next().unwrap_or_default();
        if !hosts::is_device(first) {
            self.host(first);
        }
    }

    /// A host with its domain, from a text: its first part alone is a name only if it looks like one.
    fn domain(&mut self, name: &str) {
        let short = name.split('.').next().unwrap_or_default();
        if self.hosts.contains_key(&short.to_lowercase())
            || short.contains(|c: char| c.is_ascii_digit())
        {
            self.host(name);
        } else if let std::collections::btree_map::Entry::Vacant(entry) =
            self.hosts.entry(name.to_lowercase())
        {
            self.host_count += 1;
            entry.insert(self.host_count);
        }
    }

    /// A folder of a user.
    fn folder(&mut self, name: &str) {
        let name = name.to_lowercase();
        if is_name(&name) && !self.users.contains_key(&name) {
            let number = self.folders.len() + 1;
            self.folders.entry(name).or_insert(number);
        }
    }

    /// Everything that a text names.
    pub fn text(&mut self, text: &str) {
        for person in people::people(text) {
            match person {
                Person::User(name) => self.user(name),
                Person::Folder(name) => self.folder(name),
            }
        }
        hosts::hosts(text).into_iter().for_each(|name| self.host(name));
        let domains = DOMAINS.iter().flat_map(|shape| shape.captures_iter(text));
        let domains = domains.filter_map(|one| one.get(1)).map(|one| one.as_str());
        domains.filter(|name| is_domain(name)).for_each(|name| self.domain(name));
        hosts::lists(text).for_each(|list| self.list(list));
        for serial in shapes::serials(text) {
            let number = self.serials.len() + 1;
            self.serials.entry(serial.to_lowercase()).or_insert(number);
        }
    }

    /// `node1:8,node2:8`, `node[01-04,07]`.
    fn list(&mut self, list: &str) {
        let mut depth = 0_u32;
        let outside = |c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        for item in list.split(outside) {
            let item = item.rsplit('@').next().unwrap_or(item);
            let (stem, numbers) = item.split_once('[').unwrap_or((item, ""));
            let numbers = numbers.split(']').next().unwrap_or_default();
            if numbers.is_empty() {
                self.host(stem.split(':').next().unwrap_or_default());
                continue;
            }
            for range in numbers.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (Ok(from), Ok(to)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                    continue;
                };
                for number in (from..=to).take(4096) {
                    self.host(&format!("{stem}{number:0width$}", width = first.len()));
                }
            }
            self.host(item);
        }
    }

    /// The replacement of each name, in small letters.
    pub fn replacements(&self) -> BTreeMap<String, String> {
        let users =
            self.users.iter().map(|(name, number)| (name.clone(), format!("user-{number}")));
        let hosts =
            self.hosts.iter().map(|(name, number)| (name.clone(), format!("host-{number}")));
        let folders =
            self.folders.iter().map(|(name, number)| (name.clone(), format!("folder-{number}")));
        let serials =
            self.serials.iter().map(|(name, number)| (name.clone(), format!("serial-{number}")));
        let jobs = self.jobs.iter().map(|(name, number)| (name.clone(), format!("job-{number}")));
        // Of a name that is several things the last counts.
        jobs.chain(serials).chain(folders).chain(users).chain(hosts).collect()
    }
}

/// Whether a word can name one host or user: it has a letter, and is not a common name.
fn is_name(word: &str) -> bool {
    word.len() > 1
        && word.chars().any(char::is_alphabetic)
        && !COMMON_NAMES.contains(&word)
        && !word.contains(['/', '='])
}

/// Whether a dotted word is a host with its domain, and no file and no version.
fn is_domain(word: &str) -> bool {
    let labels: Vec<&str> = word.split('.').collect();
    let Some(last) = labels.last() else { return false };
    let alphabetic = last.len() >= 2 && last.chars().all(|c| c.is_ascii_alphabetic());
    let file = FILES.contains(&last.to_lowercase().as_str());
    // `2.28.9.abc` is a version; a host begins with more than numbers.
    let named = labels.first().is_some_and(|first| first.chars().any(|c| c.is_ascii_alphabetic()));
    alphabetic && !file && named && (labels.len() > 2 || is_top(last))
}

fn is_top(label: &str) -> bool {
    const TOP: [&str; 20] = [
        "com",
        "org",
        "net",
        "edu",
        "gov",
        "mil",
        "int",
        "cloud",
        "local",
        "lan",
        "internal",
        "cluster",
        "corp",
        "intra",
        "localdomain",
        "svc",
        "hpc",
        "test",
        "example",
        "home",
    ];
    TOP.contains(&label.to_lowercase().as_str())
}
