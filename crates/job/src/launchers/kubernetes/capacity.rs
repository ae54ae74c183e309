//! What the nodes offer: GPUs and RDMA devices, from their allocatable resources, so that nobody types them.
//! Not what is free: that the scheduler decides.

use std::collections::BTreeMap;

use anyhow::Result;
use busbw_core::exit::{Exit, ExitError};
use serde_json::Value;

use super::{
    asked::{Pods, Rdma},
    kubectl::{Cause, Kubectl},
    quantity,
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
    if pods.share_nodes && pods.gpus_per_node.is_none() {
        let text = "with --share-nodes how many GPUs each pod gets is not known: --gpus-per-node N";
        return Err(ExitError::new(Exit::Usage, text).into());
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

/// How much of a resource the nodes have, as the end of a sentence; none where this user may not list nodes.
pub(super) fn offered(kubectl: &Kubectl, pods: &Pods, resource: &str) -> Option<String> {
    let nodes = kubectl.json(&["get", "nodes", "-o", "json"], "").ok()?;
    let nodes = nodes["items"].as_array()?;
    let suiting: Vec<&Value> = nodes.iter().filter(|node| suits(node, pods)).collect();
    let counts = || suiting.iter().map(|node| count(node, resource));
    let all: u64 = counts().sum();
    let with = counts().filter(|count| *count > 0).count();
    let most = counts().max().unwrap_or(0);
    Some(format!(
        "the cluster has {all} {resource} on {with} nodes that suit, at most {most} on one, in use or not"
    ))
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
    text.and_then(quantity::count).unwrap_or(0)
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

/// The RDMA resources that enough nodes with so many GPUs have all of, and how many a pod gets of each.
fn rdma_of(nodes: &[&Value], pods: &Pods, gpus: u32) -> Vec<(String, u64)> {
    let needed = if pods.share_nodes { 1 } else { pods.nodes.max(1) as usize };
    let offers: Vec<BTreeMap<&str, u64>> = nodes
        .iter()
        .filter(|node| count(node, &pods.gpu_resource) >= u64::from(gpus))
        .map(|node| rdma_on(node))
        .collect();
    // What one node has, on enough of them: pods are all alike.
    let sets = offers.iter().map(|offer| {
        let has_all =
            |other: &&BTreeMap<&str, u64>| offer.keys().all(|name| other.contains_key(name));
        let alike: Vec<&BTreeMap<&str, u64>> = offers.iter().filter(has_all).collect();
        (offer, alike)
    });
    let most = sets.filter(|(_, alike)| alike.len() >= needed).max_by_key(|(offer, _)| offer.len());
    let Some((offer, alike)) = most else { return Vec::new() };
    let given = offer.keys().map(|name| {
        let mut counts: Vec<u64> = alike.iter().map(|other| other[name]).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let least = counts[needed - 1];
        ((*name).to_owned(), if least > MOST_DEVICES { 1 } else { least })
    });
    given.collect()
}

/// RDMA resources of a node that it has any of.
fn rdma_on(node: &Value) -> BTreeMap<&str, u64> {
    let all = node["status"]["allocatable"].as_object().into_iter().flatten();
    let all =
        all.filter(|(name, _)| is_rdma(name)).map(|(name, _)| (name.as_str(), count(node, name)));
    all.filter(|(_, count)| *count > 0).collect()
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

    /// Pods are alike: what two nodes have is not asked for together with what two others have. Counts may be written as 1k.
    #[test]
    fn rdma_devices_of_different_nodes() {
        let of = |name: &str| node(json!({ "nvidia.com/gpu": "8", name: "1k" }));
        let all = [of("rdma/a"), of("rdma/a"), of("rdma/b"), of("rdma/b")];
        let all: Vec<&Value> = all.iter().collect();
        let given = rdma_of(&all, &pods(2), 8);
        assert!(
            given == [("rdma/a".to_owned(), 1)] || given == [("rdma/b".to_owned(), 1)],
            "{given:?}"
        );
        assert_eq!(rdma_of(&all, &pods(3), 8), []);
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
