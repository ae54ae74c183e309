//! Names of hosts and users, as places that are made for them tell: prefixes of NCCL's lines, lists of
//! hosts on a command line, home folders.
//! Not what stands for them.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;

/// Names of hosts and users, numbered as they are learnt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// In small letters: the number.
    hosts: BTreeMap<String, usize>,
    users: BTreeMap<String, usize>,
    host_count: usize,
}

/// Names that are those of every machine, and tell nothing.
const ANYBODY: [&str; 16] = [
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
];

/// What begins a pair's label without being a host.
static DEVICE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:gpu|rank|cpu|core|dev|device|nic|mlx\d*|r|g)[-_]?\d*$").ok()
});

/// Ends of names that are files and not domains.
const FILES: [&str; 38] = [
    "json", "jsonl", "xml", "log", "txt", "so", "py", "sh", "html", "toml", "yaml", "yml", "csv",
    "tsv", "cu", "cc", "cpp", "hpp", "rs", "out", "err", "gz", "conf", "cfg", "sif", "sqsh", "md",
    "svg", "pdf", "dat", "bin", "exe", "hosts", "js", "ini", "deb", "rpm", "whl",
];

static HOSTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // NCCL's lines: `host:pid:tid [0] NCCL INFO …`.
        r#"(?m)(?:^|[\s>"'(])([A-Za-z0-9][A-Za-z0-9._-]*):\d+:\d+ \["#,
        // nccl-tests': `host: Test NCCL failure …`, ` .. host pid 7: Test failure …`.
        r"(?m)(?:^|[\s>])([A-Za-z0-9][A-Za-z0-9._-]*): Test (?:NCCL |CUDA )?(?:failure|timeout)",
        r"\.\. ([A-Za-z0-9][A-Za-z0-9._-]*) pid \d+",
        // Open MPI's: `[host:pid]`, `[host][[12,1],0]`.
        r"\[([A-Za-z][A-Za-z0-9._-]*)(?::\d+\]|\]\[\[)",
        r"(?i)\b(?:local host|remote host|host ?name|node ?name|slurmd_nodename|hostname|nccl_comm_id|nccl_hostid|master_addr)\s*[:=]\s*\[?([A-Za-z0-9][A-Za-z0-9._-]*)",
        r"\b[A-Za-z0-9._-]+@([A-Za-z][A-Za-z0-9.-]*)",
        r"(?i)\b(?:host|node|server|peer) ([A-Za-z][A-Za-z0-9.-]*\d[A-Za-z0-9.-]*)",
        // Names with their domains.
        r"\b([A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9][A-Za-z0-9-]*)+)\b",
    ]
    .into_iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
});

/// Lists of hosts of launchers.
static LISTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(?:^|\s)(?:-H|-?-hosts?|-w|--nodelist|\w*NODELIST)[=\s]\s*["']?([^\s"']+)"#).ok()
});

static USERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i)/(?:home|users|user|u|scratch|proj|project|projects)/([A-Za-z0-9][A-Za-z0-9._-]*)",
        r"\b([A-Za-z0-9][A-Za-z0-9._-]*)@[A-Za-z]",
        r"://([A-Za-z0-9][A-Za-z0-9._-]*):[^@/\s]*@",
        r"(?i)\b(?:USER|LOGNAME|SUDO_USER|USERNAME)=([A-Za-z0-9][A-Za-z0-9._-]*)",
    ]
    .into_iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
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

    /// A rank's label in a matrix of pairs: it begins with its host, if it names one.
    pub fn label(&mut self, label: &str) {
        let first = label.split([' ', ':', '/', ',']).next().unwrap_or_default();
        if !is_device(first) {
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

    /// Everything that a text names.
    pub fn text(&mut self, text: &str) {
        for shape in USERS.iter() {
            shape
                .captures_iter(text)
                .filter_map(|one| one.get(1))
                .for_each(|one| self.user(one.as_str()));
        }
        let [places @ .., domains] = HOSTS.as_slice() else { return };
        for shape in places {
            let words = shape.captures_iter(text).filter_map(|one| one.get(1));
            words.filter(|one| !is_device(one.as_str())).for_each(|one| self.host(one.as_str()));
        }
        let domains = domains.captures_iter(text).filter_map(|one| one.get(1));
        domains.filter(|one| is_domain(one.as_str())).for_each(|one| self.domain(one.as_str()));
        for list in
            LISTS.iter().flat_map(|shape| shape.captures_iter(text)).filter_map(|one| one.get(1))
        {
            self.list(list.as_str());
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

    /// What stands for each name, in small letters.
    pub fn replacements(&self) -> BTreeMap<String, String> {
        let users =
            self.users.iter().map(|(name, number)| (name.clone(), format!("user-{number}")));
        let hosts =
            self.hosts.iter().map(|(name, number)| (name.clone(), format!("host-{number}")));
        users.chain(hosts).collect()
    }
}

fn is_device(word: &str) -> bool {
    DEVICE.as_ref().is_some_and(|device| device.is_match(word))
}

/// Whether a word can name one host or user: it has a letter, and is not everybody's.
fn is_name(word: &str) -> bool {
    word.len() > 1
        && word.chars().any(char::is_alphabetic)
        && !ANYBODY.contains(&word)
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
