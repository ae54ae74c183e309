//! Options of `--launcher kubernetes`: how many pods, of what image, with what of the node, and for how long.
//! Not what follows from them (`busbw_job::launchers::kubernetes`).

use std::time::Duration;

use busbw_core::environment;
use busbw_job::launchers::{
    LauncherName,
    kubernetes::{Kind, Pods, Rdma},
};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

/// Defaults of `--deadline`, `--ttl` and `--wait`.
const DEADLINE: Duration = Duration::from_secs(1800);
const TTL: Duration = Duration::from_secs(300);
const WAIT: Duration = Duration::from_secs(300);
/// Variables that a pod gets from busbw.
const OWN_VARIABLES: [&str; 9] = [
    environment::PODS,
    environment::HOST,
    environment::RELAYED,
    environment::JOB_SECRET,
    environment::JOB_SECRET_FILE,
    environment::COORDINATOR_FILE,
    environment::RENDEZVOUS_TIMEOUT,
    "MASTER_ADDR",
    "MASTER_PORT",
];

/// The heading of these options in the help.
pub(super) const HEADING: &str = "Kubernetes (--launcher kubernetes)";

/// `--kind`'s names, as the help lists them.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    let names = Kind::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|word| {
        let named = Kind::ALL.iter().find(|(_, name, _)| **name == *word);
        named.map_or(Kind::Job, |(kind, ..)| *kind)
    })
}

/// What is asked of Kubernetes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct KubernetesArguments {
    /// Pods, one a node [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), hide_short_help = true)]
    pub nodes: Option<u32>,
    /// GPUs of a pod; 0 for a run without GPUs [default: as many as enough nodes have]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub gpus_per_node: Option<u32>,
    /// Image with busbw in its PATH, and with NCCL where GPUs are measured [default: none]
    #[arg(long, value_name = "IMAGE", hide_short_help = true)]
    pub image: Option<String>,
    /// Context of kubectl [default: the current one]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub context: Option<String>,
    /// Namespace [default: the context's]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub namespace: Option<String>,
    /// Object that holds the pods [default: job]
    #[arg(long, value_name = "KIND", value_parser = kinds(), hide_short_help = true)]
    pub kind: Option<Kind>,
    /// RDMA devices of a pod: none, or RESOURCE[:N], several with commas [default: what the nodes offer]
    #[arg(long, value_name = "RESOURCES", value_parser = rdma, hide_short_help = true)]
    pub rdma: Option<Rdma>,
    /// Extended resource that counts GPUs [default: nvidia.com/gpu]
    #[arg(long, value_name = "RESOURCE", hide_short_help = true)]
    pub gpu_resource: Option<String>,
    /// Let several pods run on one node
    #[arg(long, hide_short_help = true)]
    pub share_nodes: bool,
    /// Give pods the node's own network
    #[arg(long, hide_short_help = true)]
    pub host_network: bool,
    /// Networks of Multus, as its annotation holds them [default: none]
    #[arg(long, value_name = "NETWORKS", hide_short_help = true)]
    pub pod_networks: Option<String>,
    /// Put the pods into one ComputeDomain: GB200 and GB300, whose GPUs reach each other's memory across nodes
    #[arg(long, hide_short_help = true)]
    pub compute_domain: bool,
    /// Label of the nodes; several times for several [default: any node]
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, hide_short_help = true)]
    pub node_selector: Vec<(String, String)>,
    /// Taint that is tolerated: KEY, KEY:EFFECT, KEY=VALUE:EFFECT, * for all; several times for several [default: none]
    #[arg(long, value_name = "TAINT", hide_short_help = true)]
    pub toleration: Vec<String>,
    /// Variable of the pods; several times for several [default: NCCL_*, UCX_* and the like of this shell]
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, hide_short_help = true)]
    pub env: Vec<(String, String)>,
    /// When an image is pulled: Always, IfNotPresent, Never [default: as Kubernetes decides]
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"], hide_short_help = true, hide_possible_values = true)]
    pub image_pull_policy: Option<String>,
    /// Secret by which the image is pulled; several times for several [default: the service account's]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub image_pull_secret: Vec<String>,
    /// Service account [default: the namespace's]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub service_account: Option<String>,
    /// Priority class; choose one that preempts nobody [default: the cluster's]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub priority_class: Option<String>,
    /// Queue of Kueue [default: none]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub queue: Option<String>,
    /// User that the container runs as, which suits PodSecurity's restricted profile [default: the image's]
    #[arg(long, value_name = "UID", hide_short_help = true)]
    pub run_as_user: Option<u32>,
    /// Size of /dev/shm, such as 8Gi [default: the pod's memory]
    #[arg(long, value_name = "QUANTITY", hide_short_help = true)]
    pub shm: Option<String>,
    /// Memory of a pod, such as 64Gi [default: no limit]
    #[arg(long, value_name = "QUANTITY", hide_short_help = true)]
    pub pod_memory: Option<String>,
    /// Processors of a pod, such as 16 [default: no limit]
    #[arg(long, value_name = "QUANTITY", hide_short_help = true)]
    pub pod_cpu: Option<String>,
    /// When the cluster ends the job, whatever happens here [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = time, hide_short_help = true)]
    pub deadline: Option<Duration>,
    /// How long the ended job stays where nobody deletes it [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = time, hide_short_help = true)]
    pub ttl: Option<Duration>,
    /// How long pods may wait for nodes, images and each other [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = time, hide_short_help = true)]
    pub wait: Option<Duration>,
    /// When a CronJob runs [default: 0 3 * * *]
    #[arg(long, value_name = "CRON", hide_short_help = true)]
    pub schedule: Option<String>,
    /// Keep the job, its pods and their logs after the run; Ctrl-C deletes them all the same
    #[arg(long, hide_short_help = true)]
    pub keep: bool,
}

