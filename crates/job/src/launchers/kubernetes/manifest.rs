//! The objects of a run: an indexed Job whose pods find each other, a headless Service, and a Secret that goes with the Job.
//! Not a pod's container (`template`), and not other kinds (`kinds`).

use super::{
    asked::{Kind, Pods},
    template::{Resources, template},
    yaml::{Map, Node},
};
use crate::launchers::job::Job;

/// The label that every object of a run has, with the run's name.
pub(super) const INSTANCE: &str = "app.kubernetes.io/instance";
/// The key of the Secret.
pub(super) const SECRET_KEY: &str = "secret";
/// The annotation of a pod that tells it the coordinator's address.
pub(super) const COORDINATOR: &str = "busbw.dev/coordinator";

/// A run in the cluster.
#[derive(Debug)]
pub(super) struct Manifest<'a> {
    /// The name of all its objects.
    pub(super) name: &'a str,
    /// The port of its rendezvous.
    pub(super) port: u16,
    /// What runs.
    pub(super) job: &'a Job,
    /// What was asked.
    pub(super) pods: &'a Pods,
    /// What each pod gets.
    pub(super) resources: &'a Resources,
    /// The nodes where it is to run; empty for any.
    pub(super) nodes: &'a [String],
}

impl Manifest<'_> {
    /// Name, namespace and labels of an object.
    pub(super) fn metadata(&self, owner: Option<&str>) -> Map {
        let (version, kind) = match self.pods.kind {
            Kind::MpiJob => ("kubeflow.org/v2beta1", "MPIJob"),
            _ => ("batch/v1", "Job"),
        };
        let owner = owner.map(|uid| {
            let job = Map::default()
                .with("apiVersion", version)
                .with("kind", kind)
                .with("name", self.name)
                .with("uid", uid);
            vec![job]
        });
        Map::default()
            .with("name", self.name)
            .maybe("namespace", self.pods.namespace.clone())
            .with("labels", self.labels())
            .maybe_about("It is deleted with the Job.", "ownerReferences", owner)
    }

    /// The labels of every object, and of the pods.
    pub(super) fn labels(&self) -> Map {
        Map::default()
            .with("app.kubernetes.io/name", "busbw")
            .with(INSTANCE, self.name)
            .maybe("kueue.x-k8s.io/queue-name", self.pods.queue.clone())
    }

    /// An object's first lines.
    pub(super) fn object(
        &self,
        about: &str,
        version: &str,
        kind: &str,
        owner: Option<&str>,
    ) -> Map {
        Map::default()
            .about(about, "apiVersion", version)
            .with("kind", kind)
            .with("metadata", self.metadata(owner))
    }

    /// The Job.
    pub(super) fn job(&self) -> Map {
        let about = "The run: one pod a node. The pod's index is its number among the processes.";
        self.object(about, "batch/v1", "Job", None).with("spec", self.job_spec(self.name, true))
    }

    /// What a Job is; `job_name` is the Job's own name, or how a pod learns it.
    pub(super) fn job_spec(&self, job_name: &str, is_relayed: bool) -> Map {
        let pods = self.pods;
        let count = u64::from(pods.nodes);
        Map::default()
            .with("completionMode", "Indexed")
            .with("completions", count)
            .with("parallelism", count)
            .about("One lost pod ends the run: nothing is tried again.", "backoffLimit", 0)
            .about(
                "The cluster ends the run then, even if nobody watches.",
                "activeDeadlineSeconds",
                pods.deadline.as_secs(),
            )
            .maybe_about(
                "What has ended is deleted.",
                "ttlSecondsAfterFinished",
                (!pods.keep).then_some(pods.ttl.as_secs()),
            )
            .with("template", template(self, job_name, is_relayed))
    }

    /// The Service that gives the pods names.
    pub(super) fn service(&self, owner: Option<&str>) -> Map {
        let about =
            "Names for the pods, also before they are ready: the others connect to the first.";
        let selector = Map::default().with(INSTANCE, self.name);
        self.object(about, "v1", "Service", owner).with(
            "spec",
            Map::default()
                .with("clusterIP", "None")
                .with("publishNotReadyAddresses", true)
                .with("selector", selector),
        )
    }

    /// The Secret by which the processes authenticate.
    pub(super) fn secret(&self, secret: &str, owner: &str) -> Map {
        let about = "By it the processes of the run authenticate.";
        self.object(about, "v1", "Secret", Some(owner))
            .with("stringData", Map::default().with(SECRET_KEY, secret))
    }

    /// The ComputeDomain: GPUs of several nodes that reach each other's memory.
    /// NVIDIA's DRA driver for GPUs, api/nvidia.com/resource/v1beta1/computedomain.go.
    pub(super) fn compute_domain(&self, owner: Option<&str>) -> Map {
        let about = "GPUs of all pods reach each other's memory (IMEX).";
        let template = Map::default().with("name", self.channel());
        self.object(about, "resource.nvidia.com/v1beta1", "ComputeDomain", owner).with(
            "spec",
            Map::default()
                .with("numNodes", u64::from(self.pods.nodes))
                .with("channel", Map::default().with("resourceClaimTemplate", template)),
        )
    }

    /// The claim template that the ComputeDomain makes.
    pub(super) fn channel(&self) -> String {
        format!("{}-channel", self.name)
    }

    /// What is made once the Job is there and its uid known, beside the Secret. mpi-operator makes a Service itself.
    pub(super) fn belongings(&self, owner: Option<&str>) -> Vec<Map> {
        let service = (self.pods.kind != Kind::MpiJob).then(|| self.service(owner));
        let domain = self.pods.compute_domain.then(|| self.compute_domain(owner));
        [service, domain].into_iter().flatten().collect()
    }

    /// Everything but the Secret, as people commit it.
    pub(super) fn to_commit(&self) -> String {
        let all = std::iter::once(self.job()).chain(self.belongings(None));
        format!("{}{}", self.about_secret(), documents(all))
    }

    /// How the Secret is made that the pods refer to.
    pub(super) fn about_secret(&self) -> String {
        let namespace = self.pods.namespace.iter().map(|name| format!(" --namespace {name}"));
        format!(
            "# The Secret holds what the processes authenticate by. busbw makes it, and makes Service and Secret the Job's own.\n\
             # By hand: kubectl create secret generic {} --from-literal={SECRET_KEY}=\"$(openssl rand -hex 16)\"{}\n",
            self.name,
            namespace.collect::<String>()
        )
    }
}

