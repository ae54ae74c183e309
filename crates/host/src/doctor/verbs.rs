//! The user space of RDMA: libibverbs, which NCCL opens at run time, and the provider of each device's driver.
//! Not the devices and their ports (`network`), and nothing is loaded.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use busbw_core::finding::Finding;

use super::{
    Node,
    advice::{About, Advice},
};

const ABOUT: About = About("network");
const VERBS: &str = "libibverbs.so.1";
/// Longer than any cache of the loader.
const MAX_CACHE: u64 = 16 << 20;
/// Where distributions, NVIDIA's DOCA-OFED and AWS's installer of EFA put it.
const FOLDERS: [&str; 7] = [
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib",
];
/// Kernel drivers, and the provider that rdma-core has for each (providers/*/CMakeLists.txt).
const PROVIDERS: [(&str, &str); 9] = [
    ("mlx5_core", "mlx5"),
    ("mlx4_core", "mlx4"),
    ("efa", "efa"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("i40e", "irdma"),
    ("irdma", "irdma"),
    ("hns3", "hns"),
    ("mana", "mana"),
];
const CONFIRM: &str = "ldconfig -p | grep libibverbs; ibv_devices";

/// Looks at the libraries where devices are given to this process. Nothing is said where all are there.
pub fn check(node: &Node) -> Vec<Finding> {
    let files = node.root.names("dev/infiniband");
    if node.rdma.is_empty() || !files.iter().any(|name| name.starts_with("uverbs")) {
        return Vec::new();
    }
    let folders = folders(node);
    if folders.is_empty() {
        return vec![no_verbs(node)];
    }
    let drivers: BTreeSet<(String, &str)> =
        node.rdma.iter().filter_map(|device| driver(node, &device.name)).collect();
    let missing = drivers.into_iter().filter(|(_, provider)| !has(node, &folders, provider));
    missing.map(|(driver, provider)| no_provider(&driver, provider)).collect()
}

fn no_verbs(node: &Node) -> Finding {
    ABOUT.error(
        "RDMA",
        format!("{} RDMA devices are given, and {VERBS} is not found", node.rdma.len()),
        &Advice {
            cost: "NCCL says nothing and goes over sockets (with NCCL_DEBUG=INFO: Failed to open libibverbs.so[.1])",
            remedy: "install it in the image: libibverbs1 and ibverbs-providers (Debian, Ubuntu), libibverbs (RHEL)",
            confirm: CONFIRM,
        },
    )
}

fn no_provider(driver: &str, provider: &str) -> Finding {
    ABOUT.error(
        driver,
        format!("{VERBS} is there, and its provider for {driver}, lib{provider}-rdmav*.so, is not"),
        &Advice {
            cost: "libibverbs finds no device of this driver; NCCL goes over sockets (NET/IB : No device found)",
            remedy: match provider {
                "efa" => "install it in the image: AWS's EFA installer, or ibverbs-providers (Debian, Ubuntu), libibverbs (RHEL)",
                _ => "install it in the image: ibverbs-providers (Debian, Ubuntu), libibverbs (RHEL)",
            },
            confirm: "ls /usr/lib*/libibverbs /usr/lib/*/libibverbs; ibv_devices",
        },
    )
}

/// The kernel driver of an RDMA device, with its provider. A software device (rxe, siw) has none.
fn driver(node: &Node, device: &str) -> Option<(String, &'static str)> {
    let driver = node.root.real(format!("sys/class/infiniband/{device}/device/driver"))?;
    let driver = driver.file_name()?.to_str()?;
    let (_, provider) = PROVIDERS.iter().find(|(name, _)| *name == driver)?;
    Some((driver.to_owned(), provider))
}

/// The folders that have libibverbs, in the loader's order, below the root.
fn folders(node: &Node) -> Vec<PathBuf> {
    let named = node.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let named = std::env::split_paths(&named).map(below).collect::<Vec<_>>();
    let cache = node.root.bytes("etc/ld.so.cache", MAX_CACHE).unwrap_or_default();
    let cached = in_cache(&cache).map(|path| below(Path::new(path)));
    let all = named.into_iter().chain(cached).chain(FOLDERS.iter().map(PathBuf::from));
    all.filter(|folder| node.root.exists(folder.join(VERBS))).collect()
}

fn below(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref()
        .components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)))
        .collect()
}

/// The folders of libibverbs by the loader's cache, whose texts end with a zero (glibc, sysdeps/generic/dl-cache.h).
fn in_cache(cache: &[u8]) -> impl Iterator<Item = &str> {
    let texts = cache.split(|byte| *byte == 0);
    texts.filter_map(|text| std::str::from_utf8(text).ok()?.strip_suffix(VERBS)?.strip_suffix('/'))
}

/// Whether a provider is beside one of them: `libmlx5-rdmav34.so`, of which the number is libibverbs' private one.
fn has(node: &Node, folders: &[PathBuf], provider: &str) -> bool {
    let beginning = format!("lib{provider}-rdmav");
    folders.iter().flat_map(|folder| [folder.join("libibverbs"), folder.clone()]).any(|folder| {
        let names = node.root.names(&folder.to_string_lossy());
        names.iter().any(|name| name.starts_with(&beginning))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::Recorded;
    use proptest::prelude::*;

    fn server(files: &[&str], driver: &str) -> Vec<String> {
        let server = Recorded::server();
        server.remove("usr/lib64");
        for file in files {
            server.write(file, "");
        }
        server.write(&format!("sys/bus/pci/drivers/{driver}/bind"), "");
        let link = server.root_path("sys/class/infiniband/mlx5_0/device/driver");
        std::os::unix::fs::symlink(
            server.root_path(&format!("sys/bus/pci/drivers/{driver}")),
            link,
        )
        .unwrap();
        let (_keep, node) = server.node();
        check(&node).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_missing_is_named() {
        let verbs = "opt/lib/libibverbs.so.1";
        let none = server(&[], "mlx5_core").join("\n");
        assert!(
            none.contains("8 RDMA devices are given, and libibverbs.so.1 is not found"),
            "{none}"
        );
        assert!(none.contains("libibverbs1 and ibverbs-providers"), "{none}");
        let cache = "etc/ld.so.cache";
        assert_eq!(server(&[verbs, cache], "mlx5_core").len(), 1);
        let verbs = "usr/lib/x86_64-linux-gnu/libibverbs.so.1";
        let no_provider = server(&[verbs], "mlx5_core").join("\n");
        assert!(no_provider.contains("libmlx5-rdmav*.so, is not"), "{no_provider}");
        let provider = "usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so";
        assert_eq!(server(&[verbs, provider], "mlx5_core"), [""; 0]);
        assert!(server(&[verbs, provider], "efa").join("\n").contains("libefa-rdmav"));
        assert_eq!(server(&[verbs], "a_new_one"), [""; 0]);
    }

    #[test]
    fn the_loaders_cache() {
        let cache = b"glibc-ld.so.cache1.1\0\x01\xff/opt/a/libibverbs.so.10\0libibverbs.so.1\0/opt/b/libibverbs.so.1\0";
        assert_eq!(in_cache(cache).collect::<Vec<_>>(), ["/opt/b"]);
    }

    proptest! {
        #[test]
        fn any_cache(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = in_cache(&bytes).count();
        }
    }
}
