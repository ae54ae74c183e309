//! Every NCCL and every MPI that the machine shows, and which one is used.
//! None is loaded.

use busbw_core::finding::Finding;
use busbw_ffi::search::{self, Candidate, Kind, Standing};

use super::{
    Node,
    advice::{About, Advice},
};

const ABOUT: About = About("libraries");
const SEE_NCCL: &str = "NCCL_DEBUG=VERSION prints the one that a program loads";

/// Looks at NCCL, then at MPI.
pub fn check(node: &Node) -> Vec<Finding> {
    let mut findings = nccl(node);
    findings.extend(too_new(node));
    findings.extend(mpi(node));
    findings
}

fn nccl(node: &Node) -> Vec<Finding> {
    const NAME: &str = "NCCL";
    if node.nccl.is_empty() {
        let none = "none found: LD_LIBRARY_PATH, ld.so.cache, CUDA's folders, python3's packages";
        if node.gpu_count() == 0 {
            return vec![ABOUT.absent(NAME, none)];
        }
        return vec![ABOUT.error(
            NAME,
            none,
            &Advice {
                cost: "busbw cannot measure the GPUs; programs that bring their own NCCL can run",
                remedy: "pip install nvidia-nccl-cu13 (or -cu12), or name one: BUSBW_NCCL=/path/libnccl.so.2",
                confirm: "ldconfig -p | grep nccl",
            },
        )];
    }
    let used = node.used_nccl().map(version);
    node.nccl.iter().map(|candidate| one_nccl(candidate, used.as_deref())).collect()
}

fn version(candidate: &Candidate) -> String {
    candidate.version.clone().unwrap_or_else(|| "of unknown version".to_owned())
}

fn one_nccl(candidate: &Candidate, used: Option<&str>) -> Finding {
    let path = candidate.path.display();
    let (found, origin) = (version(candidate), candidate.origin);
    let name = "NCCL";
    match &candidate.standing {
        Standing::Used => ABOUT.fine(name, format!("{found}, {path} ({origin}): used")),
        Standing::Later if used == Some(found.as_str()) => {
            ABOUT.fine(name, format!("{found}, {path} ({origin}): found later"))
        }
        Standing::Later => {
            let seen = format!(
                "{found}, {path} ({origin}): not used; a program that finds it first runs another NCCL"
            );
            ABOUT.note(name, seen, SEE_NCCL)
        }
        Standing::Refused(why) if origin == search::Origin::Named => ABOUT.error(
            name,
            format!("{path} ({origin}) cannot be used: {why}"),
            &Advice {
                cost: "no NCCL is used: another one in its place would hide the mistake",
                remedy: "correct BUSBW_NCCL, or unset it",
                confirm: &format!("ls -l {path}"),
            },
        ),
        Standing::Refused(why) => ABOUT.note(
            name,
            format!("{path} ({origin}) cannot be used: {why}"),
            &format!("file -L {path}"),
        ),
    }
}

/// An NCCL that was built for a newer major CUDA than the driver runs: CUDA's compatibility holds
/// within a major version only (docs.nvidia.com/deploy/cuda-compatibility).
fn too_new(node: &Node) -> Option<Finding> {
    let candidate = node.used_nccl()?;
    let built = candidate.version.as_deref()?.split_once("+cuda")?.1;
    let major: u32 = built.split('.').next()?.parse().ok()?;
    let (runs, minor) = *node.driver.as_ref().ok()?.cuda.value()?;
    (runs > 0 && major > runs).then(|| {
        ABOUT.error(
            "NCCL",
            format!("it is built for CUDA {built}; the driver runs CUDA up to {runs}.{minor}"),
            &Advice {
                cost: "its first call fails: CUDA driver version is insufficient",
                remedy: &format!(
                    "an NCCL for CUDA {runs} (nvidia-nccl-cu{runs}), or a newer driver"
                ),
                confirm: "nvidia-smi | grep CUDA",
            },
        )
    })
}

fn mpi(node: &Node) -> Vec<Finding> {
    const NAME: &str = "MPI";
    let found = search::candidates(Kind::Mpi, &node.environment, node.root.folder());
    if found.is_empty() {
        return vec![ABOUT.absent(NAME, "none found; busbw needs none")];
    }
    let one = |candidate: &Candidate| {
        let open = candidate.symbols.iter().any(|symbol| symbol.starts_with("ompi_"));
        let family = if open { "Open MPI" } else { "MPICH or its family" };
        let (path, origin) = (candidate.path.display(), candidate.origin);
        match &candidate.standing {
            Standing::Refused(why) => {
                let seen = format!("{path} ({origin}) cannot be used: {why}");
                ABOUT.note(NAME, seen, &format!("file -L {path}"))
            }
            _ => ABOUT.fine(NAME, format!("{family} {}, {path} ({origin})", version(candidate))),
        }
    };
    let mut findings: Vec<Finding> = found.iter().map(one).collect();
    let usable = found.iter().filter(|c| !matches!(c.standing, Standing::Refused(_)));
    let open = |c: &Candidate| c.symbols.iter().any(|symbol| symbol.starts_with("ompi_"));
    let (ompi, mpich): (Vec<_>, Vec<_>) = usable.partition(|c| open(c));
    if !ompi.is_empty() && !mpich.is_empty() {
        // Tried: MPICH's library under Open MPI's mpirun prints "rank 0 of 1" from every rank, exit code 0.
        let seen = "two families: under the other one's mpirun every rank believes to be alone";
        findings.push(ABOUT.note(NAME, seen, "mpirun --version; ldd PROGRAM | grep libmpi"));
    }
    findings
}
