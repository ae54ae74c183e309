//! What launchers and schedulers print of jobs that fail: Open MPI, MPICH and Intel MPI (Hydra), Slurm, ssh.
//! Not torchrun (`elastic`), and not what MPI programs say themselves.
//!
//! Sources: Open MPI's help-*.txt of 4.1 and 5.0, Hydra's pmiserv_cb.c, Slurm's slurmstepd and srun, real logs.

use super::{
    incident::Incident,
    kind::Kind,
    line::{Line, between, number},
    rule::{Field, Rule, keep, rule, word},
};

pub(super) const RULES: &[Rule] = &[
    rule("has detected an attempt to run as root", Kind::RunAsRoot),
    rule("There are not enough slots available in the system to satisfy the ", Kind::TooFewSlots)
        .read(|incident, _, after| {
            incident.details.asked = word(after);
            true
        }),
    rule("All nodes which are allocated for this job are already filled", Kind::NoUsableHost),
    rule("was unable to launch the specified application", Kind::ProgramMissing).opens(),
    rule("was unable to find the specified executable file", Kind::ProgramMissing).opens(),
    rule("launch agent (plm_rsh_agent)", Kind::NoSsh),
    rule("plm_rsh_agent\" was set to a path that could not be found", Kind::NoSsh),
    rule("Could not resolve hostname ", Kind::HostUnknown).read(|incident, _, after| {
        incident.details.name = after.split(": ").next().and_then(word);
        incident.details.reason = after.split_once(": ").map(|(_, reason)| keep(reason));
        true
    }),
    rule("Host key verification failed", Kind::SshRefused).read(ssh_reason),
    rule("Permission denied (publickey", Kind::SshRefused).read(ssh_reason),
    rule("ssh: connect to host ", Kind::SshRefused).read(|incident, _, after| {
        incident.details.name = word(after);
        incident.details.reason = after.rsplit_once(": ").map(|(_, reason)| keep(reason));
        true
    }),
    rule("was unable to reliably start one or more daemons", Kind::DaemonsNotStarted),
    rule("are unable to reach each other for", Kind::Unreachable).opens(),
    rule("MPI_ABORT was invoked on rank ", Kind::MpiAbort).opens().read(|incident, _, after| {
        incident.rank(number(after));
        true
    }),
    // MPICH: Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1
    rule("application called MPI_Abort(", Kind::MpiAbort).read(|incident, _, after| {
        incident.details.exit_code =
            between(after, ", ", ")").and_then(|code| code.trim().parse().ok());
        incident.rank(after.split_once("process ").and_then(|(_, rank)| number(rank)));
        true
    }),
    rule("time limit for job execution has been reached", Kind::TimeLimit).opens().read(
        |incident, _, _| {
            incident.details.variable = Some("--timeout".to_owned());
            true
        },
    ),
    rule("*** An error occurred in ", Kind::MpiError).opens().read(|incident, line, after| {
        incident.details.op = word(after);
        incident.host(bracket(line).unwrap_or_default());
        true
    }),
    // MPICH: Fatal error in PMPI_Bcast: Message truncated, error stack:
    rule("Fatal error in ", Kind::MpiError).read(|incident, _, after| {
        incident.details.op = after.split([':', '(']).next().and_then(word);
        incident.details.reason =
            after.split(": ").nth(1).map(|said| keep(said.trim_end_matches(", error stack:")));
        let mpi = |op: &String| {
            op.starts_with("MPI_") || op.starts_with("PMPI_") || op.starts_with("internal_")
        };
        incident.details.op.as_ref().is_some_and(mpi)
    }),
    rule("] Signal: ", Kind::ProcessEnd).read(|incident, line, after| {
        // Segmentation fault (11)
        incident.details.signal = after.rsplit_once('(').and_then(|(_, signal)| number(signal));
        incident.host(bracket(line).unwrap_or_default());
        incident.pid(between(line.bare(), ":", "]").and_then(number));
        incident.details.signal.is_some()
    }),
    rule(" noticed that process rank ", Kind::ProcessEnd).read(|incident, _, after| {
        incident.rank(number(after));
        incident.host(between(after, "on node ", " ").unwrap_or_default());
        incident.details.signal = after.split_once("on signal ").and_then(|(_, s)| number(s));
        true
    }),
    rule("exited with non-zero status", Kind::ProcessEnd).opens(),
    rule("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", Kind::ProcessEnd).opens(),
    rule("CANCELLED AT ", Kind::Cancelled).read(cancelled),
    rule("srun: error: ", Kind::ProcessEnd).read(task),
    // ORTE or PRTE has lost communication with a remote daemon.
    rule("has lost communication with a remote daemon", Kind::HostLost).opens(),
    // UCX below MPI.
    rule("Transport retry count exceeded", Kind::NetworkRetries).read(|incident, line, after| {
        incident.details.name = after.split_whitespace().nth(1).map(keep);
        incident.details.exit_code = Some(12);
        line.text.contains("UCX") || line.text.contains("mlx5")
    }),
    rule("no active messages transport to ", Kind::Unreachable).read(|incident, _, _| {
        incident.details.name = Some("UCX".to_owned());
        true
    }),
    // DeepSpeed's launcher, and Python's subprocess in others.
    rule("exits with return code = ", Kind::ProcessEnd).read(|incident, _, after| {
        match signed(after) {
            Some(code) if code < 0 => incident.details.signal = u32::try_from(-code).ok(),
            code => incident.details.exit_code = code,
        }
        true
    }),
    rule("died with <Signals.SIG", Kind::ProcessEnd).read(|incident, _, after| {
        incident.details.signal = between(after, ": ", ">").and_then(number);
        incident.details.signal.is_some()
    }),
    rule("oom_kill event", Kind::OomKill).read(slurm_memory),
    rule("oom-kill event", Kind::OomKill).read(slurm_memory),
    rule("memory limit", Kind::OomKill).read(|_, line, _| {
        // slurmstepd: error: Step 1.0 exceeded memory limit (5 > 4), being killed; Exceeded job memory limit
        line.text.contains("slurmstepd") && line.text.contains("xceeded")
    }),
];