impl KubernetesArguments {
    /// An option that was given, if any was.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--nodes", self.nodes.is_some()),
            ("--gpus-per-node", self.gpus_per_node.is_some()),
            ("--image", self.image.is_some()),
            ("--context", self.context.is_some()),
            ("--namespace", self.namespace.is_some()),
            ("--kind", self.kind.is_some()),
            ("--rdma", self.rdma.is_some()),
            ("--gpu-resource", self.gpu_resource.is_some()),
            ("--share-nodes", self.share_nodes),
            ("--host-network", self.host_network),
            ("--pod-networks", self.pod_networks.is_some()),
            ("--compute-domain", self.compute_domain),
            ("--node-selector", !self.node_selector.is_empty()),
            ("--toleration", !self.toleration.is_empty()),
            ("--env", !self.env.is_empty()),
            ("--image-pull-policy", self.image_pull_policy.is_some()),
            ("--image-pull-secret", !self.image_pull_secret.is_empty()),
            ("--service-account", self.service_account.is_some()),
            ("--priority-class", self.priority_class.is_some()),
            ("--queue", self.queue.is_some()),
            ("--run-as-user", self.run_as_user.is_some()),
            ("--shm", self.shm.is_some()),
            ("--pod-memory", self.pod_memory.is_some()),
            ("--pod-cpu", self.pod_cpu.is_some()),
            ("--deadline", self.deadline.is_some()),
            ("--ttl", self.ttl.is_some()),
            ("--wait", self.wait.is_some()),
            ("--schedule", self.schedule.is_some()),
            ("--keep", self.keep),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
    }

    /// The pods that were asked for.
    ///
    /// # Errors
    /// Options without `--launcher kubernetes`, or that launcher without them.
    pub fn pods(&self, launcher: Option<LauncherName>) -> Result<Option<Pods>, String> {
        if launcher != Some(LauncherName::Kubernetes) {
            return match self.first_given() {
                Some(option) => Err(format!("{option} needs --launcher kubernetes")),
                None => Ok(None),
            };
        }
        if self.schedule.is_some() && self.kind != Some(Kind::CronJob) {
            return Err("--schedule is a CronJob's: --kind cronjob".to_owned());
        }
        let is_ours = |name: &str| OWN_VARIABLES.contains(&name);
        if let Some((name, _)) = self.env.iter().find(|(name, _)| is_ours(name)) {
            return Err(format!("--env {name}: busbw sets it in every pod: leave it out"));
        }
        let is_role = self.kind == Some(Kind::Role);
        let (none, no_image) = (is_role.then_some(1), is_role.then(String::new));
        let nodes = self
            .nodes
            .or(none)
            .ok_or("--launcher kubernetes needs --nodes N: how many pods, one a node")?;
        let image = self.image.clone().or(no_image).ok_or(
            "--launcher kubernetes needs --image IMAGE, with busbw in its PATH; docs/kubernetes.md says how to make one",
        )?;
        Ok(Some(Pods {
            context: self.context.clone(),
            namespace: self.namespace.clone(),
            kind: self.kind.unwrap_or_default(),
            nodes,
            gpus_per_node: self.gpus_per_node,
            gpu_resource: self.gpu_resource.clone().unwrap_or_else(|| "nvidia.com/gpu".to_owned()),
            rdma: self.rdma.clone().unwrap_or_default(),
            image,
            pull_policy: self.image_pull_policy.clone(),
            pull_secrets: self.image_pull_secret.clone(),
            share_nodes: self.share_nodes,
            host_network: self.host_network,
            networks: self.pod_networks.clone(),
            node_selector: self.node_selector.clone(),
            tolerations: self.toleration.clone(),
            priority_class: self.priority_class.clone(),
            service_account: self.service_account.clone(),
            queue: self.queue.clone(),
            user: self.run_as_user,
            environment: self.env.clone(),
            shm: self.shm.clone(),
            memory: self.pod_memory.clone(),
            cpu: self.pod_cpu.clone(),
            compute_domain: self.compute_domain,
            deadline: self.deadline.unwrap_or(DEADLINE),
            ttl: self.ttl.unwrap_or(TTL),
            wait: self.wait.unwrap_or(WAIT),
            keep: self.keep,
            schedule: self.schedule.clone().unwrap_or_else(|| "0 3 * * *".to_owned()),
        }))
    }
}

