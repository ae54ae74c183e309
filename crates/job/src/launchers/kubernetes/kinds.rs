//! The run as other objects: an MPIJob, a JobSet, a CronJob that checks every night.
//! Not the indexed Job (`manifest`).

use busbw_core::environment::{JOB_SECRET, RELAYED};

use super::{
    asked::Kind,
    manifest::{Manifest, SECRET_KEY, documents, role},
    template::{CONTAINER, arguments, literal, literal_value, placement, template, variables},
    yaml::Map,
};

/// What `--dry-run` prints for `kind`.
pub(super) fn to_commit(kind: Kind, manifest: &Manifest) -> String {
    match kind {
        Kind::Job => manifest.to_commit(),
        Kind::MpiJob => {
            let all = std::iter::once(mpi_job(manifest)).chain(manifest.belongings(None));
            manifest.about_secret() + &documents(all)
        }
        Kind::JobSet => manifest.about_secret() + &documents([job_set(manifest)]),
        Kind::CronJob => {
            manifest.about_secret() + &documents([cron_job(manifest), manifest.service(None)])
        }
        Kind::Role => documents([role(manifest.pods)]),
    }
}

/// An MPIJob of mpi-operator. pkg/apis/kubeflow/v2beta1/types.go, pkg/controller/mpi_job_controller.go
pub(super) fn mpi_job(manifest: &Manifest) -> Map {
    let pods = manifest.pods;
    let slots = u64::from(manifest.resources.gpus.max(1));
    let replicas = |count: u64, template: Map| {
        Map::default()
            .with("replicas", count)
            // The operator overrides the pods' own, and would begin a launcher that fails again.
            .with("restartPolicy", "Never")
            .with("template", template)
    };
    let processes = u64::from(pods.nodes) * slots;
    let about = "The run under mpi-operator: it starts sshd in the workers and mpirun in the launcher. The image needs both.";
    manifest.object(about, "kubeflow.org/v2beta1", "MPIJob", None).with(
        "spec",
        Map::default()
            .with("slotsPerWorker", slots)
            .about(
                "Else mpirun starts before sshd does.",
                "launcherCreationPolicy",
                "WaitForWorkersReady",
            )
            .with(
                "runPolicy",
                Map::default()
                    .with("cleanPodPolicy", "Running")
                    .with("backoffLimit", 0)
                    .with("activeDeadlineSeconds", pods.deadline.as_secs())
                    .with("ttlSecondsAfterFinished", pods.ttl.as_secs()),
            )
            .with(
                "mpiReplicaSpecs",
                Map::default()
                    .with("Launcher", replicas(1, launcher(manifest, processes)))
                    .with("Worker", replicas(u64::from(pods.nodes), worker(manifest))),
            ),
    )
}

/// The pod in which mpirun runs, of so many processes in all.
fn launcher(manifest: &Manifest, processes: u64) -> Map {
    let pods = manifest.pods;
    let entry = |name: &str, value: &str| Map::default().with("name", name).with("value", value);
    let key = Map::default().with("name", manifest.name).with("key", SECRET_KEY);
    let secret = Map::default()
        .with("name", JOB_SECRET)
        .with("valueFrom", Map::default().with("secretKeyRef", key));
    // Process 0 is in the first worker, and not where mpirun is.
    let first = format!("{0}-worker-0.{0}", manifest.name);
    let relayed = Map::default().with("name", RELAYED).about(
        "The launcher's log is the run's record; without this variable it is a table.",
        "value",
        "1",
    );
    let own = [
        relayed,
        entry("MASTER_ADDR", &first),
        entry("MASTER_PORT", &manifest.port.to_string()),
        secret,
    ];
    let passed = [RELAYED, "MASTER_ADDR", "MASTER_PORT", JOB_SECRET].map(str::to_owned);
    let passed = passed.into_iter().chain(variables(manifest).map(|(name, _)| name.clone()));
    // Nothing of a launcher: mpirun is it. Ranks are mpirun's processes.
    let mut words = ["mpirun", "-n"].map(str::to_owned).to_vec();
    words.extend([processes.to_string(), "--map-by".to_owned(), "slot".to_owned()]);
    words.extend(passed.flat_map(|name| ["-x".to_owned(), name]));
    words.push("busbw".to_owned());
    words.extend(manifest.job.words.iter().map(|word| word.to_string_lossy().into_owned()));
    // Open MPI refuses root without these.
    let allows = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    let environment: Vec<Map> = (allows.into_iter().map(|name| entry(name, "1")))
        .chain(own)
        .chain(variables(manifest).map(|(name, value)| entry(name, &literal_value(value))))
        .collect();
    let container = Map::default()
        .with("name", CONTAINER)
        .with("image", pods.image.as_str())
        .maybe("imagePullPolicy", pods.pull_policy.clone())
        .with("command", literal(words))
        .with("env", environment);
    Map::default()
        .with("metadata", Map::default().with("labels", manifest.labels()))
        .with("spec", placement(manifest).without("affinity").with("containers", vec![container]))
}

