//! Which algorithm ran: as NCCL's lines name it, or which ones the result leaves.
//! A bound never proves an algorithm; it excludes others.

use model::limits::Algorithm;

use super::super::{
    context::{Context, at},
    finding::{Confidence, Finding, Weight, list, rate},
    limit::said_at,
};

pub(super) fn look(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(measured) = &context.measured {
        let said = said_at(context, measured.size);
        if !said.is_empty() {
            findings.push(
                Finding::new(
                    "algorithm",
                    Weight::Note,
                    Confidence::Certain,
                    format!("NCCL chose {} {}", list(&said, "and"), at(measured.size)),
                )
                .evidence("NCCL's TUNING lines"),
            );
            return findings;
        }
    }
    let Some(ceiling) = &context.ceiling else { return findings };
    if ceiling.excluded.is_empty() || ceiling.explained_by.is_empty() {
        return findings;
    }
    let excluded: Vec<String> = ceiling
        .excluded
        .iter()
        .map(|(algorithm, bound)| format!("{} allows {}", algorithm.name(), rate(*bound)))
        .collect();
    findings.push(
        Finding::new(
            "algorithm",
            Weight::Note,
            Confidence::Likely,
            format!("only {} explains it", names(&ceiling.explained_by)),
        )
        .evidence(format!(
            "{} GB/s is above the bound of the others: {}",
            rate(context.busbw().unwrap_or(0.0)),
            excluded.join(", ")
        ))
        .confirm("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING … | grep -- '-> Algo'"),
    );
    findings
}

/// `Tree or NVLSTree`.
pub(in super::super) fn names(algorithms: &[Algorithm]) -> String {
    let names: Vec<&str> = algorithms.iter().map(|algorithm| algorithm.name()).collect();
    list(&names, "or")
}
