//! A host whose RDMA adapters are the shim's, and whose GPUs the CUDA shim's: runs of busbw on it.
//! Not soft RoCE (tests/rdma.sh), and no figure of it means anything.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    built_shims::folder,
    processes::bench::{Bench, Ended},
};

/// A watchdog.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The host.
pub struct Host {
    folder: TempDir,
}

impl Host {
    /// Two adapters with a GPU each behind its switch, and a third GPU below the second one's host bridge. The driver counts the
    /// GPU of the second adapter first.
    pub fn new() -> Host {
        let host = Host { folder: tempfile::tempdir().unwrap() };
        host.adapter("mlx5_0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", "0a00:0001");
        host.adapter("mlx5_1", "pci0000:90/0000:90:01.0/0000:91:00.0/0000:92:00.0", "0a00:0002");
        host.gpu("0000:10:00.0", "pci0000:90/0000:90:01.0/0000:91:00.0/0000:10:00.0");
        host.gpu("0000:11:00.0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:11:00.0");
        host.gpu("0000:12:00.0", "pci0000:90/0000:90:03.0/0000:12:00.0");
        host
    }

    fn path(&self, of: &str) -> PathBuf {
        self.folder.path().join("sys").join(of)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As the kernel does, at once: whoever reads meanwhile finds either text.
        let new = path.with_extension("new");
        fs::write(&new, format!("{text}\n")).unwrap();
        fs::rename(new, path).unwrap();
    }

    fn link(&self, from: &str, place: &str) {
        let (link, target) = (self.path(from), self.path(&format!("devices/{place}")));
        fs::create_dir_all(link.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::create_dir_all(&target).unwrap();
        symlink(target, link).unwrap();
    }

    fn adapter(&self, name: &str, place: &str, address: &str) {
        let at = format!("class/infiniband/{name}");
        self.link(&format!("{at}/device"), place);
        self.write(&format!("{at}/node_type"), "1: CA");
        for (file, text) in [
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "400 Gb/sec (4X NDR)"),
            ("link_layer", "Ethernet"),
            ("lid", "0x0"),
            ("gid_attrs/types/3", "RoCE v2"),
        ] {
            self.write(&format!("{at}/ports/1/{file}"), text);
        }
        let gid = format!("0000:0000:0000:0000:0000:ffff:{address}");
        self.write(&format!("{at}/ports/1/gids/3"), &gid);
    }

    fn gpu(&self, address: &str, place: &str) {
        self.link(&format!("bus/pci/devices/{address}"), place);
    }

    /// Takes a port down, or up again.
    pub fn set_port(&self, device: &str, is_up: bool) {
        let state = if is_up { "4: ACTIVE" } else { "1: DOWN" };
        self.write(&format!("class/infiniband/{device}/ports/1/state"), state);
    }

    /// Lets the network lose so many per mille of the frames of unreliable queue pairs from now on.
    pub fn set_loss(&self, per_mille: u32) {
        fs::write(self.folder.path().join("unreliable_loss"), per_mille.to_string()).unwrap();
    }

    /// What a port has sent and received so far, in bytes.
    pub fn set_moved(&self, device: &str, bytes: u64) {
        for counter in ["port_xmit_data", "port_rcv_data"] {
            // In units of four bytes.
            let file = format!("class/infiniband/{device}/ports/1/counters/{counter}");
            self.write(&file, &(bytes / 4).to_string());
        }
    }

    /// `busbw WORDS` here.
    pub fn bench(&self, words: &str, variables: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::new(words);
        bench.looks_for_sockets = false;
        bench.also_writes = Some(self.folder.path().to_owned());
        self.on(&mut bench.command).envs(variables.iter().copied());
        bench
    }

    /// The command where this host is its machine.
    pub fn on<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("LD_LIBRARY_PATH", folder())
            .env("LD_PRELOAD", folder().join("libsysfs-shim.so"))
            .env("BUSBW_SHIM_RDMA", self.folder.path())
            .env("BUSBW_SHIM_GPUS", "3")
    }

    /// Runs it to its end.
    pub fn run(&self, words: &str, variables: &[(&str, &str)]) -> Ended {
        self.bench(words, variables).start().end(LIMIT)
    }

    /// Runs it, which must go well; what it compared was right.
    #[track_caller]
    pub fn well(&self, words: &str, variables: &[(&str, &str)]) -> Ended {
        let ended = self.run(words, variables);
        assert_eq!(ended.code(), Some(0), "{words}\n{}\n{}", ended.stdout, ended.stderr);
        assert!(
            ended.stdout.contains("# Out of bounds values : 0 OK"),
            "{words}: {}",
            ended.stdout
        );
        ended
    }
}