/// Several documents in one text.
pub(super) fn documents(all: impl IntoIterator<Item = Map>) -> String {
    all.into_iter().map(|one| format!("---\n{one}")).collect()
}

/// The least Role with which a run can be started, followed and deleted.
pub(super) fn role(pods: &Pods) -> Map {
    let namespace = pods.namespace.clone();
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| {
        Map::default()
            .with("apiGroups", vec![group])
            .with("resources", resources.to_vec())
            .with("verbs", verbs.to_vec())
    };
    let mut rules: Vec<Map> = vec![
        rule("batch", &["jobs"], &["create", "get", "list", "delete"]),
        rule("", &["services", "secrets"], &["create", "delete"]),
        rule("", &["pods"], &["get", "list", "patch", "delete"]),
        rule("", &["pods/log", "events"], &["get", "list"]),
    ];
    if pods.compute_domain {
        rules.push(rule("resource.nvidia.com", &["computedomains"], &["create", "delete"]));
    }
    Map::default()
        .about(
            "What a person needs who runs busbw. Reading nodes (GPUs and RDMA devices found by themselves) needs get and list of nodes in a ClusterRole; --kind mpijob needs create and delete of mpijobs of kubeflow.org.",
            "apiVersion",
            "rbac.authorization.k8s.io/v1",
        )
        .with("kind", "Role")
        .with("metadata", Map::default().with("name", "busbw").maybe("namespace", namespace))
        .with("rules", Node::from(rules))
}
