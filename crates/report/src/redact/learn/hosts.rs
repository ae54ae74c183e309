//! Names of hosts, from places that are made for them: prefixes of lines, options, commands, sentences.
//! Not what stands for them (`learn`).

use std::sync::LazyLock;

use regex::Regex;

/// What begins a pair's label, or stands where a host could, without being one.
static DEVICE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:gpu|rank|cpu|core|dev|device|nic|mlx\d*|r|g|task|worker|stdout|stderr|peer|process|proc|thread|line|step|numa|port|channel)[-_]?\d*(?:_\d+)?$").ok()
});

/// Words that sentences name beside hosts: models, interfaces, libraries, types.
static PART: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:g?[abhlvtp]\d{1,4}[a-z]{0,3}|gb\d+\w*|mi\d{3}\w?|rtx\w*|sm_?\d+|cuda\w*|nccl\w*|rccl\w*|mlx\d\w*|(?:eth|ib|bond|en[sop]|enp|ibp|ibs|roce|efa|rdma)\w*\d+\w*|pci\w*|nv\w*|gen\d|ipv?[46]|x86_64|u?int\d+\w*|b?f(?:p|loat)?\d+\w*|ll\d*|error\d+|code\d+|exit\d*|sig\w+|v\d+|lib\w+|libc6|openmpi\d*|mpi\d*|ompi\d*|python\d*|gcc\d*)$").ok()
});

static HOSTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // NCCL's lines: `host:pid:tid [0] NCCL INFO …`.
        r#"(?m)(?:^|[\s>"'(\]])([A-Za-z0-9][A-Za-z0-9._-]*):\d+:\d+ (?:\[|NCCL)"#,
        // Its diagnostics': `host:pid NCCL DIAG …`, `rank 3 (host): …`, `server_host=host`.
        r#"(?m)(?:^|[\s>"'(\]])([A-Za-z0-9][A-Za-z0-9._-]*):\d+ NCCL DIAG"#,
        r"\brank \d+ \(([A-Za-z0-9][A-Za-z0-9._-]*)\): [\d.]+ Gbit/s",
        r"\b(?:server|client)_host=([A-Za-z0-9][A-Za-z0-9._-]*)",
        // nccl-tests': `host: Test NCCL failure …`, ` .. host pid 7: Test failure …`, `… Pid 7 on host device …`.
        r"(?m)(?:^|[\s>])([A-Za-z0-9][A-Za-z0-9._-]*): Test (?:NCCL |CUDA )?(?:failure|timeout)",
        r"\.\. ([A-Za-z0-9][A-Za-z0-9._-]*) pid \d+",
        r"(?i)\bpid +\d+ on +([A-Za-z0-9][A-Za-z0-9._-]*) device",
        // Open MPI's: `[host:pid]`, `[host][[12,1],0]`, `/tmp/ompi.host.1000`, `prterun-host-7@0`.
        r"\[([A-Za-z0-9][A-Za-z0-9._-]*)(?::\d+\]|\]\[\[)",
        r"\bompi\.([A-Za-z0-9][A-Za-z0-9-]*)\.\d+",
        r"\bopenmpi-sessions-[^@\s/]+@([A-Za-z0-9][A-Za-z0-9.-]*)",
        r"\b(?:prterun|prte|prted|orterun|mpirun)-([A-Za-z0-9][A-Za-z0-9._-]*?)-\d+@",
        // Slurm's, Linux's.
        r"\b(?:srun|slurmstepd|slurmd|salloc): (?:error: )?(?:Node )?([A-Za-z0-9][A-Za-z0-9._-]*): ",
        r"(?i)\bon (?:node |host )?([A-Za-z0-9][A-Za-z0-9._-]*) (?:cancelled|exited|died|was killed|terminated|failed|rebooted)\b",
        r"\bLinux ([A-Za-z0-9][A-Za-z0-9._-]*) \d+\.\d+",
        r#"(?i)(?:\b|_)(?:(?:local|remote|peer|target|head|login|compute|master|rank0|root|slurmd)?[ _-]?(?:host|node|server|machine)(?:[ _-]?name)?|nccl_comm_id|nccl_hostid|(?:master|head|root)[ _-]?addr(?:ess)?|rdzv[ _-]?endpoint)(?:["']?\s*=\s*|["']\s*:\s*|\s*:\s+)["'\[]?([A-Za-z0-9][A-Za-z0-9._-]*)"#,
        r"(?i)nccl_(?:comm_id|hostid) set (?:by environment )?to ([A-Za-z0-9][A-Za-z0-9._-]*)",
        r#"(?i)(?:host|node|server|machine|hostname) ["'`]([A-Za-z0-9][A-Za-z0-9._-]*)["'`]"#,
        r"[A-Za-z0-9._-]+@\[?([A-Za-z0-9][A-Za-z0-9.-]*)",
        r"(?i)\bhost ([A-Za-z0-9][A-Za-z0-9._-]*) port \d+",
        r"[a-z]://(?:[^@/\s]*@)?([A-Za-z0-9][A-Za-z0-9._-]*)",
        // A host in the cloud that is named after its address.
        r"(?i)\b(ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3})\b",
    ]
    .into_iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
});

