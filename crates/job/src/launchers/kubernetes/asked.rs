//! What was asked of Kubernetes: how many pods, what they need, which image, and what stays.
//! Not the options as typed (`busbw-cli`), and not the manifest (`manifest`).

use std::time::Duration;

/// The object that holds the pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// An indexed Job with a headless Service: nothing has to be installed in the cluster.
    #[default]
    Job,
    /// An MPIJob of kubeflow.org/v2beta1: mpi-operator and an image with sshd and mpirun.
    MpiJob,
    /// A JobSet of jobset.x-k8s.io/v1alpha2.
    JobSet,
    /// A CronJob that makes the indexed Job every night.
    CronJob,
    /// No pods: the least Role with which a run can be started, followed and deleted.
    Role,
}

impl Kind {
    /// Every kind, with its name on the command line and a line about it.
    pub const ALL: [(Kind, &'static str, &'static str); 5] = [
        (Kind::Job, "job", "An indexed Job and a headless Service: nothing else is installed"),
        (Kind::MpiJob, "mpijob", "An MPIJob v2beta1: needs mpi-operator, and sshd in the image"),
        (Kind::JobSet, "jobset", "A JobSet, printed with --dry-run"),
        (Kind::CronJob, "cronjob", "A nightly check, printed with --dry-run"),
        (Kind::Role, "role", "The least Role that suffices, printed with --dry-run"),
    ];
}

/// Which RDMA devices a pod gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Rdma {
    /// Those that all chosen nodes offer.
    #[default]
    Found,
    /// None.
    None,
    /// These extended resources, each with a number.
    Named(Vec<(String, u64)>),
}

/// Pods, as they were asked for.
#[derive(Debug, Clone, Default)]
pub struct Pods {
    /// The kubeconfig's context; none for the current one.
    pub context: Option<String>,
    /// The namespace; none for the context's own.
    pub namespace: Option<String>,
    /// What holds the pods.
    pub kind: Kind,
    /// Pods.
    pub nodes: u32,
    /// GPUs of a pod; none to read them from the nodes.
    pub gpus_per_node: Option<u32>,
    /// The resource that counts GPUs.
    pub gpu_resource: String,
    /// RDMA devices of a pod.
    pub rdma: Rdma,
    /// The image.
    pub image: String,
    /// Always, IfNotPresent or Never; none for Kubernetes' own rule.
    pub pull_policy: Option<String>,
    /// Names of Secrets by which the image is pulled.
    pub pull_secrets: Vec<String>,
    /// Whether several pods may run on one node.
    pub share_nodes: bool,
    /// Whether the pods have the node's network.
    pub host_network: bool,
    /// Multus networks, as its annotation holds them.
    pub networks: Option<String>,
    /// Labels of the nodes.
    pub node_selector: Vec<(String, String)>,
    /// Taints that are tolerated, as kubectl writes them: `key=value:effect`, `key:effect`, `key`.
    pub tolerations: Vec<String>,
    /// The priority class.
    pub priority_class: Option<String>,
    /// The service account.
    pub service_account: Option<String>,
    /// Kueue's queue.
    pub queue: Option<String>,
    /// The user that the container runs as; with it the pod suits PodSecurity's restricted profile.
    pub user: Option<u32>,
    /// Variables of the container beside those of the job.
    pub environment: Vec<(String, String)>,
    /// The size of /dev/shm, as Kubernetes writes quantities; none for no limit of its own.
    pub shm: Option<String>,
    /// The memory of a pod, as Kubernetes writes quantities; none for no limit.
    pub memory: Option<String>,
    /// The processors of a pod, as Kubernetes writes quantities; none for no limit.
    pub cpu: Option<String>,
    /// Whether the pods are in one ComputeDomain (GB200, GB300: memory of GPUs across nodes).
    pub compute_domain: bool,
    /// When the cluster ends the job, whatever else happens.
    pub deadline: Duration,
    /// How long the ended job stays.
    pub ttl: Duration,
    /// How long pods may wait for nodes, images and each other.
    pub wait: Duration,
    /// Whether the job stays in the cluster.
    pub keep: bool,
    /// When a CronJob runs, as cron writes it.
    pub schedule: String,
}