/// Details that launchers print on lines of their own.
pub(super) const FIELDS: &[Field] = &[
    Field {
        needle: "Remote daemon: ",
        of: &[Kind::HostLost],
        read: |i, after| i.host(after.split("on node ").nth(1).unwrap_or_default().trim()),
    },
    Field {
        needle: "Executable: ",
        of: &[Kind::ProgramMissing],
        read: |i, after| i.details.name = word(after),
    },
    Field { needle: "Node: ", of: &[Kind::ProgramMissing], read: |i, after| i.host(after.trim()) },
    Field {
        needle: "BTLs attempted: ",
        of: &[Kind::Unreachable],
        read: |i, after| i.details.name = Some(keep(after)),
    },
    Field {
        needle: ") is on host: ",
        of: &[Kind::Unreachable],
        read: |i, after| i.host(after.trim()),
    },
    Field {
        needle: "with errorcode ",
        of: &[Kind::MpiAbort],
        read: |i, after| i.details.exit_code = signed(after),
    },
    Field {
        needle: "Timeout: ",
        of: &[Kind::TimeLimit],
        read: |i, after| {
            i.details.milliseconds = number(after).map(|s: u64| s.saturating_mul(1000))
        },
    },
    Field {
        needle: "*** reported by process [",
        of: &[Kind::MpiError],
        read: |i, after| i.rank(last_of_list(after)),
    },
    Field {
        needle: "*** MPI_ERR_",
        of: &[Kind::MpiError],
        read: |i, after| {
            i.details.name = after.split(':').next().map(|name| keep(&format!("MPI_ERR_{name}")));
            i.details.reason = after.split_once(": ").map(|(_, said)| keep(said));
        },
    },
    Field {
        needle: "Process name: ",
        of: &[Kind::ProcessEnd],
        read: |i, after| i.rank(last_of_list(after)),
    },
    Field {
        needle: "Exit code: ",
        of: &[Kind::ProcessEnd],
        read: |i, after| i.details.exit_code = signed(after),
    },
    Field {
        needle: "RANK ",
        of: &[Kind::ProcessEnd],
        read: |i, after| {
            if after.contains(" RUNNING AT ") {
                i.rank(number(after));
            }
        },
    },
    Field {
        needle: " RUNNING AT ",
        of: &[Kind::ProcessEnd],
        read: |i, after| i.host(after.trim()),
    },
    Field {
        needle: "KILLED BY SIGNAL: ",
        of: &[Kind::ProcessEnd],
        read: |i, after| i.details.signal = number(after),
    },
    Field {
        needle: "EXIT CODE: ",
        of: &[Kind::ProcessEnd],
        read: |i, after| i.details.exit_code = signed(after),
    },
    Field {
        needle: "WITH THE EXIT STRING: ",
        of: &[Kind::ProcessEnd],
        read: |i, after| i.details.signal = between(after, "(signal ", ")").and_then(number),
    },
];

