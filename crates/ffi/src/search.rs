//! The search for a library: every copy on the machine, in the order in which they are tried.
//! Not loading one: nothing here is mapped or run, so that several NCCLs are never loaded in one
//! process.

mod cache;
mod image;
mod kind;
mod launcher;
mod python;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
    path::{Component, Path, PathBuf},
};

pub use kind::Kind;
use launcher::Starter;

/// The variables that control the search: LD_LIBRARY_PATH, PATH, the `BUSBW_*` names.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Environment {
        let variables = std::env::vars_os();
        Environment(variables.filter_map(|(n, v)| Some((n.into_string().ok()?, v))).collect())
    }

    /// The same with `name` set: what `--nccl PATH` does with [`Kind::variable`].
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Environment {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The value of a variable; `None` if it is unset or empty.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    /// Every variable.
    pub fn all(&self) -> impl Iterator<Item = (&String, &OsString)> {
        self.0.iter()
    }

    /// The folders of a list such as PATH; relative ones from the working directory.
    fn folders(&self, name: &str) -> Vec<PathBuf> {
        let list = self.get(name).map(std::env::split_paths).into_iter().flatten();
        list.filter_map(|folder| std::path::absolute(folder).ok()).collect()
    }
}

/// How a copy was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The user named it: `--nccl PATH`, `BUSBW_NCCL`.
    Named,
    /// It is mapped into this process already.
    Loaded,
    /// Beside the launcher that started this process.
    Starter,
    /// LD_LIBRARY_PATH.
    LibraryPath,
    /// /etc/ld.so.cache.
    Cache,
    /// A folder that the loader or the vendor's packages use by default.
    Folder,
    /// Beside the launcher on PATH, such as mpirun.
    Launcher,
    /// The packages of the python3 on PATH.
    Wheel,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Named => "named by the user",
            Origin::Loaded => "loaded already",
            Origin::Starter => "beside the launcher that started this process",
            Origin::LibraryPath => "LD_LIBRARY_PATH",
            Origin::Cache => "ld.so.cache",
            Origin::Folder => "default folder",
            Origin::Launcher => "beside the launcher on PATH",
            Origin::Wheel => "package of the python3 on PATH",
        })
    }
}

/// Whether a copy is the one to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// This one: the first that can be loaded.
    Used,
    /// It could be loaded, but another is found earlier, or the user named another.
    Later,
    /// It cannot be loaded, and why.
    Refused(String),
}

/// One copy of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The path to load, as it was found.
    pub path: PathBuf,
    /// The file after following links; the same as `path` where there is none.
    pub file: PathBuf,
    /// How it was found; the first way that has this file.
    pub origin: Origin,
    /// Its version by its own text or its file name, such as `2.28.9+cuda12.9`.
    pub version: Option<String>,
    /// Exported symbols that show its abilities ([`Kind::NetPlugin`] and similar), sorted.
    pub symbols: Vec<String>,
    /// Whether it is to be loaded.
    pub standing: Standing,
}

/// Every copy of `kind` on the machine below `root` (`/` outside of tests), in the order in which
/// they are tried: named, loaded, beside the launcher above this process, LD_LIBRARY_PATH,
/// ld.so.cache, default folders, beside the launcher on PATH, Python's packages; an MPI whose
/// launcher did not start this process comes last. At most one is [`Standing::Used`]. If the user
/// named a library, that one is used or none: another one would hide the mistake.
pub fn candidates(kind: Kind, environment: &Environment, root: &Path) -> Vec<Candidate> {
    let named = environment.get(kind.variable());
    let names: Vec<String> = kind.file_names(environment);
    let mut found = Found { kind, root, seen: BTreeSet::new(), candidates: Vec::new() };
    if let Some(named) = named {
        found.named(Path::new(named), &names, environment);
    }
    for path in loaded(root, &names) {
        found.add(path, Origin::Loaded);
    }
    let starter = (kind == Kind::Mpi).then(|| Starter::find(environment, root)).flatten();
    if let Some(starter) = &starter {
        found.folders(starter.folders.clone(), &names, Origin::Starter);
    }
    found.as_the_loader_does(&names, environment);
    let packages = kind.folders().iter().flat_map(|pattern| expand(root, pattern));
    found.folders(packages, &names, Origin::Folder);
    if let Some(launcher) = kind.launcher() {
        for bin in on_path(environment, root, launcher) {
            let prefix = bin.parent().and_then(Path::parent).map(Path::to_owned);
            let libs = prefix.iter().flat_map(|p| [p.join("lib"), p.join("lib64")]);
            found.folders(libs, &names, Origin::Launcher);
        }
    }
    for packages in python::packages(environment, root) {
        let inside = kind.in_wheel().iter().map(|inside| packages.join(inside));
        found.folders(inside, &names, Origin::Wheel);
    }
    if let Some(starter) = &starter {
        starter.prefer(&mut found.candidates);
    }
    decide(&mut found.candidates, named.is_some());
    found.candidates
}

/// Marks the first copy that can be loaded, and only a named one where one was named.
fn decide(candidates: &mut [Candidate], named: bool) {
    let may = |c: &&mut Candidate| !named || c.origin == Origin::Named;
    if let Some(first) = candidates.iter_mut().filter(may).find(|c| c.standing == Standing::Later) {
        first.standing = Standing::Used;
    }
}

struct Found<'a> {
    kind: Kind,
    root: &'a Path,
    seen: BTreeSet<PathBuf>,
    candidates: Vec<Candidate>,
}