fn pair(word: &str) -> Result<(String, String), String> {
    let parts = word.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| format!("`{word}` is no NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `none`, or `RESOURCE[:N]` with commas.
fn rdma(word: &str) -> Result<Rdma, String> {
    if word == "none" {
        return Ok(Rdma::None);
    }
    let one = |word: &str| {
        let (name, count) =
            word.rsplit_once(':').map_or((word, Ok(1)), |(name, count)| (name, count.parse()));
        match count {
            Ok(count) if count > 0 && name.contains('/') => Ok((name.to_owned(), count)),
            _ => Err(format!(
                "`{word}` is no extended resource, such as rdma/hca_shared_devices_a or nvidia.com/hostdev:8"
            )),
        }
    };
    word.split(',').map(one).collect::<Result<_, _>>().map(Rdma::Named)
}

/// `90s`, `30m`, `1h`, or seconds, whole.
fn time(word: &str) -> Result<Duration, String> {
    if matches!(word.trim(), "0" | "0s") {
        return Ok(Duration::ZERO);
    }
    let seconds = super::checking::duration(word)?;
    Ok(Duration::from_secs(seconds.ceil() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdma_resources() {
        assert_eq!(rdma("none"), Ok(Rdma::None));
        let named = |all: &[(&str, u64)]| {
            Ok(Rdma::Named(all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()))
        };
        assert_eq!(rdma("rdma/a"), named(&[("rdma/a", 1)]));
        assert_eq!(
            rdma("rdma/a:2,vpc.amazonaws.com/efa:32"),
            named(&[("rdma/a", 2), ("vpc.amazonaws.com/efa", 32)])
        );
        for word in ["", "all", "rdma/a:0", "rdma/a:x", ":2"] {
            assert!(rdma(word).is_err(), "{word}");
        }
    }

    #[test]
    fn options_belong_to_their_launcher() {
        let some = KubernetesArguments { nodes: Some(2), ..KubernetesArguments::default() };
        assert!(some.pods(None).unwrap_err().contains("--nodes needs --launcher kubernetes"));
        assert!(some.pods(Some(LauncherName::Kubernetes)).unwrap_err().contains("--image"));
        assert!(KubernetesArguments::default().pods(None).unwrap().is_none());
    }
}