fn signed(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(rest) => number::<i64>(rest).map(|code| -code),
        None => number(text),
    }
}

/// The rank of `[[28465,1],1]`, `[prterun-node-1@1,3] Exit code: 1` and `[1847721985,1]`: the last number in brackets.
fn last_of_list(text: &str) -> Option<u32> {
    number(text.rsplit_once(']')?.0.rsplit(',').next()?)
}

/// The host in `[vm:00673] `.
fn bracket<'a>(line: &Line<'a>) -> Option<&'a str> {
    line.bare().trim_start().strip_prefix('[')?.split_once(':').map(|(host, _)| host)
}

fn ssh_reason(incident: &mut Incident, line: &Line<'_>, _: &str) -> bool {
    incident.details.reason = Some(keep(line.bare().trim_end_matches(['.', '\r', ' '])));
    // user@host: Permission denied (publickey).
    incident.details.name = line
        .bare()
        .split(": Perm")
        .next()
        .and_then(|who| word(who.rsplit('@').next()?))
        .filter(|_| line.text.contains('@'));
    true
}

/// slurmstepd: error: *** STEP 1.0 ON node CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***
fn cancelled(incident: &mut Incident, line: &Line<'_>, after: &str) -> bool {
    let reason = between(after, "DUE TO ", " ***")
        .or_else(|| after.split_once("DUE TO ").map(|(_, said)| said));
    incident.host(between(line.text, " ON ", " CANCELLED").unwrap_or_default());
    incident.details.reason = reason.map(keep);
    incident.kind = match reason.unwrap_or_default() {
        reason if reason.starts_with("TIME LIMIT") => Kind::TimeLimit,
        reason if reason.contains("NODE FAIL") => Kind::NodeFailure,
        reason if reason.starts_with("PREEMPT") => Kind::Preempted,
        // Another task's failure is told by that task.
        reason if reason.contains("TASK FAIL") => Kind::Ended,
        _ => Kind::Cancelled,
    };
    incident.details.variable = (incident.kind == Kind::TimeLimit).then(|| "--time".to_owned());
    line.text.contains("***") || line.text.contains("slurmstepd")
}

/// srun: error: nid001277: tasks 1-3: Out Of Memory; node7: task 0: Exited with exit code 3
fn task(incident: &mut Incident, _: &Line<'_>, after: &str) -> bool {
    if let Some(host) = after.strip_prefix("Node failure on ") {
        incident.kind = Kind::NodeFailure;
        incident.host(host.trim());
        return true;
    }
    if after.starts_with("Unable to ") {
        incident.kind = Kind::StepRefused;
        incident.details.reason = Some(keep(after));
        return true;
    }
    let mut parts = after.splitn(3, ": ");
    let (Some(host), Some(tasks), Some(end)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Some(list) = tasks.strip_prefix("tasks ").or_else(|| tasks.strip_prefix("task ")) else {
        return false;
    };
    incident.host(host);
    incident.ranks.clear();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Some(first), Some(last)) = (number::<u32>(first), number::<u32>(last)) {
            (first..=last)
                .take(super::incident::MAX_MEMBERS)
                .for_each(|rank| incident.rank(Some(rank)));
        }
    }
    const ENDS: [(&str, u32); 7] = [
        ("Killed", 9),
        ("Segmentation fault", 11),
        ("Bus error", 7),
        ("Aborted", 6),
        ("Floating point exception", 8),
        ("Illegal instruction", 4),
        ("Terminated", 15),
    ];
    if end.starts_with("Out Of Memory") {
        incident.kind = Kind::OomKill;
    } else if let Some(code) = end.strip_prefix("Exited with exit code ") {
        incident.details.exit_code = number(code);
    } else {
        incident.details.signal =
            ENDS.iter().find(|(name, _)| end.starts_with(name)).map(|(_, signal)| *signal);
        return incident.details.signal.is_some();
    }
    true
}

/// slurmstepd: error: Detected 1 oom_kill event in StepId=440575.0. Some of the step tasks have been OOM Killed.
fn slurm_memory(_: &mut Incident, line: &Line<'_>, _: &str) -> bool {
    line.text.contains("Detected ")
}
