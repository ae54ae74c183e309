//! A pod of a run: its container, what it gets of the node, and where it may run.
//! Not the object around it (`manifest`, `kinds`).

use super::{
    asked::{Kind, Pods},
    manifest::{COORDINATOR, Manifest, SECRET_KEY},
    yaml::{Map, Node},
};
use busbw_core::environment::{
    COORDINATOR_FILE, CUDA, HIP, HOST, JOB_SECRET_FILE, MPI, NCCL, NO_RECORD, NODES_FILE, NVML,
    PODS, RCCL, RELAYED, RENDEZVOUS_TIMEOUT, TERMINATION_LOG,
};

/// The name of busbw's container.
pub(super) const CONTAINER: &str = "busbw";
/// The label by which pods keep off each other's nodes.
const APART: &str = "busbw.dev/one-a-node";
/// The folder of the files that tell a pod the coordinator's address and the job's secret.
const TOLD: &str = "/etc/busbw";
/// Where busbw's plugins are written: any user may, and the image's files may be read-only.
const HOME: &str = "/tmp";
/// Seconds that a pod may take to end once it is told to.
const GRACE_S: u64 = 10;
/// Variables of this machine that mean nothing in a pod: files, and what a launcher sets.
const OF_THIS_MACHINE: [&str; 19] = [
    PODS,
    RENDEZVOUS_TIMEOUT,
    TERMINATION_LOG,
    "CUDA_HOME",
    "CUDA_PATH",
    HOST,
    NODES_FILE,
    NCCL,
    RCCL,
    CUDA,
    HIP,
    NVML,
    MPI,
    NO_RECORD,
    COORDINATOR_FILE,
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "MASTER_ADDR",
    "MASTER_PORT",
];

/// What each pod gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resources {
    /// GPUs.
    pub(super) gpus: u32,
    /// RDMA devices: extended resources and their numbers.
    pub(super) rdma: Vec<(String, u64)>,
}

/// A pod of `manifest`.
pub(super) fn template(manifest: &Manifest, job_name: &str, is_relayed: bool) -> Map {
    let pods = manifest.pods;
    let metadata = Map::default()
        .with("labels", manifest.labels().with(APART, manifest.name))
        .maybe("annotations", annotations(pods));
    Map::default().with("metadata", metadata).with(
        "spec",
        Map::default()
            .with("restartPolicy", "Never")
            .with("subdomain", manifest.name)
            .with("terminationGracePeriodSeconds", GRACE_S)
            .about("busbw asks the API server for nothing.", "automountServiceAccountToken", false)
            .and(placement(manifest))
            .and(claims(manifest))
            .with("containers", vec![container(manifest, job_name, is_relayed)])
            .with("volumes", volumes(manifest)),
    )
}

fn annotations(pods: &Pods) -> Option<Map> {
    pods.networks.as_ref().map(|networks| {
        Map::default().about(
            "Networks of Multus.",
            "k8s.v1.cni.cncf.io/networks",
            networks.as_str(),
        )
    })
}

/// Where the pods may run.
pub(super) fn placement(manifest: &Manifest) -> Map {
    let (pods, name) = (manifest.pods, manifest.name);
    let apart = (!pods.share_nodes).then(|| {
        let selector = Map::default().with("matchLabels", Map::default().with(APART, name));
        let term = Map::default()
            .with("labelSelector", selector)
            .with("topologyKey", "kubernetes.io/hostname");
        let required =
            Map::default().with("requiredDuringSchedulingIgnoredDuringExecution", vec![term]);
        Map::default().about("One pod a node.", "podAntiAffinity", required)
    });
    let same = (!manifest.nodes.is_empty()).then(|| {
        // By the nodes' own names: their labels may differ.
        let term = |node: &String| {
            let field = Map::default()
                .with("key", "metadata.name")
                .with("operator", "In")
                .with("values", vec![node.as_str()]);
            Map::default().with("matchFields", vec![field])
        };
        let terms: Vec<Map> = manifest.nodes.iter().map(term).collect();
        let selector = Map::default().with("nodeSelectorTerms", terms);
        let required =
            Map::default().with("requiredDuringSchedulingIgnoredDuringExecution", selector);
        Map::default().about("The nodes of the first launch.", "nodeAffinity", required)
    });
    let affinity = match (apart, same) {
        (None, None) => None,
        (apart, same) => Some(apart.unwrap_or_default().and(same.unwrap_or_default())),
    };
    let labels = (!pods.node_selector.is_empty()).then(|| {
        pods.node_selector
            .iter()
            .fold(Map::default(), |map, (key, value)| map.with(key, value.as_str()))
    });
    let tolerations: Vec<Map> = pods.tolerations.iter().map(|one| toleration(one)).collect();
    let secrets: Vec<Map> =
        pods.pull_secrets.iter().map(|name| Map::default().with("name", name.as_str())).collect();
    let some = |list: Vec<Map>| (!list.is_empty()).then_some(list);
    Map::default()
        .maybe("affinity", affinity)
        .maybe("nodeSelector", labels)
        .maybe("tolerations", some(tolerations))
        .maybe("priorityClassName", pods.priority_class.clone())
        .maybe("serviceAccountName", pods.service_account.clone())
        .maybe("imagePullSecrets", some(secrets))
        .maybe_about("The node's own network.", "hostNetwork", pods.host_network.then_some(true))
        .maybe("dnsPolicy", pods.host_network.then_some("ClusterFirstWithHostNet"))
}

