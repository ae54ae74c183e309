//! The manifests as they are applied and printed: each kind against a file, and what must never be in one.

use std::{fs, path::Path, time::Duration};

use super::*;
use crate::{hosts::Hosts, launchers::Placement};

fn pods(kind: Kind) -> Pods {
    Pods {
        namespace: Some("bench".to_owned()),
        kind,
        nodes: 2,
        gpus_per_node: Some(8),
        gpu_resource: "nvidia.com/gpu".to_owned(),
        rdma: Rdma::Named(vec![("rdma/hca_shared_devices_a".to_owned(), 1)]),
        image: "registry.example.com/busbw:1".to_owned(),
        deadline: Duration::from_secs(1800),
        ttl: Duration::from_secs(300),
        wait: Duration::from_secs(300),
        schedule: "0 3 * * *".to_owned(),
        ..Pods::default()
    }
}

fn job(pods: Pods, words: &[&str]) -> Job {
    let words = words.iter().map(Into::into).collect();
    let placement = Placement { pods: Some(pods), words, dry_run: true, ..Placement::default() };
    let mut job = Job::of(&placement).unwrap();
    job.variables = vec![
        ("LD_LIBRARY_PATH".to_owned(), "/home/me/lib".to_owned()),
        ("NCCL_DEBUG".to_owned(), "WARN".to_owned()),
    ];
    job.private_variables = vec![(JOB_SECRET, "5ec2e7".to_owned())];
    job
}

fn check(name: &str, text: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/launchers/kubernetes/golden").join(name);
    if std::env::var_os("BUSBW_WRITE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        text,
        "{name} differs; BUSBW_WRITE_GOLDEN=1 writes it anew"
    );
}

const WORDS: [&str; 5] = ["all_reduce", "-b", "8", "-e", "8G"];

#[test]
fn every_kind_as_it_is_printed() {
    for (kind, name, _) in Kind::ALL {
        let text = Kubernetes.dry_run(&job(pods(kind), &WORDS)).unwrap();
        check(&format!("{name}.yaml"), &text);
        assert!(!text.contains("5ec2e7") && !text.contains("/home/me"), "{text}");
    }
}

#[test]
fn everything_that_can_be_asked_of_a_pod() {
    let text = |text: &str| text.to_owned();
    let all = Pods {
        pull_policy: Some(text("Never")),
        pull_secrets: vec![text("registry")],
        host_network: true,
        networks: Some(text("roce-net")),
        node_selector: vec![(text("pool"), text("gpu"))],
        tolerations: vec![text("nvidia.com/gpu:NoSchedule")],
        priority_class: Some(text("patient")),
        service_account: Some(text("bench")),
        queue: Some(text("team")),
        user: Some(65532),
        environment: vec![(text("NCCL_DEBUG"), text("INFO")), (text("A"), text("1: \"x\" # no"))],
        shm: Some(text("8Gi")),
        memory: Some(text("64Gi")),
        cpu: Some(text("16")),
        compute_domain: true,
        ..pods(Kind::Job)
    };
    check("everything.yaml", &Kubernetes.dry_run(&job(all, &WORDS)).unwrap());
}

/// What is applied is what is printed, and the uid of the Job as the owner of the rest.
#[test]
fn the_job_owns_the_rest() {
    let job = job(pods(Kind::Job), &WORDS);
    let pods = job.pods.as_ref().unwrap();
    let resources = Resources { gpus: 8, rdma: Vec::new() };
    let manifest = Manifest {
        name: "busbw-x",
        port: 20000,
        job: &job,
        pods,
        resources: &resources,
        nodes: &[],
    };
    let made = serde_json::json!({ "metadata": { "uid": "1-2-3" } });
    let text = belongings(&manifest, &made).unwrap();
    assert_eq!(text.matches("uid: \"1-2-3\"").count(), 2, "{text}");
    assert!(text.contains("secret: \"5ec2e7\"") && text.contains("kind: Service"), "{text}");
    assert!(belongings(&manifest, &serde_json::json!({})).is_err());
}

#[test]
fn ranks_are_the_gpus_of_a_pod_unless_somebody_says_otherwise() {
    let count = |words: &[&str]| {
        let job = job(pods(Kind::Job), words);
        let resources = Resources { gpus: 8, rdma: Vec::new() };
        let pods = job.pods.as_ref().unwrap();
        let manifest =
            Manifest { name: "x", port: 1, job: &job, pods, resources: &resources, nodes: &[] };
        template::arguments(&manifest).join(" ")
    };
    assert_eq!(count(&["all_reduce", "-b", "8"]), "all_reduce -b 8 -g 8");
    assert_eq!(count(&["all_reduce", "-t", "4"]), "all_reduce -t 4");
    assert_eq!(count(&["bw", "--ngpus=1"]), "bw --ngpus=1");
    assert_eq!(count(&["__survey"]), "__survey");
}

#[test]
fn hosts_are_not_for_pods() {
    let hosts = "a:8".parse::<Hosts>().unwrap();
    let placement =
        Placement { pods: Some(pods(Kind::Job)), hosts: Some(hosts), ..Placement::default() };
    let why = Job::of(&placement).unwrap_err().to_string();
    assert!(why.contains("--nodes N instead of -H"), "{why}");
}
