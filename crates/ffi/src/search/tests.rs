//! The search over recorded trees. Not over this machine, but for its C library.

mod elf;

use super::*;
use crate::search::cache::tests::cache;
use elf::library;
use proptest::prelude::*;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &[u8])]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, bytes)| tree.write(path, bytes));
        tree
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn link(&self, from: &str, to: &str) {
        let from = self.0.path().join(from);
        std::fs::create_dir_all(from.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, from).unwrap();
    }

    /// Path, place, version and standing of every copy.
    fn find(
        &self,
        kind: Kind,
        environment: &Environment,
    ) -> Vec<(String, Origin, String, Standing)> {
        candidates(kind, environment, self.0.path())
            .into_iter()
            .map(|c| {
                let version = c.version.unwrap_or_default();
                (c.path.to_string_lossy().into_owned(), c.origin, version, c.standing)
            })
            .collect()
    }
}

fn nccl(version: &str) -> Vec<u8> {
    library(&format!("what\0NCCL version of peer\0NCCL version {version}\0more"), &[])
}

#[test]
fn every_place_in_its_order() {
    let tree = Tree::new(&[
        ("opt/mine/libnccl.so.2", &nccl("2.18.1+cuda12.0")),
        ("usr/lib/other/libnccl.so.2", &nccl("2.19.3+cuda12.3")),
        ("usr/local/cuda-12.4/lib64/libnccl.so.2", &nccl("2.21.5+cuda12.4")),
        ("usr/local/cuda-12.9/lib64/libnccl.so.2", &nccl("2.27.3+cuda12.9")),
        ("usr/bin/python3.12", b""),
        ("usr/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", &nccl("2.28.9+cuda13.0")),
        (
            "proc/self/maps",
            b"7f00-7f01 r-xp 0 08:01 5   /srv/x/libnccl.so.2.26.2\n7f02 r /srv/x/libncclx.so\n",
        ),
        ("srv/x/libnccl.so.2.26.2", &nccl("2.26.2+cuda12.8")),
        ("etc/ld.so.cache", &cache(&[("libnccl.so.2", "/usr/lib/other/libnccl.so.2")])),
    ]);
    tree.link("usr/bin/python3", "python3.12");
    let environment = Environment::default()
        .with("LD_LIBRARY_PATH", "/nowhere:/opt/mine")
        .with("PATH", "/bin:/usr/bin");
    let found = tree.find(Kind::Nccl, &environment);
    let versions: Vec<(Origin, &str)> = found.iter().map(|f| (f.1, f.2.as_str())).collect();
    assert_eq!(
        versions,
        [
            (Origin::Loaded, "2.26.2+cuda12.8"),
            (Origin::LibraryPath, "2.18.1+cuda12.0"),
            (Origin::Cache, "2.19.3+cuda12.3"),
            (Origin::Folder, "2.27.3+cuda12.9"),
            (Origin::Folder, "2.21.5+cuda12.4"),
            (Origin::Wheel, "2.28.9+cuda13.0"),
        ]
    );
    let used: Vec<usize> = (0..found.len()).filter(|i| found[*i].3 == Standing::Used).collect();
    assert_eq!(used, [0]);
}

#[test]
fn the_named_one_or_none() {
    let tree = Tree::new(&[
        ("usr/lib64/libnccl.so.2", &nccl("2.20.5")),
        ("opt/nccl/lib/libnccl.so.2", &nccl("2.30.7+cuda13.1")),
    ]);
    let named = |path: &str| Environment::default().with("BUSBW_NCCL", path);
    for path in ["/opt/nccl/lib/libnccl.so.2", "/opt/nccl/lib"] {
        let found = tree.find(Kind::Nccl, &named(path));
        assert_eq!(found[0].2, "2.30.7+cuda13.1", "{path}");
        assert_eq!((found[0].1, &found[0].3), (Origin::Named, &Standing::Used));
        assert_eq!((found[1].1, &found[1].3), (Origin::Folder, &Standing::Later));
    }
    let found = tree.find(Kind::Nccl, &named("/opt/none/libnccl.so.2"));
    assert_eq!(found[0].3, Standing::Refused("there is no such file".to_owned()));
    assert_eq!(found[1].3, Standing::Later, "a mistake is not hidden by another copy");
    // A bare name goes to the loader.
    let found = tree.find(Kind::Nccl, &named("libnccl.so.2"));
    assert_eq!((found[0].1, &found[0].3), (Origin::Named, &Standing::Used));
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let mut foreign = nccl("2.28.9");
    foreign[18] = if foreign[18] == 0x3e { 0xb7 } else { 0x3e };
    let tree = Tree::new(&[
        ("a/libnccl.so.2", b"GROUP ( libnccl.so.2.1 )"),
        ("b/libnccl.so.2", &foreign),
        ("c/libnccl.so.2/folder", b""),
        ("d/libnccl.so.2", &nccl("2.28.9")),
        ("e/stubs/libnccl.so.2", &nccl("2.28.9")),
    ]);
    tree.link("f/libnccl.so.2", "gone");
    let path = ["a", "b", "c", "e/stubs", "f", "d"].map(|f| format!("/{f}")).join(":");
    let found = tree.find(Kind::Nccl, &Environment::default().with("LD_LIBRARY_PATH", path));
    let why: Vec<String> = found
        .into_iter()
        .map(|f| match f.3 {
            Standing::Refused(why) => why,
            other => format!("{other:?}"),
        })
        .collect();
    let foreign = if cfg!(target_arch = "x86_64") { "Aarch64" } else { "X86_64" };
    assert_eq!(
        why,
        [
            "it is no 64-bit ELF library",
            &format!("it is made for {foreign}"),
            "it is no file",
            "a stub for linking only",
            "there is no such file",
            "Used",
        ]
    );
}

