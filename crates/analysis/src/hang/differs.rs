//! The words for calls of one number that differ between ranks.
//! Not which calls those are (`mismatch`).

use busbw_core::finding::Confidence;
use busbw_logs::hang::Source;

use super::assess::Stuck;
use super::case::Case;
use super::chain::End;
use super::mismatch::What;
use super::report::{HangReport, Verdict};
use super::words::{call, calls, lower, named, waited};

impl Case<'_> {
    pub(super) fn differs(&self, report: &mut HangReport) {
        let Some((here, differing)) =
            self.here.and_then(|one| Some((one, one.differing.as_ref()?)))
        else {
            return;
        };
        report.verdict = match differing.what {
            What::Operation => Verdict::OtherOperation,
            What::Datatype => Verdict::OtherType,
            What::Size => Verdict::OtherSize,
        };
        // Those of whom nothing is known may be on either side.
        let is_sure = !here.seen_once && here.unknown.is_empty();
        report.confidence = Some(if is_sure { Confidence::Certain } else { Confidence::Likely });
        let sides: Vec<String> = differing
            .calls
            .iter()
            .take(4)
            .map(|(who, made)| format!("{} {}", lower(&self.names([who])), call(made)))
            .collect();
        let what = match differing.what {
            What::Operation => "another operation",
            What::Datatype => "another type",
            What::Size => "another size",
        };
        report.sentence = match differing.even {
            true => format!(
                "{} call number {} with different {}: {}. As many say the one as the other.",
                self.names(&differing.ranks),
                here.call.number,
                match differing.what {
                    What::Operation => "operations",
                    What::Datatype => "types",
                    What::Size => "sizes",
                },
                sides.join(", ")
            ),
            false => format!(
                "{} came to call number {} with {what} than the others: {}.",
                self.names(&differing.ranks),
                here.call.number,
                sides.join(", ")
            ),
        };
        if here.is_over {
            report.sentence.push(' ');
            report.sentence.push_str(&self.afterwards(here));
        }
        if self.evidence.groups.get(here.group).is_some_and(|one| one.source == Source::Ras) {
            let launched = differing.calls.iter().take(4).map(|(who, made)| {
                format!("{} more of {}", lower(&self.names([who])), made.operation)
            });
            report.sentence = format!(
                "{} launched other operations than the others among {}: {}.",
                self.names(&differing.ranks),
                calls(here.number),
                launched.collect::<Vec<_>>().join(", ")
            );
            report.missing.push("in which call: RAS counts what was launched; dumps of PyTorch's flight recorder or files of busbw's profiler tell".to_owned());
        }
        if differing.later > 0 {
            let text =
                format!("they differ so in {} behind it, too", calls(differing.later as u64));
            report.evidence.push(text);
        }
        for (who, made) in differing.calls.iter().take(4) {
            if let Some(place) = &made.place {
                report.evidence.push(format!("{} called it at {place}", lower(&self.names([who]))));
            }
        }
        report.remedy = Some("let every rank call the same collectives in the same order with the same sizes: branches and uneven data are the usual reasons".to_owned());
    }

    /// What came of a call in which ranks differ and that ended.
    fn afterwards(&self, here: &Stuck) -> String {
        let of = |one: &Stuck| self.evidence.groups.get(one.group).map(|group| group.communicator);
        let waits = |one: &&&Stuck| !one.is_over && !one.is_message && of(one) == of(here);
        match self.stuck.iter().find(waits) {
            Some(later) => format!(
                "That call ended all the same, and its result is wrong; {} now wait{} in {}.",
                lower(&self.names(&later.waiting)),
                waited(later.call.waited_ms),
                call(&later.call)
            ),
            None => "That call ended all the same: nobody waits in it, and its result is wrong."
                .to_owned(),
        }
    }

    /// Of a verdict about something else: a call before it that ended and in which ranks differ.
    pub(super) fn differed_before(&self) -> Option<String> {
        let before = self.stuck.iter().find(|one| one.is_over)?;
        let differing = before.differing.as_ref()?;
        let group = self.evidence.groups.get(before.group)?;
        (!matches!(self.end, End::Differs | End::Differed)).then(|| {
            format!(
                "before that, {} came to call number {} of {} with other arguments than the others",
                lower(&named(&differing.ranks, self.evidence, Some(group))),
                before.call.number,
                group.name
            )
        })
    }
}
