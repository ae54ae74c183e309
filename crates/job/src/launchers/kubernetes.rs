//! Kubernetes: one pod a node, made, followed and deleted with the user's own kubectl. No operator, no ssh, no MPI.
//! Not what the pods do: they are processes of one job like any launcher's (`rendezvous`).

mod asked;
mod capacity;
mod judge;
mod kinds;
mod kubectl;
mod manifest;
mod output;
mod pod;
mod quantity;
mod running;
mod same_nodes;
mod template;
#[cfg(test)]
mod tests;
mod watch;
mod yaml;

use anyhow::Result;
use busbw_core::environment::JOB_SECRET;
use busbw_core::exit::{Exit, ExitError};
use serde_json::Value;

pub use self::{
    asked::{Kind, Pods, Rdma},
    same_nodes::{begin as begin_on_same_nodes, path as nodes_file},
};
use self::{
    kubectl::{Cause, Kubectl},
    manifest::{Manifest, documents},
    running::Run,
    template::Resources,
    watch::Watch,
};
use super::{Launcher, RunningJob, job::Job};
use crate::rendezvous::token;

/// The kubernetes launcher.
pub(super) struct Kubernetes;

/// Ports of rendezvous, as other launchers have them: pods with the node's network may share it.
const PORTS: std::ops::Range<u16> = 20000..30000;
/// Letters and digits of a run's own part of its name.
const SUFFIX: usize = 6;

impl Launcher for Kubernetes {
    fn dry_run(&self, job: &Job) -> Result<String> {
        let pods = asked(job)?;
        let resources = match pods.kind {
            Kind::Role => Resources::default(),
            _ => capacity::resources(&Kubectl::of(job, pods), pods)?,
        };
        let name = base_name(job);
        let (port, resources) = (PORTS.start, &resources);
        let manifest = Manifest { name: &name, port, job, pods, resources, nodes: &[] };
        Ok(kinds::to_commit(pods.kind, &manifest))
    }

    fn intent(&self, job: &Job) -> Result<Option<String>> {
        let pods = asked(job)?;
        let shown =
            Kind::ALL.iter().find(|(kind, ..)| *kind == pods.kind).map_or("", |kind| kind.1);
        if let Kind::JobSet | Kind::CronJob | Kind::Role = pods.kind {
            let text =
                format!("--kind {shown} is printed, to commit or apply by hand: add --dry-run");
            return Err(ExitError::new(Exit::Usage, text).into());
        }
        let kubectl = Kubectl::of(job, pods);
        let resources = capacity::resources(&kubectl, pods)?;
        Ok(Some(intent(&kubectl, pods, &resources)?))
    }

    fn start(&self, job: &Job) -> Result<Box<dyn RunningJob>> {
        let pods = asked(job)?;
        let kubectl = Kubectl::of(job, pods);
        let resources = capacity::resources(&kubectl, pods)?;
        let own = token()?.to_ascii_lowercase();
        let name = format!("{}-{}", base_name(job), own.get(..SUFFIX).unwrap_or(&own));
        let port = PORTS.start
            + own
                .bytes()
                .fold(0, |sum: u16, byte| sum.wrapping_mul(31).wrapping_add(u16::from(byte)))
                % (PORTS.end - PORTS.start);
        let nodes = same_nodes::read();
        let resources = &resources;
        let manifest = Manifest { name: &name, port, job, pods, resources, nodes: &nodes };
        let watch = Watch::new(
            name.clone(),
            kubectl.clone(),
            pods.clone(),
            resources.gpus,
            pods.kind == Kind::MpiJob,
        );
        // The Job comes first, since it has the deadline and owns the rest: whenever this ends, nothing outlives it.
        let (object, first) = match pods.kind {
            Kind::MpiJob => (format!("mpijob/{name}"), kinds::mpi_job(&manifest)),
            _ => (format!("job/{name}"), manifest.job()),
        };
        let made = kubectl
            .json(&["create", "-o", "json", "-f", "-"], &first.to_string())
            .inspect_err(|failed| {
                // Whether it was made is not known.
                if matches!(failed.cause, Cause::Silent | Cause::Other) {
                    unmake(&kubectl, &object);
                }
            })?;
        let rest = belongings(&manifest, &made).and_then(|documents| {
            kubectl.run(&["create", "-f", "-"], &documents).map_err(anyhow::Error::from)
        });
        if let Err(why) = rest {
            unmake(&kubectl, &object);
            return Err(why.context(format!(
                "job {name} was made and deleted again: what belongs to it cannot be made"
            )));
        }
        Ok(Box::new(Run::follow(watch, object)?))
    }
}

