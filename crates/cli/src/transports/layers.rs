//! "perftest at line rate but NCCL slow": how much of what the ports can do RDMA writes reach, how much the collective
//! over the same ports, and so which layer loses what.
//! Not the figures' origin (`verbs`, `evidence`), and not why a layer is slow (`busbw explain`).

use busbw_analysis::sweep::{Cell, Conclusion, Outcome, SizeRow, Tried};
use busbw_stats::{Rule, Verdict, compare};

use super::networks::QUEUE_PAIRS;
use crate::sweep::digits;

/// Smaller sizes are held up by latencies and rates of messages, and say nothing of what a layer can carry.
const MIN_BYTES: u64 = 4 << 20;
/// Below this share of a limit a layer loses something: protocols and pipelines leave less.
const WHOLE_SHARE: f64 = 0.85;

/// A transport's cell, where it is proven and has a limit.
struct Reached<'a> {
    environment: &'a Tried,
    name: &'a str,
    cell: &'a Cell,
    /// Of its limit.
    share: f64,
}

/// What is lost where, at the largest size that both layers have, for each kind of ports.
pub(super) fn lines(outcome: &Outcome) -> Vec<String> {
    ["ib", "roce"].into_iter().flat_map(|family| of_family(outcome, family)).collect()
}

fn of_family(outcome: &Outcome, family: &str) -> Vec<String> {
    let writes = format!("verbs:{family}");
    let large = outcome.rows.iter().rev().filter(|row| row.size >= MIN_BYTES);
    let at = large.clone().find_map(|row| Some((row, reached(outcome, row, &writes)?)));
    let Some((row, writes)) = at else { return Vec::new() };
    let over = over_same_ports(outcome, row, family, &writes);
    let Some(best) = over.iter().max_by(|a, b| a.share.total_cmp(&b.share)) else {
        return Vec::new();
    };
    let shares = over.iter().map(|one| format!("{} {:.0} %", one.name, one.share * 100.0));
    let shares = shares.collect::<Vec<_>>().join(", ");
    let mut said = vec![format!(
        "{}, {family}: RDMA writes {} of {} GB/s, {:.0} % of what the ports can send; the collective over them, % of its own limit: {shares}",
        row.label(),
        digits(writes.cell.busbw),
        writes.cell.limit.map_or_else(String::new, digits),
        writes.share * 100.0,
    )];
    if writes.share < WHOLE_SHARE {
        said.push(
            "below the library: adapters, PCIe slots or fabric do not reach their rate. busbw pairs --backend verbs finds the pair, busbw doctor the host's settings".to_owned(),
        );
    }
    if let Some((number, times, first)) = more_queue_pairs(&over, family) {
        said.push(format!(
            "queue pairs: {QUEUE_PAIRS}={number} is {times:.2} times as fast as {first}"
        ));
    }
    if best.share < WHOLE_SHARE * writes.share {
        said.push(format!(
            "above the fabric: the best of them, {}, reaches {:.0} % of the writes' share. busbw explain of its record says what limits it; writes from host memory do not cross the path from GPU to adapter (compare {family}:gpudirect and {family}:no-gpudirect)",
            best.name,
            best.share / writes.share * 100.0,
        ));
    }
    said
}

/// A transport at a size.
fn reached<'a>(outcome: &'a Outcome, row: &'a SizeRow, name: &str) -> Option<Reached<'a>> {
    let number = outcome.environments.iter().position(|one| one.name == name)?;
    let environment = &outcome.environments[number];
    let proven = environment.transport.as_ref()?.verdict == Conclusion::Proven;
    let cell = row.cell(number).filter(|_| proven)?;
    Some(Reached { environment, name: &environment.name, cell, share: cell.busbw / cell.limit? })
}

/// The collective over the ports of the writes and no others: by itself first, then its variants.
fn over_same_ports<'a>(
    outcome: &'a Outcome,
    row: &'a SizeRow,
    family: &str,
    writes: &Reached<'_>,
) -> Vec<Reached<'a>> {
    let of_family = |name: &str| name.split_once(':').is_some_and(|(kind, _)| kind == family);
    let ports = |one: &Tried| {
        Some(one.variables.get("NCCL_IB_HCA")?.as_ref()?.trim_start_matches('=').to_owned())
    };
    let written = writes.environment.options.iter().skip_while(|word| *word != "--ib-dev").nth(1);
    let same = outcome
        .environments
        .iter()
        .filter(|one| of_family(&one.name) && ports(one).as_ref() == written);
    same.filter_map(|one| reached(outcome, row, &one.name)).collect()
}

