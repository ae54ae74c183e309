//! What a pod lacks so that NCCL fails there, or goes over sockets and says nothing of it: said before a run.
//! Not the whole preflight, which asks the driver, too.

use busbw_ffi::search::Environment;

use super::{Node, memory, verbs};
use crate::machine::{self, Root};

/// The sentences for a pod of `gpus` GPUs; none outside of a pod, whose files and limits its manifest does not choose.
pub fn lacking(root: Root, environment: Environment, gpus: usize) -> Vec<String> {
    if environment.get("KUBERNETES_SERVICE_HOST").is_none() {
        return Vec::new();
    }
    // The bus shows the node's GPUs, not the pod's.
    let (pci, rdma) = (Vec::new(), machine::rdma(&root));
    let driver = Err("it is not asked".to_owned());
    let node = Node {
        root,
        environment,
        driver,
        pci,
        rdma,
        nccl: Vec::new(),
        bridging: Vec::new(),
        devlink: Vec::new(),
    };
    let mut found = verbs::check(&node);
    found.extend([memory::locked(&node), memory::shared(&node, gpus)]);
    let wrong = found.iter().filter(|finding| finding.severity.is_wrong());
    wrong.map(|finding| format!("this pod lacks what NCCL needs: {finding}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::Recorded;

    #[test]
    fn said_in_a_pod_alone() {
        let server = Recorded::server();
        server.limit("65536");
        server.write("proc/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0\n");
        server.remove("usr/lib64");
        let said = |gpus, environment| {
            lacking(Root::new(server.root_path("")), environment, gpus).join("\n")
        };
        let pod = || Environment::default().with("KUBERNETES_SERVICE_HOST", "10.96.0.1");
        let all = said(8, pod());
        for words in [
            "libibverbs.so.1 is not found",
            "memlock: 64 KiB",
            "IPC_LOCK",
            "/dev/shm: 64 MiB",
            "medium Memory",
        ] {
            assert!(all.contains(words), "{words}: {all}");
        }
        assert!(!said(1, pod()).contains("/dev/shm"));
        assert_eq!(said(8, Environment::default()), "");
    }
}