/// `key=value:effect`, `key:effect`, `key`; `*` tolerates everything.
fn toleration(word: &str) -> Map {
    let (of, effect) = match word.rsplit_once(':') {
        Some((of, effect)) => (of, Some(effect)),
        None => (word, None),
    };
    let (key, value) = match of.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (of, None),
    };
    Map::default()
        .maybe("key", (key != "*").then_some(key))
        .with("operator", if value.is_some() { "Equal" } else { "Exists" })
        .maybe("value", value)
        .maybe("effect", effect)
}

/// The claim of the ComputeDomain.
fn claims(manifest: &Manifest) -> Map {
    let claim = manifest.pods.compute_domain.then(|| {
        let template = manifest.channel();
        vec![
            Map::default()
                .with("name", "compute-domain")
                .with("resourceClaimTemplateName", template),
        ]
    });
    Map::default().maybe("resourceClaims", claim)
}

fn container(manifest: &Manifest, job_name: &str, is_relayed: bool) -> Map {
    let pods = manifest.pods;
    let mount = |name, path| Map::default().with("name", name).with("mountPath", path);
    let told = is_told(pods).then(|| mount("told", TOLD));
    let mounts = [Some(mount("shm", "/dev/shm")), told, Some(mount("home", HOME))];
    let mounts: Vec<Map> = mounts.into_iter().flatten().collect();
    Map::default()
        .with("name", CONTAINER)
        .with("image", pods.image.as_str())
        .maybe("imagePullPolicy", pods.pull_policy.clone())
        .with("command", vec!["busbw"])
        .with("args", literal(arguments(manifest)))
        .with("env", Node::from(environment(manifest, job_name, is_relayed)))
        .maybe("resources", resources(manifest))
        .with("securityContext", security(pods, manifest.resources))
        .with("terminationMessagePolicy", "FallbackToLogsOnError")
        .with("volumeMounts", mounts)
}

/// The benchmark's words, with a rank for each GPU where nothing else was said.
pub(super) fn arguments(manifest: &Manifest) -> Vec<String> {
    let given = manifest.job.words.iter().map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = given.collect();
    let names_ranks = words.iter().any(|word| {
        let long = word.split('=').next().unwrap_or(word);
        ["--nthreads", "--ngpus"].contains(&long)
            || (!word.starts_with("--") && (word.starts_with("-g") || word.starts_with("-t")))
    });
    let is_benchmark = words.first().is_some_and(|word| !word.starts_with('_'));
    if manifest.resources.gpus > 1 && !names_ranks && is_benchmark {
        words.extend(["-g".to_owned(), manifest.resources.gpus.to_string()]);
    }
    words
}

/// Words as they are: Kubernetes reads $(NAME) in them.
pub(super) fn literal(words: Vec<String>) -> Node {
    Node::from(words.iter().map(|word| literal_value(word)).collect::<Vec<String>>())
}

/// The same of a variable's value.
pub(super) fn literal_value(value: &str) -> String {
    value.replace('$', "$$")
}

fn environment(manifest: &Manifest, job_name: &str, is_relayed: bool) -> Vec<Map> {
    let pods = manifest.pods;
    let entry = |name: &str, value: &str| Map::default().with("name", name).with("value", value);
    let field = |name: &str, path: &str| {
        let from = Map::default().with("fieldRef", Map::default().with("fieldPath", path));
        Map::default().with("name", name).with("valueFrom", from)
    };
    let mut all = vec![
        entry(PODS, &pods.nodes.to_string()),
        entry("HOME", HOME),
        entry("MASTER_ADDR", &format!("{job_name}-0.{}", manifest.name)),
        entry("MASTER_PORT", &manifest.port.to_string()),
        entry(COORDINATOR_FILE, &format!("{TOLD}/coordinator")),
        entry(RENDEZVOUS_TIMEOUT, &pods.wait.as_secs().to_string()),
        entry(JOB_SECRET_FILE, &format!("{TOLD}/{SECRET_KEY}")),
        field("NODE_NAME", "spec.nodeName"),
        field("POD_INDEX", "metadata.labels['batch.kubernetes.io/job-completion-index']"),
        // Pods of one node are hosts of their own.
        entry(HOST, if pods.share_nodes { "$(NODE_NAME)/$(POD_INDEX)" } else { "$(NODE_NAME)" }),
    ];
    if is_relayed {
        all.push(Map::default().about("", "name", RELAYED).about(
            "The first pod's log is the run's record; without this variable it is a table.",
            "value",
            "1",
        ));
    }
    all.extend(variables(manifest).map(|(name, value)| entry(name, &literal_value(value))));
    all
}