#[test]
fn one_file_under_several_names_is_one_copy() {
    let tree = Tree::new(&[("usr/lib64/libcuda.so.580.82.07", &library("", &[]))]);
    tree.link("usr/lib64/libcuda.so.1", "libcuda.so.580.82.07");
    tree.link("usr/local/cuda-13/lib64/libcuda.so.1", "../../../lib64/libcuda.so.580.82.07");
    let found = tree.find(Kind::Cuda, &Environment::default());
    let want =
        ("/usr/lib64/libcuda.so.1".into(), Origin::Folder, "580.82.07".into(), Standing::Used);
    assert_eq!(found, [want]);
}

#[test]
fn versions_at_a_symbol_and_files_beside_a_launcher() {
    let open = library("\u{0}4.1.4\0", &["ompi_mpi_comm_self", "ompi_version_string"]);
    let tree =
        Tree::new(&[("home/u/ompi/lib/libmpi.so.40", &open), ("home/u/ompi/bin/mpirun", b"")]);
    let environment = Environment::default().with("PATH", "/home/u/ompi/bin");
    let found = candidates(Kind::Mpi, &environment, tree.0.path());
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].origin, found[0].version.as_deref()), (Origin::Launcher, Some("4.1.4")));
    assert_eq!(found[0].symbols, ["ompi_mpi_comm_self"]);
}

/// A machine with both families in the loader's folders, and Open MPI once more in /opt.
fn two_families() -> Tree {
    let open = |version: &str| {
        library(&format!("\u{0}{version}\0"), &["ompi_mpi_comm_self", "ompi_version_string"])
    };
    let mpich = library("\u{0}4.0.2\0", &["MPII_Version_string"]);
    Tree::new(&[
        ("usr/lib64/libmpi.so.40", &open("4.1.4")),
        ("usr/lib64/libmpich.so.12", &mpich),
        ("opt/ompi/lib/libmpi.so.40", &open("5.0.6")),
        ("proc/self/stat", b"900 (busbw) S 800 900"),
        ("proc/800/stat", b"800 (a ) b) S 700 800"),
        ("proc/700/stat", b"700 (orted) S 1 700"),
    ])
}

fn mpis(tree: &Tree, environment: &Environment) -> Vec<String> {
    tree.find(Kind::Mpi, environment).into_iter().map(|f| f.0).collect()
}

#[test]
fn the_mpi_whose_launcher_started_this_process() {
    let (open, mpich) = ("/usr/lib64/libmpi.so.40", "/usr/lib64/libmpich.so.12");
    let beside = "/opt/ompi/lib/libmpi.so.40";
    let plain = Environment::default();
    let tree = two_families();
    assert_eq!(mpis(&tree, &plain), [open, mpich, beside], "no launcher is known");
    assert_eq!(mpis(&tree, &plain.clone().with("PMI_SIZE", "2")), [mpich, open, beside]);
    let slurm = plain.clone().with("PMI_SIZE", "2").with("SLURM_STEP_ID", "0");
    assert_eq!(mpis(&tree, &slurm), [open, mpich, beside]);
    // The supervisor's parent, behind a wrapper.
    tree.link("proc/800/exe", "/home/u/wrapper");
    tree.link("proc/700/exe", "/opt/ompi/bin/orted");
    assert_eq!(mpis(&tree, &plain), [beside, open, mpich]);
    let named = plain.with("BUSBW_MPI", mpich);
    assert_eq!(
        mpis(&tree, &named),
        [mpich, beside, open],
        "the user's word is over the launcher's"
    );

    let tree = two_families();
    tree.link("proc/800/exe", "/usr/bin/hydra_pmi_proxy");
    assert_eq!(mpis(&tree, &Environment::default()), [mpich, open, beside]);
    let prefix =
        Environment::default().with("OMPI_COMM_WORLD_SIZE", "2").with("OPAL_PREFIX", "/opt/ompi");
    assert_eq!(mpis(&two_families(), &prefix), [beside, open, mpich]);
}

