//! Variants of calls on NCCL: what a call is given, the refusal of one that cannot be honoured, and NCCL's word that it was.
//! Not which variants there are (`busbw_core::plan`), and not when they run (`measure`).

use busbw_core::{
    plan::{Case, Variant},
    quantity::bytes,
};
use busbw_ffi::nccl::{CallConfig, Nccl as Library, NcclError};

use crate::backend::Reason;

/// The options that variants come from, for messages.
pub(super) const OPTIONS: &str = "--algorithm, --min-ctas, --max-ctas or several values of -x";
/// ncclInvalidArgument: NCCL's answer to an algorithm that a call cannot have (config/collconfig.cc, enqueue/enqueue.cc,
/// scheduler/symmetric_sched.cc of 2.32.3).
const INVALID_ARGUMENT: i32 = 4;
/// The member of ncclCollConfig_t that NCCL's words about it name.
const SELECTION: &str = "algSelection";

/// What calls of a variant are given.
pub(super) fn config(library: &Library, variant: &Variant) -> Option<CallConfig> {
    let Variant { algorithm, min_ctas, max_ctas, cta_policy } = variant;
    // Names come from a list of NCCL's own: none has a zero byte.
    CallConfig::new(library, algorithm.as_deref(), [*min_ctas, *max_ctas], *cta_policy).ok()
}

/// Why NCCL declines a variant, if that is what the error says. NCCL decides by its own table, which is the same on all
/// ranks.
pub(super) fn declined(given: &Variant, case: &Case, error: &NcclError) -> Option<Reason> {
    let algorithm = given.algorithm.as_deref()?;
    if error.code != INVALID_ARGUMENT || !error.last.contains(SELECTION) {
        return None;
    }
    let size = bytes(case.counts.bytes(case.sweep.datatype.bytes()) as u64);
    let said = error.last.trim_start_matches(", ").trim();
    // Other words of NCCL's say that the collective has no such algorithm at all.
    let left_out = algorithm.ends_with("LL128") && said.starts_with(SELECTION);
    let remedy = match left_out {
        true => {
            "; NCCL leaves LL128 out here, and runs it under NCCL_PROTO=LL128 alone, in every call"
        }
        false => "",
    };
    Some(Reason(format!(
        "NCCL: {given} cannot be honored for {} of {size} ({said}){remedy}",
        case.collective.name()
    )))
}

/// Why a variant is declined whose algorithm NCCL has not run (before 2.31, where a tuner asks for it).
pub(super) fn not_run(given: &Variant, case: &Case, why: &str) -> Reason {
    let size = bytes(case.counts.bytes(case.sweep.datatype.bytes()) as u64);
    let collective = case.collective.name();
    Reason(format!("NCCL: {given} cannot be honored for {collective} of {size}: {why}"))
}

/// The algorithm that a line of NCCL's log says was picked among those that a call may have.
pub(super) fn picked(line: &str) -> Option<&str> {
    let (_, said) = line.split_once("algSelection: ")?;
    said.strip_suffix(" picked within the selected set").filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use busbw_core::{Collective, plan::Plan};

    use super::*;

    fn error(code: i32, last: &str) -> NcclError {
        let text = "invalid argument (run with NCCL_DEBUG=WARN for details)".to_owned();
        NcclError { call: "ncclAllReduceConfig", code, text, last: last.to_owned() }
    }

    #[test]
    fn only_a_refused_selection_is_declined() {
        let plan = Plan::example();
        let case = plan.case(Collective::AllReduce, plan.sweeps()[0], 1 << 20, 2);
        let given = Variant { algorithm: Some("PAT_SIMPLE".to_owned()), ..Variant::default() };
        let last = ", algSelection: no algorithm in the selected set is available for AllReduce";
        let reason = declined(&given, &case, &error(4, last)).unwrap().0;
        assert_eq!(
            reason,
            "NCCL: PAT_SIMPLE cannot be honored for all_reduce of 1 MiB (algSelection: no algorithm in the selected set is available for AllReduce)"
        );
        let given = Variant { algorithm: Some("TREE_LL128".to_owned()), ..Variant::default() };
        let reason = |last| declined(&given, &case, &error(4, last)).unwrap().0;
        assert!(reason(last).ends_with("NCCL_PROTO=LL128 alone, in every call"));
        let unknown = "config->algSelection \"TREE_LL128\" cannot be honored for AllGather";
        assert!(reason(unknown).ends_with("for AllGather)"));
        assert_eq!(declined(&given, &case, &error(2, last)), None);
        assert_eq!(declined(&given, &case, &error(4, ", AllReduce : invalid type 99")), None);
        assert_eq!(declined(&Variant::default(), &case, &error(4, last)), None);
    }

    #[test]
    fn the_line_of_a_pick() {
        let line = "h:1:2 [0] NCCL INFO algSelection: RING_SIMPLE picked within the selected set";
        assert_eq!(picked(line), Some("RING_SIMPLE"));
        assert_eq!(
            picked("algSelection: selected set unavailable for AllReduce; falling back"),
            None
        );
    }
}
