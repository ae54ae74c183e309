//! What one pod does, and why it does not run, from the API server's own words.
//! Not when that ends the run (`watch`).

use serde_json::Value;

use super::template::CONTAINER;

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pod {
    /// Its number among the pods; none where it has no index (the launcher of an MPIJob).
    pub(super) index: Option<usize>,
    /// Its name.
    pub(super) name: String,
    /// Where it runs, once that is decided.
    pub(super) node: Option<String>,
    /// Its address.
    pub(super) address: Option<String>,
    /// When it is to be gone at the latest, where somebody deletes it; as RFC 3339 writes it.
    pub(super) deleted: Option<String>,
    /// Whether the API server has it no more.
    pub(super) is_gone: bool,
    /// What it does.
    pub(super) state: State,
}

/// What a pod does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It waits: for what, and whether that may pass by itself.
    Waits {
        /// In the words of the field, with what Kubernetes said.
        why: String,
        /// Whether waiting cannot help.
        is_final: bool,
    },
    /// Its container runs.
    Runs,
    /// Its container has ended.
    Ended {
        /// The exit code; none where there was no container.
        code: Option<i32>,
        /// What ended it, where that was not the program itself.
        why: Option<String>,
        /// What it left as its termination message.
        message: Option<String>,
    },
}

impl Default for State {
    fn default() -> State {
        State::Waits { why: "it is being made".to_owned(), is_final: false }
    }
}

/// What a claim without its template means.
const NO_CLAIM: &str =
    "a resource claim is not there: --compute-domain needs NVIDIA's DRA driver in the cluster";
/// What a pod does about which nothing is said yet.
pub(super) const UNDECIDED: &str = "waits for a node";
/// Reasons of a waiting container that waiting does not cure.
const FINAL: [&str; 5] = [
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerError",
    "RunContainerError",
    "ImageInspectError",
];

impl Pod {
    /// From an object of the API server, `kubectl get pods -o json`.
    pub(super) fn of(object: &Value) -> Pod {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let labels = &object["metadata"]["labels"];
        let index = labels["batch.kubernetes.io/job-completion-index"].as_str();
        Pod {
            index: index.and_then(|index| index.parse().ok()),
            name: text("/metadata/name").unwrap_or_default(),
            node: text("/spec/nodeName"),
            address: text("/status/podIP").filter(|ip| !ip.is_empty()),
            deleted: text("/metadata/deletionTimestamp"),
            is_gone: false,
            state: state(object),
        }
    }

    /// What is left of it once the API server has it no more.
    pub(super) fn gone(mut self) -> Pod {
        self.is_gone = true;
        if !self.has_ended() {
            self.state = State::Ended { code: None, why: None, message: None };
        }
        self
    }

    /// For messages.
    pub(super) fn label(&self) -> String {
        let place = self.node.as_ref().map(|node| format!(" on node {node}"));
        let number = self.index.map(|index| format!("pod {index}"));
        let number = number.unwrap_or_else(|| format!("pod {}", self.name));
        format!("{number}{}", place.unwrap_or_default())
    }

    /// What happens to it, as a line.
    pub(super) fn line(&self) -> String {
        let what = match &self.state {
            State::Waits { why, .. } => why.clone(),
            State::Runs => match &self.address {
                Some(address) => format!("runs, at {address}"),
                None => "runs".to_owned(),
            },
            State::Ended { why: Some(why), .. } => why.clone(),
            State::Ended { code: Some(0), .. } => "has ended".to_owned(),
            State::Ended { code: Some(code), .. } => format!("ended with exit code {code}"),
            State::Ended { .. } => "has ended".to_owned(),
        };
        format!("{}: {what}", self.label())
    }

    /// The sentence about what ended it from outside, with the exit code of the run.
    pub(super) fn loss(&self) -> Option<String> {
        match &self.state {
            State::Ended { why: Some(why), .. } => {
                Some(format!("{} ({}) {why}", self.label(), self.name))
            }
            _ => None,
        }
    }

    /// Whether its program ended with a fault of its own, not because it was told to end.
    pub(super) fn has_failed(&self) -> bool {
        const TOLD: [i32; 3] = [0, 130, 143];
        self.code().is_some_and(|code| !TOLD.contains(&code))
    }

    /// The exit code of its program, where that has ended.
    pub(super) fn code(&self) -> Option<i32> {
        match &self.state {
            State::Ended { code, .. } => *code,
            _ => None,
        }
    }

    /// Whether it has ended, in whatever way.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }
}

