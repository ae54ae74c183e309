//! Names of users and of their folders, from paths, options and sentences that are made for them.
//! Not what stands for them (`learn`).

use std::sync::LazyLock;

use regex::Regex;

/// Folders under which people have theirs, at any depth.
const HOMES: [&str; 15] = [
    "home",
    "homes",
    "homedir",
    "users",
    "user",
    "u",
    "people",
    "staff",
    "students",
    "scratch",
    "pscratch",
    "netscratch",
    "proj",
    "project",
    "projects",
];

/// Folders where clusters keep data, with or without a number behind.
const STORES: [&str; 31] = [
    "beegfs",
    "capstor",
    "ceph",
    "cephfs",
    "data",
    "disk",
    "efs",
    "export",
    "fs",
    "fsx",
    "global",
    "gpfs",
    "group",
    "groups",
    "lustre",
    "media",
    "mnt",
    "nas",
    "nfs",
    "nvme",
    "raid",
    "shared",
    "share",
    "ssd",
    "storage",
    "store",
    "tmp",
    "vol",
    "weka",
    "work",
    "workspace",
];

/// Roots of systems: what lies there is the same on every machine.
const SYSTEM: [&str; 17] = [
    "bin", "boot", "cvmfs", "dev", "etc", "lib", "lib64", "nix", "opt", "proc", "root", "run",
    "sbin", "snap", "sys", "usr", "var",
];

/// Names of folders that identify nobody; many are words of sentences and tables.
const COMMON: [&str; 98] = [
    "all",
    "alltoall",
    "app",
    "apps",
    "archive",
    "arch",
    "assets",
    "average",
    "bin",
    "broadcast",
    "bytes",
    "channel",
    "channels",
    "checkpoints",
    "cluster",
    "clusters",
    "code",
    "collectives",
    "collnet",
    "common",
    "config",
    "configs",
    "cpu",
    "current",
    "datasets",
    "debug",
    "default",
    "device",
    "devel",
    "dev",
    "docs",
    "download",
    "downloads",
    "env",
    "envs",
    "ethernet",
    "etc",
    "examples",
    "experiments",
    "files",
    "float",
    "gather",
    "git",
    "gpu",
    "gpus",
    "graph",
    "half",
    "host",
    "hosts",
    "images",
    "include",
    "infiniband",
    "inference",
    "input",
    "install",
    "latest",
    "lib",
    "lib64",
    "libexec",
    "local",
    "main",
    "max",
    "memory",
    "min",
    "misc",
    "models",
    "mpi",
    "net",
    "network",
    "new",
    "nic",
    "node",
    "nodes",
    "nvls",
    "nvlink",
    "old",
    "output",
    "outputs",
    "packages",
    "pkg",
    "prod",
    "rank",
    "ranks",
    "reduce",
    "release",
    "repos",
    "ring",
    "scripts",
    "size",
    "software",
    "source",
    "src",
    "sum",
    "tools",
    "topo",
    "training",
    "tree",
    "venv",
];

/// How names of programs and of what they write begin.
static PROGRAM: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^(?:v?\d|nccl|rccl|cuda|hpc|open-?mpi|ompi|mpi|mpich|mvapich|ucx|ucc|osu|busbw|py|conda|mini|anaconda|gcc|nv|rocm|torch|tensorflow|megatron|deepspeed|nemo|perf|bench|test|log|result|report|job|run|build|aws|efa|libfabric|ofi|sharp|spack|singularity|apptainer|enroot|docker|container|gdrcopy|mellanox|ofed|intel|slurm|pbs|ray|k8s|kube|bash|zsh|sh$|git|all_?|reduce_|send|scatter|gather_|alltoall|broadcast|hypercube|tmp|x86|aarch64|linux|lib|hostfile|machinefile|hosts)|(?:_perf|_bw|_latency)$",
    )
    .ok()
});