impl Found<'_> {
    /// A path, a folder, or a name for the loader.
    fn named(&mut self, named: &Path, names: &[String], environment: &Environment) {
        if named.components().count() == 1 && named.is_relative() {
            let before = self.candidates.len();
            self.as_the_loader_does(&[named.to_string_lossy().into_owned()], environment);
            self.candidates[before..].iter_mut().for_each(|c| c.origin = Origin::Named);
            if self.candidates.len() > before {
                return;
            }
        }
        let path = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        let at = below(self.root, &path);
        let inside = names.iter().map(|name| path.join(name));
        match inside.into_iter().find(|p| at.is_dir() && below(self.root, p).exists()) {
            Some(file) => self.add(file, Origin::Named),
            None => self.add_even_if_absent(path, Origin::Named),
        }
    }

    /// What dlopen finds for a name without a slash: ld.so(8), "LD_LIBRARY_PATH", the cache, then the
    /// default folders. The glibc-hwcaps subfolders are left out.
    fn as_the_loader_does(&mut self, names: &[String], environment: &Environment) {
        self.folders(environment.folders("LD_LIBRARY_PATH"), names, Origin::LibraryPath);
        let cached = std::fs::read(self.root.join("etc/ld.so.cache")).unwrap_or_default();
        let cached = cache::parse(&cached);
        for name in names {
            for (_, path) in cached.iter().filter(|(soname, _)| soname == name) {
                self.add(PathBuf::from(path), Origin::Cache);
            }
        }
        let default = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
        self.folders(default, names, Origin::Folder);
    }

    fn folders(
        &mut self,
        folders: impl IntoIterator<Item = PathBuf>,
        names: &[String],
        origin: Origin,
    ) {
        for folder in folders {
            for name in names {
                self.add(folder.join(name), origin);
            }
        }
    }

    /// Adds a path if a file is there that was not found before.
    fn add(&mut self, path: PathBuf, origin: Origin) {
        if below(self.root, &path).symlink_metadata().is_ok() {
            self.add_even_if_absent(path, origin);
        }
    }

    fn add_even_if_absent(&mut self, path: PathBuf, origin: Origin) {
        let at = below(self.root, &path);
        let real = std::fs::canonicalize(&at).unwrap_or_else(|_| at.clone());
        if !self.seen.insert(real.clone()) {
            return;
        }
        let base = std::fs::canonicalize(self.root).unwrap_or_else(|_| self.root.to_owned());
        let file =
            real.strip_prefix(&base).map_or_else(|_| path.clone(), |r| Path::new("/").join(r));
        let (version, symbols, standing) = match image::inspect(&at, self.kind) {
            Ok(image) => (image.version, image.symbols, Standing::Later),
            Err(why) => (None, Vec::new(), Standing::Refused(why)),
        };
        let version = version.or_else(|| version_of_name(&file));
        // A stub is for linking only: it has the names and no driver behind them.
        let stub = path.parent().is_some_and(|folder| folder.ends_with("stubs"));
        let standing = match standing {
            Standing::Later if stub => Standing::Refused("a stub for linking only".to_owned()),
            other => other,
        };
        self.candidates.push(Candidate { path, file, origin, version, symbols, standing });
    }
}

/// `libcuda.so.580.82.07` has version 580.82.07; `libnccl.so.2` has none.
fn version_of_name(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let (_, version) = name.split_once(".so.")?;
    let numbers =
        version.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (numbers && version.contains('.')).then(|| version.to_owned())
}

/// Files of these names that this process has mapped: /proc/self/maps, proc_pid_maps(5).
fn loaded(root: &Path, names: &[String]) -> Vec<PathBuf> {
    let maps = std::fs::read(root.join("proc/self/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let ours = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or("");
        // libnccl.so.2 is often a link to libnccl.so.2.28.9, and the kernel shows the file.
        names
            .iter()
            .any(|n| file.strip_prefix(n).is_some_and(|r| r.is_empty() || r.starts_with('.')))
    };
    let mut found: Vec<PathBuf> = paths.filter(ours).map(PathBuf::from).collect();
    found.dedup();
    found
}

/// Every program `name` on PATH.
fn on_path(environment: &Environment, root: &Path, name: &str) -> Vec<PathBuf> {
    let folders = environment.folders("PATH").into_iter();
    folders.map(|folder| folder.join(name)).filter(|p| below(root, p).is_file()).collect()
}

/// An absolute path of the machine as a path below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    let parts =
        path.components().filter(|c| !matches!(c, Component::RootDir | Component::Prefix(_)));
    root.join(parts.collect::<PathBuf>())
}

/// Folders that match an absolute pattern whose parts may hold one `*`; sorted, the newest name first.
fn expand(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some((before, after)) = part.split_once('*') else {
            folders.iter_mut().for_each(|folder| folder.push(part));
            continue;
        };
        folders = folders
            .iter()
            .flat_map(|folder| {
                let entries =
                    std::fs::read_dir(below(root, folder)).into_iter().flatten().flatten();
                let fits = |name: &String| {
                    name.len() >= part.len() - 1
                        && name.starts_with(before)
                        && name.ends_with(after)
                };
                let names = entries.filter_map(|e| e.file_name().into_string().ok()).filter(fits);
                let mut names: Vec<String> = names.collect();
                names.sort_by(|a, b| b.cmp(a));
                names.into_iter().map(|name| folder.join(name)).collect::<Vec<_>>()
            })
            .collect();
    }
    folders
}

#[cfg(test)]
mod tests;