/// The number of queue pairs that is fastest, if it is faster than the first of the family: by how much, and which that is.
fn more_queue_pairs<'a>(over: &[Reached<'a>], family: &str) -> Option<(&'a str, f64, &'a str)> {
    let (first, others) = over.split_first()?;
    let prefix = format!("{family}:qp");
    let faster = others.iter().filter_map(|one| {
        let number = one.name.strip_prefix(&prefix)?;
        let compared = compare(&first.cell.launches_us, &one.cell.launches_us, &Rule::default());
        let times = first.cell.time_us / one.cell.time_us;
        (compared.verdict == Verdict::Faster).then_some((number, times, first.name))
    });
    faster.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use busbw_analysis::sweep::{
        EvidenceSource, Scope, Transport,
        example::{near, outcome},
    };

    use super::*;

    /// Names, each with its share of a limit; all take as long as 1 / share.
    fn said(all: &[(&str, f64)]) -> Vec<String> {
        let times = all.iter().map(|(_, share)| near(1000.0 / share)).collect();
        let mut outcome = outcome(&[(64 << 20, times)]);
        for (number, (name, share)) in all.iter().enumerate() {
            let evidence = EvidenceSource::no_data("");
            let all = "mlx5_0:1,mlx5_1:1".to_owned();
            outcome.environments[number].name = (*name).to_owned();
            outcome.environments[number].options = vec!["--ib-dev".to_owned(), all.clone()];
            let ports =
                if *name == "ib:mlx5_0" { "=mlx5_0:1".to_owned() } else { format!("={all}") };
            outcome.environments[number].variables.insert("NCCL_IB_HCA".to_owned(), Some(ports));
            outcome.environments[number].transport = Some(Transport {
                asked: (*name).to_owned(),
                scope: Scope::Between,
                found: String::new(),
                verdict: Conclusion::Proven,
                log: evidence.clone(),
                counters: evidence,
                why: None,
                moved: None,
                limit: None,
            });
            let cell = outcome.rows[0].cells[number].as_mut().unwrap();
            cell.limit = Some(cell.busbw / share);
            cell.is_beside = name.starts_with("verbs");
        }
        lines(&outcome)
    }

    #[test]
    fn the_layer_that_loses_is_named() {
        let all = said(&[
            ("ib:mlx5_0", 0.9),
            ("ib:all", 0.45),
            ("ib:qp4", 0.7),
            ("ib:qp16", 0.9),
            ("verbs:ib", 0.96),
        ]);
        let expected = [
            "64M, ib: RDMA writes 112.74 of 117.44 GB/s, 96 % of what the ports can send; the collective over them, % of its own limit: ib:all 45 %, ib:qp4 70 %, ib:qp16 90 %",
            "queue pairs: NCCL_IB_QPS_PER_CONNECTION=16 is 2.00 times as fast as ib:all",
        ];
        assert_eq!(all, expected);
        let above = said(&[("roce:all", 0.3), ("roce:qp4", 0.3), ("verbs:roce", 0.9)]);
        assert!(above[1].starts_with("above the fabric: the best of them, roce:"), "{above:?}");
        assert!(above[1].contains("reaches 33 % of the writes' share"), "{above:?}");
        let below = said(&[("ib:all", 0.5), ("verbs:ib", 0.52)]);
        assert!(below[1].starts_with("below the library"), "{below:?}");
        assert_eq!(below.len(), 2);
        // Nothing is lost: the shares alone.
        assert_eq!(said(&[("ib:all", 0.9), ("verbs:ib", 0.96)]).len(), 1);
        // Another port is not theirs, and without writes there is nothing beneath.
        assert_eq!(said(&[("ib:mlx5_0", 0.9), ("verbs:ib", 0.96)]).len(), 0);
        assert_eq!(said(&[("ib:all", 0.9)]).len(), 0);
        assert_eq!(said(&[("verbs:ib", 0.9)]).len(), 0);
    }
}