/// What begins a path: not the middle of a relative one.
static PATHS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?:^|[\s=:"'`(,;<>\[@/{|])((?:/[A-Za-z0-9._+~%-]+){2,})"#).ok());

static USERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"([A-Za-z_][A-Za-z0-9._-]*)@(?:[A-Za-z\[]|\d{1,3}(?:\.\d{1,3}){3}\b|\d+[A-Za-z-])",
        r"://([A-Za-z0-9][A-Za-z0-9._-]*):[^@/\s]*@",
        r#"(?i)(?:\b|_)(?:user|logname|login|owner|username|user[ _-]?(?:name|id)|run[ _-]?as)["']?\s*[:=]\s*["']?([A-Za-z_][A-Za-z0-9._-]*)"#,
        r"(?i)\b[ug]?id=\d+\(([A-Za-z_][A-Za-z0-9._-]*)\)",
        r#"(?i)\b(?:for|as|by|of|from|invalid|unknown) user ["'`]?([A-Za-z_][A-Za-z0-9._-]*)"#,
        r#"(?i)\buser ["'`]([A-Za-z_][A-Za-z0-9._-]*)["'`]"#,
        r"(?i)\buser ([A-Za-z_][A-Za-z0-9._-]*) (?:is|was|has|does|did|can|cannot|may|lacks|not|on|from|at)\b",
        r"(?i)(?:permission denied|access denied|denied|failed password|session opened|quota exceeded|password|home of) (?:for|by) (?:user )?([A-Za-z_][A-Za-z0-9._-]*)",
        r"(?:^|\s)--(?:user|login|username|uid|run-as|user-name)[=\s]([A-Za-z_][A-Za-z0-9._-]*)",
        r"\b(?:sudo|docker|podman|runuser|ssh|su)\b[^|;&\n]*?\s(?:-u|-l)\s*([A-Za-z_][A-Za-z0-9._-]*)",
        r"\b(?:ssh|rsh|slogin|pdsh|pdcp|clush|rlogin|prun|login|plm_\w+)\b[^|;&\n]*?\s-l\s*([A-Za-z_][A-Za-z0-9._-]*)",
        r"\bchown\s+(?:-\w+\s+)*([A-Za-z_][A-Za-z0-9._-]*)",
        r"\bsu\s+-\s*([A-Za-z_][A-Za-z0-9._-]*)",
        r#"(?:^|[\s=:"'(])~([A-Za-z_][A-Za-z0-9._-]*)"#,
        r"openmpi-sessions-([A-Za-z_][A-Za-z0-9._-]*)@",
    ]
    .into_iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
});

/// A user, or a folder of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Person<'a> {
    User(&'a str),
    Folder(&'a str),
}

/// All users that a text names.
pub(super) fn people(text: &str) -> Vec<Person<'_>> {
    let mut found: Vec<Person<'_>> = Vec::new();
    for shape in USERS.iter() {
        let names = shape.captures_iter(text).filter_map(|one| one.get(1));
        found.extend(names.map(|name| Person::User(name.as_str())));
    }
    let paths = PATHS.iter().flat_map(|shape| shape.captures_iter(text));
    paths.filter_map(|one| one.get(1)).for_each(|path| path_names(path.as_str(), &mut found));
    found
}

/// Whose path it is. The first folder that is neither a system's nor a store's is a user's or a project's.
fn path_names<'a>(path: &'a str, found: &mut Vec<Person<'a>>) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_home = |part: &&str| HOMES.contains(&stem(part).as_str());
    let from = match parts.first() {
        Some(first) if SYSTEM.contains(first) => match parts.iter().position(is_home) {
            Some(at) => at,
            None => return,
        },
        _ => 0,
    };
    let mut first = true;
    for (at, part) in parts.iter().enumerate().skip(from) {
        if is_home(part) || is_store(part) {
            continue;
        }
        let before = at.checked_sub(1).and_then(|before| parts.get(before));
        let is_last = at + 1 == parts.len();
        let below_home = before.is_some_and(is_home);
        // The last part is a file or a program, but for `/home/me` and `/data/me`.
        let is_file =
            is_last && !below_home && (!before.is_some_and(|b| is_store(b)) || part.contains('.'));
        if is_file || (!(below_home && first) && tells_nothing(part)) {
            continue;
        }
        found.push(if first { Person::User(part) } else { Person::Folder(part) });
        first = false;
    }
}

/// In small letters, without the number of a volume.
fn stem(part: &str) -> String {
    part.trim_end_matches(|c: char| c.is_ascii_digit()).to_lowercase()
}

fn is_store(part: &str) -> bool {
    STORES.contains(&stem(part).as_str())
}

fn tells_nothing(part: &str) -> bool {
    // A letter is a step to a home, as in `/homes/a/alice`.
    part.len() < 3
        || part.starts_with('.')
        || COMMON.contains(&part.to_lowercase().as_str())
        || PROGRAM.as_ref().is_some_and(|program| program.is_match(part))
}
