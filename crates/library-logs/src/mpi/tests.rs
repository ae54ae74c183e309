use proptest::prelude::*;

use super::*;

/// Rank 1 of 3, Open MPI 4.1.4, its memory for the other two.
const OB1: &str = "\
[vm:13509] mca: base: components_register: found loaded component ob1
[vm:13509] mca: base: components_open: component ob1 open function successful
[vm:13509] select: component v not in the include list
[vm:13509] select: initializing pml component ob1
[vm:13509] select: init returned priority 20
[vm:13509] selected ob1 best priority 20
[vm:13509] select: component ob1 selected
[vm:13509] mca: base: close: unloading component monitoring
[vm:13509] check:select: checking my pml ob1 against process [[22590,1],0] pml ob1
[vm:13509] mca: bml: Using vader btl for send to [[22590,1],0] on node vm
[vm:13509] mca: bml: Using vader btl for send to [[22590,1],2] on node vm
[vm:13509] mca: bml: Using self btl for send to [[22590,1],1] on node vm
";

/// Open MPI 4.1.4 over UCX 1.13.1.
const PML_UCX: &str = "\
[vm:28504] selected ucx best priority 51
[vm:28504] select: component ucx selected
[1795350461.559614] [vm:28504:0]     ucp_context.c:1849 UCX  INFO  Version 1.13.1 (loaded from /lib/x86_64-linux-gnu/libucp.so.0)
[1795350461.627306] [vm:28504:0]       rdmacm_cm.c:928  UCX  DIAG  rdma_create_event_channel failed: No such device
[1795350461.627386] [vm:28504:0]          parser.c:1916 UCX  INFO  UCX_* env variables: UCX_LOG_LEVEL=info
[1795350461.631274] [vm:28504:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 cma/memory)
[1795350461.631364] [vm:28504:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag(sysv/memory cma/memory)
";

/// MPICH 4.0.2.
const MPICH: &str = "\
[1795350463.134668] [vm:28637:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 cma/memory) rma(self/memory0 sysv/memory posix/memory) am(self/memory0 cma/memory)
[1795350463.134828] [vm:28637:0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag(sysv/memory cma/memory) rma(sysv/memory posix/memory) am(sysv/memory cma/memory)
";
const MPICH_VERSION: &str =
    "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7\nMPICH Device:\tch4:ucx\n";
const OPEN_MPI_VERSION: &str = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";

fn facts(text: &str, rank: usize, version: &str) -> MpiFacts {
    facts_without(text, rank, version, &CaptureDisabled::default())
}

fn facts_without(text: &str, rank: usize, version: &str, disabled: &CaptureDisabled) -> MpiFacts {
    let mut parser = Parser::default();
    text.lines().for_each(|line| parser.line(line));
    parser.finish(rank, version, false, disabled)
}

fn told(facts: &MpiFacts) -> String {
    transports_named(std::slice::from_ref(facts))
}

#[test]
fn open_mpi_names_a_btl_for_each_peer() {
    let facts = facts(OB1, 1, OPEN_MPI_VERSION);
    assert_eq!(facts.pml.as_deref(), Some("ob1"));
    assert_eq!(facts.btls["vader"], [[0, 0], [2, 2]]);
    assert_eq!(facts.btls["self"], [[1, 1]]);
    assert!(facts.reaches(2, "vader") && !facts.reaches(1, "vader"));
    assert_eq!(facts.unknown, [] as [&str; 0]);
    assert_eq!(told(&facts), "transports set up: PML ob1, 2 connections vader (Open MPI's log)");
    assert!(OB1.lines().all(is_chatter));
}

#[test]
fn connections_of_all_processes_are_counted() {
    let tcp = OB1.replace(
        "Using vader btl for send to [[22590,1],2]",
        "Using tcp btl for send to [[22590,1],2]",
    );
    let all = [facts(OB1, 1, OPEN_MPI_VERSION), facts(&tcp, 1, OPEN_MPI_VERSION)];
    let said = "transports set up: PML ob1, 1 tcp, 3 vader (Open MPI's log)";
    assert_eq!(transports_named(&all).replace(" connection ", " "), said);
}

#[test]
fn ucx_names_the_lanes_of_its_endpoints() {
    let facts = facts(PML_UCX, 0, OPEN_MPI_VERSION);
    let ucx = facts.ucx.as_ref().expect("UCX spoke");
    assert_eq!((ucx.version.as_deref(), ucx.endpoints.len()), (Some("1.13.1"), 2));
    assert_eq!(facts.unknown, [] as [&str; 0]);
    let said =
        "transports set up: PML ucx (Open MPI's log), lanes cma/memory, sysv/memory (UCX's log)";
    assert_eq!(told(&facts), said);
    assert!(PML_UCX.lines().all(is_chatter));
}

/// Excerpts of 1.15 and later, as people published them.
#[test]
fn newer_ucx_says_where_an_endpoint_leads() {
    let text = "\
[1701292112.829711] [a:1:0]      ucp_worker.c:1855 UCX  INFO    0x100b240 inter-node cfg#3 tag(rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1)
[1701292112.829711] [a:1:0]      ucp_worker.c:1888 UCX  INFO    ucp_context_0 self cfg#0 tag(posix/memory)
";
    let facts =
        facts(&format!("[a:1] select: component ucx selected\n{text}"), 0, OPEN_MPI_VERSION);
    let lanes: Vec<&str> = lanes(std::slice::from_ref(&facts)).into_iter().collect();
    assert_eq!(lanes, ["rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_1:1"]);
    let endpoint = facts.endpoints().next().expect("one");
    assert_eq!(endpoint.to.as_deref(), Some("inter-node"));
}

#[test]
fn mpich_may_pass_ucx_by_within_a_host() {
    let facts = facts(MPICH, 0, MPICH_VERSION);
    assert_eq!(facts.device.as_deref(), Some("ch4:ucx"));
    assert_eq!(facts.version, "MPICH Version: 4.0.2");
    assert_eq!(
        told(&facts),
        "transports set up: device ch4:ucx (MPICH's version), lanes cma/memory, sysv/memory (UCX's log); \
         not proven: within a host MPICH's own shared memory may take messages before UCX sees them, and \
         no log line shows it"
    );
    let mut parser = Parser::default();
    MPICH.lines().for_each(|line| parser.line(line));
    assert!(parser.finish(0, MPICH_VERSION, true, &CaptureDisabled::default()).unknown.is_empty());
}

#[test]
fn who_says_nothing_is_not_guessed_about() {
    let unknown = |text: &str, version: &str| facts(text, 0, version).unknown.join("; ");
    assert_eq!(unknown("", OPEN_MPI_VERSION), "Open MPI named no PML");
    let cm = "[a:1] select: component cm selected";
    assert_eq!(
        unknown(cm, OPEN_MPI_VERSION),
        "no log line names the transport of Open MPI's PML cm"
    );
    let alone = "[a:1] select: component ob1 selected\n[a:1] mca: bml: Using self btl for send to [[1,1],0] on node a";
    assert_eq!(unknown(alone, OPEN_MPI_VERSION), "Open MPI named no BTL to another rank");
    let ofi = MPICH_VERSION.replace("ch4:ucx", "ch4:ofi");
    assert_eq!(unknown(MPICH, &ofi), "no log line names the transport of MPICH's device ch4:ofi");
    let intel = "Intel(R) MPI Library 2021.11 for Linux* OS";
    assert_eq!(unknown("", intel), format!("no log line of {intel} names a transport"));
    let disabled = CaptureDisabled {
        open_mpi: Some("OMPI_MCA_pml_base_verbose is set".to_owned()),
        ucx: None,
    };
    let facts = facts_without("", 0, OPEN_MPI_VERSION, &disabled);
    let said = "transports set up: no line names any; not proven: OMPI_MCA_pml_base_verbose is set";
    assert_eq!(told(&facts), said);
}

#[test]
fn what_is_meant_for_the_user_is_no_chatter() {
    for line in [
        "--------------------------------------------------------------------------",
        "WARNING: An invalid value was given for btl_tcp_if_include.  This",
        "  Local host: vm",
        "",
        "[vm:14636] *** An error occurred in MPI_Init",
        "[vm:1] Read -1, expected 8192, errno = 1",
        "[vm:1] mca: base: component_find: unable to open mca_btl_openib: file not found (ignored)",
        "[vm:1] mca_base_component_repository_open: unable to open mca_btl_openib: libibverbs.so.1",
        "[1795350461.631274] [vm:28504:0]      ucp_worker.c:1763 UCX  WARN  unused environment variable: UCX_X",
        "[1795350461.631274] [vm:28504:0]      sock.c:1 UCX  ERROR connect failed",
        "[vm:28504:0:28504] Caught signal 11 (Segmentation fault: address not mapped)",
    ] {
        assert!(!is_chatter(line), "{line}");
    }
}

#[test]
fn torn_lines_say_nothing() {
    for line in [
        "[vm:1] mca: bml: Using vader btl for send to [[22590,1],",
        "[vm:1] mca: bml: Using vader btl for send to [[22590,1],x] on node vm",
        "[vm:1] mca: bml: Using  btl for send to [[22590,1],1] on node vm",
        "[vm:1] mca: bml: Not using tcp btl for send to [[22590,1],1] on node vm because vader btl has higher exclusivity",
        "[vm:1] select: component  selected",
        "[1.1] [vm:1:0] w.c:1 UCX  INFO    ep_cfg[1]: tag(sysv/memory cma/mem",
        "[1.1] [vm:1:0] w.c:1 UCX  INFO    ep_cfg[]: tag(sysv/memory)",
        "[1.1] [vm:1:0] w.c:1 UCX  INFO    ep_cfg[1]: ",
    ] {
        let facts = facts(line, 0, OPEN_MPI_VERSION);
        assert_eq!((facts.pml, facts.btls.len(), facts.ucx), (None, 0, None), "{line}");
    }
}

#[test]
fn memory_is_bounded() {
    let mut parser = Parser::default();
    for at in 0..MAX_KINDS + 5 {
        parser.line(&format!("[a:1] mca: bml: Using b{at} btl for send to [[1,1],1] on node a"));
        parser.line(&format!("[1.1] [a:1:0] w.c:1 UCX  INFO    ep_cfg[{at}]: tag(tcp/eth{at})"));
    }
    let facts = parser.finish(0, OPEN_MPI_VERSION, false, &CaptureDisabled::default());
    assert_eq!((facts.btls.len(), facts.left_out), (MAX_KINDS, 10));
    assert_eq!(facts.ucx.expect("UCX spoke").endpoints.len(), MAX_KINDS);
}

proptest! {
    #[test]
    fn peers_are_those_that_were_named(peers in prop::collection::btree_set(0u32..40, 0..40)) {
        let line = |peer: &u32| format!("[a:1] mca: bml: Using tcp btl for send to [[1,1],{peer}] on node a\n");
        let text: String = peers.iter().map(line).collect();
        let facts = facts(&text, 7, OPEN_MPI_VERSION);
        for peer in 0..50 {
            prop_assert_eq!(facts.reaches(peer as usize, "tcp"), peers.contains(&peer));
        }
        let others = peers.iter().filter(|peer| **peer != 7).count();
        prop_assert_eq!(facts.connections("tcp"), others as u64);
    }

    /// Pieces of real lines, cut and put together anyhow.
    #[test]
    fn any_text_is_read(cuts in prop::collection::vec((0usize..600, 0usize..80, ".{0,6}"), 0..8), end in 0u32..2) {
        let whole = [OB1, PML_UCX, MPICH].concat();
        let cut = |(at, length, tail): &(usize, usize, String)| {
            whole.chars().skip(*at).take(*length).chain(tail.chars()).collect::<String>()
        };
        let text: String = cuts.iter().map(cut).collect::<Vec<_>>().join(["", "\n"][end as usize]);
        let facts = facts(&text, 0, &text);
        let json = serde_json::to_string(&facts).expect("facts are JSON");
        prop_assert_eq!(&serde_json::from_str::<MpiFacts>(&json).expect("and back"), &facts);
        prop_assert!(told(&facts).starts_with("transports set up: "));
        let _ = text.lines().filter(|line| is_chatter(line)).count();
    }
}