/// Deletes a Job, with what belongs to it, before anybody follows it. Where this fails its deadline ends it.
fn unmake(kubectl: &Kubectl, job: &str) {
    let _ = kubectl.run(&["delete", "--ignore-not-found", "--wait=false", job], "");
}

/// Service, Secret and what else belongs to the Job that was made.
fn belongings(manifest: &Manifest, made: &Value) -> Result<String> {
    let uid = made["metadata"]["uid"].as_str();
    let missing = || ExitError::new(Exit::Library, "kubectl told no uid of the job that it made");
    let uid = uid.ok_or_else(missing)?;
    let secret = manifest.job.private_variables.iter().find(|(name, _)| *name == JOB_SECRET);
    let secret = secret.map(|(_, secret)| manifest.secret(secret, uid));
    Ok(documents(manifest.belongings(Some(uid)).into_iter().chain(secret)))
}

fn asked(job: &Job) -> Result<&Pods> {
    let missing =
        || ExitError::new(Exit::Usage, "--launcher kubernetes needs --nodes N and --image IMAGE");
    Ok(job.pods.as_ref().ok_or_else(missing)?)
}

/// The benchmark's part of a run's name: `busbw-all-reduce`.
fn base_name(job: &Job) -> String {
    let word =
        job.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let word: String = word
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(30)
        .collect();
    format!("busbw-{}", word.trim_matches('-'))
}

/// What would be done, for people who say yes or no.
fn intent(kubectl: &Kubectl, pods: &Pods, resources: &Resources) -> Result<String> {
    let view = kubectl.json(&["config", "view", "-o", "json"], "")?;
    let current = pods.context.as_deref().or_else(|| view["current-context"].as_str());
    let contexts = view["contexts"].as_array().map_or(&[][..], Vec::as_slice);
    let context = contexts.iter().find(|context| context["name"].as_str() == current);
    if let (None, Some(name)) = (context, &pods.context) {
        let names: Vec<&str> =
            contexts.iter().filter_map(|context| context["name"].as_str()).collect();
        let text = format!(
            "there is no context {name}: kubectl has {} (`kubectl config get-contexts`)",
            names.join(", ")
        );
        return Err(ExitError::new(Exit::Impossible, text).into());
    }
    let own = context.and_then(|context| context["context"]["namespace"].as_str());
    let namespace = pods.namespace.as_deref().or(own).unwrap_or("default");
    // In a pod kubectl has the pod's own account, and no context.
    let context = current.filter(|name| !name.is_empty()).unwrap_or("of this pod's account");
    let gpus = match u64::from(resources.gpus) * u64::from(pods.nodes) {
        0 => "no GPUs".to_owned(),
        all => format!("{} GPUs each ({all} in all)", resources.gpus),
    };
    let rdma: Vec<String> =
        resources.rdma.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let rdma = if rdma.is_empty() { String::new() } else { format!(", {}", rdma.join(", ")) };
    Ok(format!(
        "{} with {gpus}{rdma} in namespace {namespace} of context {context}, for up to {} s, with image {}",
        if pods.nodes == 1 { "1 pod".to_owned() } else { format!("{} pods", pods.nodes) },
        pods.deadline.as_secs(),
        pods.image
    ))
}
