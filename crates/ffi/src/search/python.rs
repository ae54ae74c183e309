//! The package folders of the python3 on PATH, derived from its path alone.
//! Not asking Python: that would take longer than the rest of the search.

use std::path::{Path, PathBuf};

use super::{Environment, below, expand, on_path};

/// Folders of packages, in about the order in which Python looks: PYTHONPATH, the virtual environment
/// or installation of the first python3 on PATH, the user's own, Debian's.
pub(super) fn packages(environment: &Environment, root: &Path) -> Vec<PathBuf> {
    let mut folders = environment.folders("PYTHONPATH");
    let Some(python) = on_path(environment, root, "python3").into_iter().next() else {
        return folders;
    };
    let mut home_counts = true;
    for prefix in prefixes(&python, environment, root) {
        let inside = prefix.to_string_lossy().into_owned();
        folders.extend(expand(root, &format!("{inside}/lib/python3*/site-packages")));
        folders.extend(expand(root, &format!("{inside}/lib64/python3*/site-packages")));
        // PEP 405: an environment uses its base installation only if its configuration says so.
        if let Ok(text) = std::fs::read_to_string(below(root, &prefix.join("pyvenv.cfg"))) {
            home_counts =
                text.lines().filter_map(|line| line.split_once('=')).any(|(key, value)| {
                    key.trim() == "include-system-site-packages"
                        && value.trim().eq_ignore_ascii_case("true")
                });
            if !home_counts {
                break;
            }
        }
    }
    if home_counts {
        if let Some(home) = environment.get("HOME").map(|home| home.to_string_lossy()) {
            folders.extend(expand(root, &format!("{home}/.local/lib/python3*/site-packages")));
        }
        folders.extend(expand(root, "/usr/local/lib/python3*/dist-packages"));
        folders.extend(expand(root, "/usr/lib/python3/dist-packages"));
    }
    folders
}

/// The folders above `bin/python3`: as found, the one that a pyenv shim stands for, and the target
/// of links.
fn prefixes(python: &Path, environment: &Environment, root: &Path) -> Vec<PathBuf> {
    let above = |file: &Path| file.parent().and_then(Path::parent).map(Path::to_owned);
    let mut prefixes: Vec<PathBuf> = above(python).into_iter().collect();
    if python.parent().is_some_and(|folder| folder.ends_with("shims")) {
        let base = prefixes.pop().unwrap_or_default();
        let chosen = environment.get("PYENV_VERSION").map(|v| v.to_string_lossy().into_owned());
        let written = || std::fs::read_to_string(below(root, &base.join("version"))).ok();
        let chosen = chosen.or_else(written).unwrap_or_default();
        // Several versions may be named; the first is python3.
        let first = chosen.split([':', '\n']).next().unwrap_or("").trim();
        prefixes.push(base.join("versions").join(first));
    }
    let real_root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    if let Ok(real) = std::fs::canonicalize(below(root, python))
        && let Ok(inside) = real.strip_prefix(&real_root)
        && let Some(behind) = above(&Path::new("/").join(inside))
        && !prefixes.contains(&behind)
    {
        prefixes.push(behind);
    }
    prefixes
}
