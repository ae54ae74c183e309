//! What the nodes offer: GPUs and RDMA devices, from their allocatable resources, so that nobody types them.
//! Not what is free: that the scheduler decides.

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use serde_json::Value;

use super::{
    asked::{Pods, Rdma},
    kubectl::{Cause, Kubectl},
    template::Resources,
};

/// More of one resource than this are places of a shared device: one is enough.
const MOST_DEVICES: u64 = 32;

/// What each pod gets: as it was asked for, or what so many nodes have.
///
/// # Errors
/// What is asked for cannot be found out, or no node has it.
pub(super) fn resources(kubectl: &Kubectl, pods: &Pods) -> Result<Resources> {
    let named = match &pods.rdma {
        Rdma::None => Some(Vec::new()),
        Rdma::Named(all) => Some(all.clone()),
        // Without GPUs nothing is measured that RDMA moves.
        Rdma::Found if pods.gpus_per_node == Some(0) => Some(Vec::new()),
        Rdma::Found => None,
    };
    if let (Some(gpus), Some(rdma)) = (pods.gpus_per_node, &named) {
        return Ok(Resources { gpus, rdma: rdma.clone() });
    }
    let nodes = match kubectl.json(&["get", "nodes", "-o", "json"], "") {
        Ok(nodes) => nodes,
        Err(failed) if failed.cause == Cause::Forbidden => {
            let text = format!(
                "GPUs and RDMA devices are not known, since this user may not list nodes ({failed}): give --gpus-per-node N and --rdma RESOURCE or --rdma none"
            );
            return Err(ExitError::new(Exit::Usage, text).into());
        }
        Err(failed) => return Err(failed.into()),
    };
    let nodes: Vec<&Value> =
        nodes["items"].as_array().into_iter().flatten().filter(|node| suits(node, pods)).collect();
    let gpus = match pods.gpus_per_node {
        Some(gpus) => gpus,
        None => gpus_of(&nodes, pods)?,
    };
    Ok(Resources { gpus, rdma: named.unwrap_or_else(|| rdma_of(&nodes, pods, gpus)) })
}

/// Whether the pods could run on that node, as far as labels and cordons tell.
fn suits(node: &Value, pods: &Pods) -> bool {
    let labels = &node["metadata"]["labels"];
    node["spec"]["unschedulable"] != true
        && pods.node_selector.iter().all(|(key, value)| labels[key.as_str()] == value.as_str())
}

/// So many of a resource can be had on that node.
fn count(node: &Value, resource: &str) -> u64 {
    let text = node["status"]["allocatable"][resource].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The most GPUs that as many nodes as pods have.
fn gpus_of(nodes: &[&Value], pods: &Pods) -> Result<u32> {
    let mut counts: Vec<u64> = nodes.iter().map(|node| count(node, &pods.gpu_resource)).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let needed = if pods.share_nodes { 1 } else { pods.nodes.max(1) as usize };
    let gpus = counts.get(needed - 1).copied().unwrap_or(0);
    if gpus > 0 {
        return Ok(u32::try_from(gpus).unwrap_or(u32::MAX));
    }
    let have = counts.iter().filter(|count| **count > 0).count();
    let text = format!(
        "{needed} nodes with {} are needed, and {have} of {} that suit have any: fewer --nodes, another --node-selector or --gpu-resource, or --gpus-per-node 0 for a run without GPUs",
        pods.gpu_resource,
        nodes.len()
    );
    Err(ExitError::new(Exit::Impossible, text).into())
}

/// The RDMA resources that enough nodes with so many GPUs have, and how many a pod gets of each.
fn rdma_of(nodes: &[&Value], pods: &Pods, gpus: u32) -> Vec<(String, u64)> {
    let with_gpus: Vec<&&Value> =
        nodes.iter().filter(|node| count(node, &pods.gpu_resource) >= u64::from(gpus)).collect();
    let needed = if pods.share_nodes { 1 } else { pods.nodes.max(1) as usize };
    let names = with_gpus
        .iter()
        .flat_map(|node| node["status"]["allocatable"].as_object().into_iter().flatten());
    let mut names: Vec<&String> =
        names.map(|(name, _)| name).filter(|name| is_rdma(name)).collect();
    names.sort_unstable();
    names.dedup();
    let given = names.into_iter().filter_map(|name| {
        let mut counts: Vec<u64> = with_gpus.iter().map(|node| count(node, name)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let least = counts.get(needed - 1).copied().unwrap_or(0);
        let count = if least > MOST_DEVICES { 1 } else { least };
        (count > 0).then(|| (name.clone(), count))
    });
    given.collect()
}

/// Names of extended resources that are RDMA devices: NVIDIA's network operator and device plugins (`rdma/…`,
/// `nvidia.com/…rdma…`, `nvidia.com/hostdev`), AWS (`vpc.amazonaws.com/efa`), SR-IOV's operator (`openshift.io/…rdma…`).
fn is_rdma(name: &str) -> bool {
    name.starts_with("rdma/")
        || name == "vpc.amazonaws.com/efa"
        || name == "nvidia.com/hostdev"
        || (name.contains('/') && name.contains("rdma"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(allocatable: Value) -> Value {
        json!({ "metadata": { "labels": { "pool": "a" } }, "spec": {}, "status": { "allocatable": allocatable } })
    }

    fn pods(nodes: u32) -> Pods {
        Pods { nodes, gpu_resource: "nvidia.com/gpu".to_owned(), ..Pods::default() }
    }

    #[test]
    fn as_many_gpus_as_enough_nodes_have() {
        let all = [
            node(json!({ "nvidia.com/gpu": "8" })),
            node(json!({ "nvidia.com/gpu": "7" })),
            node(json!({ "cpu": "4" })),
        ];
        let all: Vec<&Value> = all.iter().collect();
        assert_eq!(gpus_of(&all, &pods(1)).unwrap(), 8);
        assert_eq!(gpus_of(&all, &pods(2)).unwrap(), 7);
        let why = gpus_of(&all, &pods(3)).unwrap_err().to_string();
        assert!(
            why.contains("3 nodes with nvidia.com/gpu are needed, and 2 of 3 that suit have any"),
            "{why}"
        );
    }

    #[test]
    fn rdma_devices_by_any_name() {
        let one = node(
            json!({ "nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "63", "nvidia.com/sriov-rdma-vf": "16", "cpu": "9" }),
        );
        let two = node(json!({ "nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "63" }));
        let both = [&one, &two];
        assert_eq!(rdma_of(&both, &pods(2), 8), [("rdma/hca_shared_devices_a".to_owned(), 1)]);
        let of_one = rdma_of(&both[..1], &pods(1), 8);
        assert_eq!(
            of_one,
            [
                ("nvidia.com/sriov-rdma-vf".to_owned(), 16),
                ("rdma/hca_shared_devices_a".to_owned(), 1)
            ]
        );
    }

    #[test]
    fn cordoned_nodes_and_other_labels_do_not_count() {
        let mut cordoned = node(json!({}));
        cordoned["spec"]["unschedulable"] = json!(true);
        assert!(!suits(&cordoned, &pods(1)));
        let labels = |value: &str| Pods {
            node_selector: vec![("pool".to_owned(), value.to_owned())],
            ..pods(1)
        };
        assert!(suits(&node(json!({})), &labels("a")) && !suits(&node(json!({})), &labels("b")));
    }
}