#[test]
fn plugins_as_nccl_names_them() {
    let plugin = library("", &["ncclNetPlugin_v9", "ncclNetPlugin_v10", "ncclTunerPlugin_v3", "x"]);
    let tree =
        Tree::new(&[("opt/p/libnccl-net-ofi.so", &plugin), ("opt/p/libnccl-net.so", &plugin)]);
    let environment = Environment::default().with("LD_LIBRARY_PATH", "/opt/p");
    let find = |environment| candidates(Kind::NetPlugin, &environment, tree.0.path());
    let plain = find(environment.clone());
    assert_eq!(plain[0].path, Path::new("/opt/p/libnccl-net.so"));
    assert_eq!(plain[0].symbols, ["ncclNetPlugin_v10", "ncclNetPlugin_v9", "ncclTunerPlugin_v3"]);
    let named = find(environment.clone().with("NCCL_NET_PLUGIN", "ofi"));
    assert_eq!(named[0].path, Path::new("/opt/p/libnccl-net-ofi.so"));
    assert!(find(environment.clone().with("NCCL_NET_PLUGIN", "none")).is_empty());
    let path = find(environment.with("NCCL_NET_PLUGIN", "/opt/p/libnccl-net.so"));
    assert_eq!(path[0].path, Path::new("/opt/p/libnccl-net.so"));
}

#[test]
fn python_by_its_place() {
    let at = |folder: &str| format!("{folder}/nvidia/nccl/lib/libnccl.so.2");
    let pyenv = at("home/u/.pyenv/versions/3.11.9/lib/python3.11/site-packages");
    let venv = at("home/u/venv/lib/python3.12/site-packages");
    let user = at("home/u/.local/lib/python3.12/site-packages");
    let tree = Tree::new(&[
        ("home/u/.pyenv/shims/python3", b"#!/bin/sh"),
        ("home/u/.pyenv/version", b"3.11.9\n"),
        (&pyenv, &nccl("2.21.5")),
        ("home/u/venv/pyvenv.cfg", b"home = /usr/bin\ninclude-system-site-packages = false\n"),
        (&venv, &nccl("2.28.9")),
        (&user, &nccl("2.19.3")),
        ("usr/bin/python3.12", b""),
    ]);
    tree.link("usr/bin/python3", "python3.12");
    tree.link("home/u/venv/bin/python3", "../../../../usr/bin/python3");
    let versions = |path: &str| {
        let environment = Environment::default().with("PATH", path).with("HOME", "/home/u");
        let found = tree.find(Kind::Nccl, &environment).into_iter();
        found.map(|f| f.2).collect::<Vec<String>>()
    };
    assert_eq!(versions("/home/u/.pyenv/shims:/usr/bin"), ["2.21.5", "2.19.3"]);
    assert_eq!(versions("/home/u/venv/bin:/usr/bin"), ["2.28.9"]);
    assert_eq!(versions("/usr/bin"), ["2.19.3"]);
    assert!(versions("/nowhere").is_empty());
}

#[test]
fn an_empty_machine_has_nothing() {
    let tree = Tree::new(&[]);
    for kind in [Kind::Nccl, Kind::Rccl, Kind::Cuda, Kind::Hip, Kind::Nvml, Kind::Mpi] {
        assert!(tree.find(kind, &Environment::default()).is_empty());
    }
}

#[test]
fn versions_of_names() {
    let of = |name: &str| version_of_name(Path::new(name));
    assert_eq!(of("/x/libmpi.so.40.30.4").as_deref(), Some("40.30.4"));
    assert_eq!(of("/x/libnccl.so.2"), None);
    assert_eq!(of("/x/libfoo.so.1.beta"), None);
    assert_eq!(of("/x/libfoo.so."), None);
}

proptest! {
    /// A damaged library is refused or read, and never more.
    #[test]
    fn damaged_libraries(changes in prop::collection::vec((0..700_usize, any::<u8>()), 1..8), cut in 0..700_usize) {
        let mut bytes = library("\u{0}4.1.4\0", &["ompi_mpi_comm_self", "ompi_version_string"]);
        for (at, to) in changes {
            let at = at % bytes.len();
            bytes[at] = to;
        }
        bytes.truncate(bytes.len().saturating_sub(cut / 8));
        let tree = Tree::new(&[("usr/lib64/libmpi.so.40", &bytes)]);
        prop_assert_eq!(tree.find(Kind::Mpi, &Environment::default()).len(), 1);
    }
}