/// Where a name with a digit is a host, and one without may be any word.
static LIKELY: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i)\b(?:hosts?|nodes?|servers?|peers?|machines?|pods?|contact with|connect(?:ed|ing|ion)? (?:to|from)|log(?:ged)? ?in(?:to| to| on)?|rank \d+ (?:on|at|of)|(?:process|daemon|task|tasks|job|ranks?|running|killed|launched|started|failed|hung|stuck|lost|crashed) on|reach|unreachable:|reboot(?:ed)?|drain(?:ed)?)[ /]+([A-Za-z][A-Za-z0-9._-]*\d[A-Za-z0-9._-]*)",
        r"(?m)^\s*([A-Za-z][A-Za-z0-9._-]*\d[A-Za-z0-9-]*): ",
        r"(?:^|[\s=,;/@(\[<])([A-Za-z][A-Za-z-]*[A-Za-z0-9-]*\d):\d{4,5}\b",
    ]
    .into_iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
});

/// Lists of hosts of launchers.
static LISTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?:^|[\s"'])(?:-H|-?-hosts?|-w|--nodelist|--nodes|--hostlist|--exclude|--server|--client|--master[-_]addr|--rdzv[-_]endpoint|\w*(?:NODELIST|HOSTLIST|HOSTS|NODE_LIST|HOST_LIST)|\w*node_regex)[=\s:]\s*["']?([^\s"']+)"#,
    )
    .ok()
});

/// Commands whose first word is a host.
static REMOTE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b(?:ssh|rsh|slogin|sftp|mosh|scp|rsync|pdsh|ping6?|traceroute|telnet|nslookup|ib_(?:write|read|send)_(?:bw|lat)|ibping|iperf3? -c|ssh-copy-id|ssh-keyscan)(?: to| into| from| on| host| via)*((?:[ \t]+[^\s|;&]+){1,16})").ok()
});

/// Options of these whose value is the next word.
const VALUED: [&str; 16] = [
    "-p", "-i", "-o", "-F", "-L", "-R", "-D", "-W", "-b", "-c", "-e", "-m", "-l", "-J", "-d", "-x",
];

/// What follows `ssh` in sentences.
const WORDS: [&str; 74] = [
    "a",
    "access",
    "agent",
    "an",
    "and",
    "are",
    "as",
    "at",
    "between",
    "but",
    "by",
    "can",
    "cannot",
    "client",
    "command",
    "config",
    "connection",
    "connections",
    "could",
    "daemon",
    "denied",
    "does",
    "error",
    "exited",
    "failed",
    "failure",
    "for",
    "from",
    "had",
    "has",
    "host",
    "hosts",
    "if",
    "in",
    "into",
    "is",
    "it",
    "key",
    "keys",
    "launch",
    "launcher",
    "login",
    "must",
    "no",
    "node",
    "nodes",
    "not",
    "of",
    "on",
    "one",
    "or",
    "password",
    "passwordless",
    "port",
    "process",
    "returned",
    "server",
    "session",
    "should",
    "test",
    "that",
    "the",
    "them",
    "this",
    "through",
    "timeout",
    "to",
    "tunnel",
    "was",
    "when",
    "which",
    "with",
    "without",
    "works",
];

pub(super) fn is_device(word: &str) -> bool {
    DEVICE.as_ref().is_some_and(|device| device.is_match(word))
}

fn is_part(word: &str) -> bool {
    PART.as_ref().is_some_and(|part| part.is_match(word))
}

/// Every host that a text names, without lists.
pub(super) fn hosts(text: &str) -> Vec<&str> {
    let of = |shapes: &'static [Regex]| {
        shapes.iter().flat_map(|shape| shape.captures_iter(text)).filter_map(|one| one.get(1))
    };
    let named = |name: &regex::Match<'_>| !is_device(name.as_str());
    let mut found: Vec<&str> = of(&HOSTS)
        .filter(named)
        .map(|name| name.as_str())
        .filter(|name| !WORDS.contains(&name.to_lowercase().as_str()))
        .collect();
    let likely = of(&LIKELY).filter(named).map(|name| name.as_str());
    // `net.cc: …` and `libnccl.so.2` are files.
    found.extend(likely.filter(|name| !is_part(name) && !name.contains('.')));
    for words in REMOTE.iter().flat_map(|shape| shape.captures_iter(text)) {
        if let Some(words) = words.get(1) {
            found.extend(remote(words.as_str()));
        }
    }
    found
}

/// The host of `[options] [user@]host[:path] …`.
fn remote(words: &str) -> Option<&str> {
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        if VALUED.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            let word = word.rsplit('@').next().unwrap_or(word);
            let word = word.split([':', '/']).next().unwrap_or(word);
            let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let known = WORDS.contains(&word.to_lowercase().as_str()) || is_device(word);
            return (!known && !word.contains(['=', '*', '$'])).then_some(word);
        }
    }
    None
}

/// Lists: `node1:8,node2:8`, `node[01-04,07]`.
pub(super) fn lists(text: &str) -> impl Iterator<Item = &str> {
    let found = LISTS.iter().flat_map(move |shape| shape.captures_iter(text));
    found.filter_map(|one| Some(one.get(1)?.as_str()))
}