fn state(object: &Value) -> State {
    let status = &object["status"];
    let all = status["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
    // Others may be there that a webhook has put there.
    let ours = all.iter().find(|container| container["name"] == CONTAINER).unwrap_or(&Value::Null);
    let container = &ours["state"];
    let phase = status["phase"].as_str().unwrap_or_default();
    if let Some(ended) = container.get("terminated") {
        return ended_by(object, ended);
    }
    if phase == "Failed" || phase == "Succeeded" {
        let why = from_outside(status).or_else(|| status["message"].as_str().map(str::to_owned));
        return State::Ended {
            code: None,
            why: why.or(Some("failed without a word".to_owned())),
            message: None,
        };
    }
    if container.get("running").is_some() {
        return match object["metadata"]["deletionTimestamp"].is_null() {
            true => State::Runs,
            false => match from_outside(status) {
                Some(why) => State::Ended { code: None, why: Some(why), message: None },
                None => State::Runs,
            },
        };
    }
    waits(status, container)
}

/// A container that has ended.
fn ended_by(object: &Value, ended: &Value) -> State {
    let status = &object["status"];
    let code = ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    let limit =
        object.pointer("/spec/containers/0/resources/limits/memory").and_then(Value::as_str);
    let reason = ended["reason"].as_str().unwrap_or_default();
    let said = ended["message"].as_str().map(|text| text.trim().to_owned());
    let why = match reason {
        "OOMKilled" => Some(format!(
            "was killed for memory{}: give more with --pod-memory, or measure smaller sizes with -e",
            limit.map(|limit| format!(" at its limit of {limit}")).unwrap_or_default()
        )),
        "ContainerCannotRun" | "StartError" => Some(format!(
            "could not start the program: {}; the image needs `busbw` in its PATH",
            said.as_deref().unwrap_or("no reason was given")
        )),
        _ => from_outside(status).or_else(|| {
            (code == Some(137)).then(|| {
                "was killed by signal 9, by the node or from outside: `kubectl describe pod` and the node's kernel log tell who".to_owned()
            })
        }),
    };
    State::Ended { code, why, message: said.filter(|text| !text.is_empty()) }
}

/// What the cluster did to the pod. https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
fn from_outside(status: &Value) -> Option<String> {
    let said = |text: &str| match text {
        "" => String::new(),
        text => format!(" ({text})"),
    };
    let disruption =
        status["conditions"].as_array().into_iter().flatten().find(|condition| {
            condition["type"] == "DisruptionTarget" && condition["status"] == "True"
        });
    if let Some(disruption) = disruption {
        let message = said(disruption["message"].as_str().unwrap_or_default());
        let what = match disruption["reason"].as_str().unwrap_or_default() {
            "PreemptionByScheduler" => {
                "was preempted by a pod of higher priority: --priority-class"
            }
            "DeletionByTaintManager" => "was evicted, since its node is lost or tainted",
            "EvictionByEvictionAPI" => "was evicted: the node is drained",
            "TerminationByKubelet" => "was ended by its node, for a shortage there or a shutdown",
            "DeletionByPodGC" => "was deleted, since its node is gone",
            _ => "was disrupted",
        };
        return Some(format!("{what}{message}"));
    }
    let message = said(status["message"].as_str().unwrap_or_default());
    match status["reason"].as_str()? {
        "Evicted" => Some(format!("was evicted{message}")),
        "NodeLost" => Some(format!("is on a node that was lost{message}")),
        // The Job's own deadline, at a pod that had not run.
        "DeadlineExceeded" => Some("was ended by its deadline: --deadline".to_owned()),
        "UnexpectedAdmissionError" => Some(format!(
            "was refused by its node{message}: a device is broken or was taken by another pod"
        )),
        reason => Some(format!("failed: {reason}{message}")),
    }
}

/// Why a pod does not run yet.
fn waits(status: &Value, container: &Value) -> State {
    let waits = |why: String, is_final: bool| State::Waits { why, is_final };
    let unscheduled =
        status["conditions"].as_array().into_iter().flatten().find(|condition| {
            condition["type"] == "PodScheduled" && condition["status"] == "False"
        });
    if let Some(condition) = unscheduled {
        let message = condition["message"].as_str().unwrap_or("no reason is given yet");
        if condition["reason"] == "SchedulingGated" {
            return waits(
                format!("is held back by a scheduling gate (Kueue, or another queue): {message}"),
                false,
            );
        }
        return waits(unschedulable(message), false);
    }
    let Some(waiting) = container.get("waiting") else {
        return waits(UNDECIDED.to_owned(), false);
    };
    let said = waiting["message"].as_str().unwrap_or_default();
    match waiting["reason"].as_str().unwrap_or_default() {
        "ContainerCreating" | "PodInitializing" => {
            waits("makes its container: image, network, volumes".to_owned(), false)
        }
        reason @ ("ErrImagePull" | "ImagePullBackOff") => waits(
            format!(
                "cannot pull its image ({reason}): {said}; check --image, and --image-pull-secret where the registry asks"
            ),
            false,
        ),
        "ErrImageNeverPull" => waits(
            "has no image: it is not on this node, and --image-pull-policy Never pulls none"
                .to_owned(),
            true,
        ),
        "CreateContainerConfigError" => {
            waits(format!("waits for what its container refers to: {said}"), false)
        }
        reason => {
            waits(format!("cannot start its container ({reason}): {said}"), FINAL.contains(&reason))
        }
    }
}

/// The scheduler's sentence without what it thinks of preemption, and what to do about it.
/// kube-scheduler, pkg/scheduler/framework/types.go, FitError.Error
fn unschedulable(message: &str) -> String {
    let message = message.split(" preemption:").next().unwrap_or(message);
    let message =
        message.split(" no new claims").next().unwrap_or(message).trim_end_matches(['.', ',', ' ']);
    let short = short_resources(message);
    let is_gpu = |resource: &&str| resource.ends_with("/gpu");
    let remedy = if short.iter().any(is_gpu) {
        "GPUs are short: fewer --nodes or --gpus-per-node, or wait for the jobs that hold them"
    } else if !short.is_empty() {
        "a resource is short on the nodes: ask for less of it, or wait for the pods that hold it"
    } else if message.contains("anti-affinity") {
        "there are fewer free nodes than pods: fewer --nodes, or --share-nodes"
    } else if message.contains("untolerated taint") {
        "nodes are tainted: --toleration KEY:NoSchedule"
    } else if message.contains("node selector") || message.contains("node affinity") {
        "no node has these labels: --node-selector"
    } else if message.contains("resourceclaim") {
        NO_CLAIM
    } else {
        "`kubectl describe pod` shows more"
    };
    format!("finds no node: {message}; {remedy}")
}

/// A warning about a pod, with what to do where that is known.
pub(super) fn warning(message: &str) -> String {
    match message.contains("resourceclaimtemplate") {
        true => format!("{message}; {NO_CLAIM}"),
        false => message.to_owned(),
    }
}

/// The resources that the scheduler calls insufficient.
pub(super) fn short_resources(message: &str) -> Vec<&str> {
    let words = message.split("Insufficient ").skip(1);
    words
        .filter_map(|rest| rest.split([',', ' ', ';']).next())
        .map(|name| name.trim_end_matches('.'))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: Value) -> Pod {
        let labels = json!({ "batch.kubernetes.io/job-completion-index": "3" });
        let limits = json!({ "limits": { "memory": "64Mi" } });
        Pod::of(&json!({
            "metadata": { "name": "run-3-x", "labels": labels },
            "spec": { "nodeName": "n1", "containers": [{ "resources": limits }] },
            "status": status,
        }))
    }

    #[test]
    fn a_short_resource_is_named_with_its_numbers() {
        let message = "0/9 nodes are available: 9 Insufficient nvidia.com/gpu. preemption: 0/9 nodes are available.";
        let pod = of(json!({ "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message },
        ] }));
        assert!(
            pod.line().contains("9 Insufficient nvidia.com/gpu")
                && pod.line().contains("GPUs are short"),
            "{}",
            pod.line()
        );
        assert!(!pod.has_ended());
    }

    #[test]
    fn images() {
        let waiting = |reason: &str| {
            let waiting = json!({ "waiting": { "reason": reason, "message": "no such host" } });
            of(json!({ "phase": "Pending", "containerStatuses": [{ "name": "busbw", "state": waiting }] })).state
        };
        assert!(matches!(waiting("ErrImageNeverPull"), State::Waits { is_final: true, .. }));
        let State::Waits { why, is_final: false } = waiting("ImagePullBackOff") else { panic!() };
        assert!(why.contains("no such host") && why.contains("--image"), "{why}");
        assert!(matches!(waiting("ContainerCreating"), State::Waits { is_final: false, .. }));
    }

    #[test]
    fn killed_for_memory_and_evicted() {
        let ended = |reason: &str, code: i32| json!({ "terminated": { "exitCode": code, "reason": reason } });
        let pod = of(
            json!({ "phase": "Failed", "containerStatuses": [{ "name": "busbw", "state": ended("OOMKilled", 137) }] }),
        );
        let loss = pod.loss().unwrap();
        assert!(
            loss.contains("pod 3 on node n1 (run-3-x) was killed for memory at its limit of 64Mi"),
            "{loss}"
        );
        let pod = of(
            json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory." }),
        );
        assert!(pod.loss().unwrap().contains("was evicted (The node was low on"));
        let pod = of(json!({ "phase": "Failed", "conditions": [
            { "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m" },
        ], "containerStatuses": [{ "name": "busbw", "state": ended("Error", 143) }] }));
        assert!(pod.loss().unwrap().contains("was preempted by a pod of higher priority"));
    }

    /// An exit code of busbw's own says everything: nothing is added.
    #[test]
    fn a_program_that_ends_by_itself() {
        let state = json!({ "terminated": { "exitCode": 6, "reason": "Error", "message": " rank 2 was lost\n" } });
        let pod = of(
            json!({ "phase": "Failed", "containerStatuses": [{ "name": "busbw", "state": state }] }),
        );
        assert_eq!((pod.loss(), pod.code()), (None, Some(6)));
        assert_eq!(pod.line(), "pod 3 on node n1: ended with exit code 6");
    }

    /// Whatever an API server says, there is a line.
    #[test]
    fn objects_of_any_shape() {
        for object in [
            json!(null),
            json!([]),
            json!({ "status": 7 }),
            json!({ "status": { "containerStatuses": [] } }),
        ] {
            assert!(!Pod::of(&object).line().is_empty());
        }
    }
}