/// The variables of this shell that mean something in a pod, and those that were asked for.
pub(super) fn variables<'a>(manifest: &'a Manifest) -> impl Iterator<Item = &'a (String, String)> {
    let (job, asked) = (manifest.job, &manifest.pods.environment);
    // A sweep's variables are what it measures.
    let is_swept = |name: &String| job.swept.contains(name);
    let own = job.variables.iter().filter(move |(name, _)| {
        let is_asked = asked.iter().any(|(theirs, _)| theirs == name);
        is_swept(name) || !(is_asked || OF_THIS_MACHINE.contains(&name.as_str()))
    });
    own.chain(asked.iter().filter(move |(name, _)| !is_swept(name)))
}

fn resources(manifest: &Manifest) -> Option<Map> {
    let (pods, given) = (manifest.pods, manifest.resources);
    let mut limits = Map::default();
    if given.gpus > 0 {
        limits = limits.with(&pods.gpu_resource, u64::from(given.gpus));
    }
    for (name, count) in &given.rdma {
        limits = limits.with(name, *count);
    }
    limits = limits.maybe("memory", pods.memory.clone()).maybe("cpu", pods.cpu.clone());
    let limits = (limits != Map::default()).then_some(limits);
    let claims = pods.compute_domain.then(|| vec![Map::default().with("name", "compute-domain")]);
    (limits.is_some() || claims.is_some())
        .then(|| Map::default().maybe("limits", limits).maybe("claims", claims))
}

/// No privileges, but for pinned memory where there is RDMA.
fn security(pods: &Pods, resources: &Resources) -> Map {
    let capabilities = Map::default().with("drop", vec!["ALL"]);
    let capabilities = match resources.rdma.is_empty() {
        true => capabilities,
        // Memory that a NIC reads must be pinned: beyond RLIMIT_MEMLOCK that takes this capability.
        false => capabilities.about("RDMA pins memory.", "add", vec!["IPC_LOCK"]),
    };
    let profile = Map::default().with("type", "RuntimeDefault");
    Map::default()
        .with("allowPrivilegeEscalation", false)
        .with("capabilities", capabilities)
        .with("seccompProfile", profile)
        .maybe("runAsNonRoot", pods.user.is_some().then_some(true))
        .maybe("runAsUser", pods.user.map(u64::from))
}

/// Whether files tell a pod the coordinator and the secret; mpirun tells its processes by variables.
fn is_told(pods: &Pods) -> bool {
    pods.kind != Kind::MpiJob
}

fn volumes(manifest: &Manifest) -> Vec<Map> {
    let limit = manifest.pods.shm.clone();
    let memory = Map::default().with("medium", "Memory").maybe("sizeLimit", limit);
    let memory = Map::default().with("name", "shm").about(
        "Ranks of one pod share memory; a container's own limit is 64 MiB.",
        "emptyDir",
        memory,
    );
    let home = Map::default().with("name", "home").with("emptyDir", Map::default());
    let told = is_told(manifest.pods).then(|| {
        let field =
            Map::default().with("fieldPath", format!("metadata.annotations['{COORDINATOR}']"));
        let item = Map::default().with("path", "coordinator").with("fieldRef", field);
        let address = Map::default().about(
            "The first pod's address, where the cluster's DNS does not tell it.",
            "downwardAPI",
            Map::default().with("items", vec![item]),
        );
        let secret = Map::default().with("secret", Map::default().with("name", manifest.name));
        Map::default()
            .with("name", "told")
            .with("projected", Map::default().with("sources", vec![address, secret]))
    });
    [memory, home].into_iter().chain(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_as_kubectl_writes_them() {
        let text = |word: &str| toleration(word).to_string().replace('\n', ",");
        assert_eq!(
            text("nvidia.com/gpu=present:NoSchedule"),
            "key: nvidia.com/gpu,operator: Equal,value: present,effect: NoSchedule,"
        );
        assert_eq!(
            text("nvidia.com/gpu:NoSchedule"),
            "key: nvidia.com/gpu,operator: Exists,effect: NoSchedule,"
        );
        assert_eq!(text("dedicated"), "key: dedicated,operator: Exists,");
        assert_eq!(text("*"), "operator: Exists,");
    }
}