/// A pod in which sshd runs.
fn worker(manifest: &Manifest) -> Map {
    template(manifest, manifest.name, false).within("spec", |spec| {
        // mpi-operator sets the command and the subdomain, and sshd needs capabilities of its own.
        let names = ["command", "args", "env", "securityContext"];
        let lock = Map::default().with("add", vec!["IPC_LOCK"]);
        let lock = Map::default().about("RDMA pins memory.", "capabilities", lock);
        let lock = (!manifest.resources.rdma.is_empty()).then_some(lock);
        spec.without("restartPolicy")
            .without("subdomain")
            .within("containers", |container| {
                names.into_iter().fold(container, Map::without).maybe("securityContext", lock)
            })
            .about(
                "The launcher's deadline begins with mpirun: workers alone end by this one.",
                "activeDeadlineSeconds",
                manifest.pods.deadline.as_secs(),
            )
    })
}

/// A JobSet of one Job. sigs.k8s.io/jobset, api/jobset/v1alpha2/jobset_types.go
fn job_set(manifest: &Manifest) -> Map {
    const WORKERS: &str = "nodes";
    // Its pods are called SET-REPLICATED-JOB-INDEX, within the subdomain of the set.
    let job_name = format!("{}-{WORKERS}-0", manifest.name);
    let template = Map::default()
        .with("spec", manifest.job_spec(&job_name, false).without("ttlSecondsAfterFinished"));
    let jobs = Map::default().with("name", WORKERS).with("replicas", 1).with("template", template);
    let about = "The run as a JobSet: with other jobs of the set, or under Kueue. Its pods' log is a table.";
    manifest.object(about, "jobset.x-k8s.io/v1alpha2", "JobSet", None).with(
        "spec",
        Map::default()
            .with("failurePolicy", Map::default().with("maxRestarts", 0))
            .with(
                "network",
                Map::default()
                    .with("enableDNSHostnames", true)
                    .with("subdomain", manifest.name)
                    .with("publishNotReadyAddresses", true),
            )
            .with("ttlSecondsAfterFinished", manifest.pods.ttl.as_secs())
            .with("replicatedJobs", vec![jobs]),
    )
}

/// The check that a CronJob makes of a benchmark; its metrics follow the table in the first pod's log.
const NIGHTLY: [&str; 5] = ["check", "--yes", "--fail-closed", "--openmetrics", "/dev/stdout"];

/// A CronJob: a check at its hour; the Job fails where the check does, which alarms on failed Jobs see.
fn cron_job(manifest: &Manifest) -> Map {
    let pods = manifest.pods;
    // A Job of a CronJob has a name of its own, which its pods learn from their labels.
    let field = Map::default().with("fieldPath", "metadata.labels['batch.kubernetes.io/job-name']");
    let own_name = Map::default()
        .with("name", "JOB_NAME")
        .with("valueFrom", Map::default().with("fieldRef", field));
    let words: Vec<String> =
        NIGHTLY.map(str::to_owned).into_iter().chain(arguments(manifest)).collect();
    let spec = manifest.job_spec("$(JOB_NAME)", false).within("template", |template| {
        template.within("spec", |spec| {
            spec.within("containers", |container| {
                container.first_of("env", own_name).replaced("args", literal(words))
            })
        })
    });
    let about = "A check by the clock: a fault makes the Job fail, and an alarm on failed Jobs is the alarm. To compare with a stored run, mount it (a ConfigMap) and add --baseline FILE.";
    manifest.object(about, "batch/v1", "CronJob", None).with(
        "spec",
        Map::default()
            .with("schedule", pods.schedule.as_str())
            .about("A late one does not run beside the next.", "concurrencyPolicy", "Forbid")
            .with("failedJobsHistoryLimit", 7)
            .with("successfulJobsHistoryLimit", 1)
            .with(
                "jobTemplate",
                Map::default().with("spec", spec.without("ttlSecondsAfterFinished")),
            ),
    )
}
