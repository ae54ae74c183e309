//! Every pair of ranks, in rounds of disjoint pairs that exchange messages at once: first all of them, then
//! those that seem slow once more, before a verdict names a rank.
//! Not the schedule, and not what the figures mean (`busbw_core::pairs`).

mod look;
mod neighbours;
mod pace;

use busbw_core::{
    Benchmark,
    exit::Exit,
    messages::Messages,
    pairs::{
        Unit,
        assessment::{Mover, PairsAssessment, Rule},
        figures::{Cell, Figures},
        judge::{confirm, judge},
        retest::{self, FIRST_PASSES, Retest},
        schedule::Schedule,
    },
    pattern::derive_seed,
    plan::{BufferMemory, PairSelection, Placement, Sweep},
    record::{PairsFigures, Row},
};
use serde::{Deserialize, Serialize};

use self::{look::Look, neighbours::Neighbours, pace::Pace};
use super::{Report, RunError, Session};
use crate::backend::BackendError;
use crate::measure::checks::WrongElements;

/// The suspects of the first look, and the schedule of the second. Rank 0 decides for all, because
/// other machines may round logarithms differently.
#[derive(Serialize, Deserialize)]
struct Suspicion {
    verdict: PairsAssessment,
    retest: Option<Retest>,
}

impl Session<'_> {
    /// Measures one matrix for each test of the plan.
    pub(super) fn run_pairs(&mut self) -> Result<(), RunError> {
        let sweep = self.plan.sweeps().first().copied();
        let (Some(pairing), Some(sweep)) = (&self.plan.pairing, sweep) else {
            return Ok(());
        };
        let neighbours = self.neighbours()?;
        let schedule = schedule(pairing.selection, &neighbours.hosts, self.plan.seed);
        let mut recorded = false;
        for test in &pairing.tests {
            let bytes = self.plan.bytes_of(*test) as usize;
            let taken = self.backend.channel().and_then(|channel| channel.takes(*test, bytes));
            if self.waive_messages(taken, Benchmark::Pairs, sweep, bytes)? {
                continue;
            }
            if schedule.pairs().next().is_none() {
                let reason = Some("all ranks are on one host: it has no rails".to_owned());
                let row = self.messages_row(Benchmark::Pairs, sweep, bytes, 0);
                self.report_row(Row { waived: reason, ..row })?;
                self.index += 1;
                continue;
            }
            if !std::mem::replace(&mut recorded, true) {
                self.tuning_pass_of_pairs(*test, sweep, &schedule)?;
            }
            let row = self.measure_matrix(*test, sweep, &schedule, &neighbours)?;
            self.report_row(row)?;
            self.index += 1;
        }
        Ok(())
    }

    fn measure_matrix(
        &mut self,
        test: Messages,
        sweep: Sweep,
        schedule: &Schedule,
        neighbours: &Neighbours,
    ) -> Result<Row, RunError> {
        let bytes = self.plan.bytes_of(test) as usize;
        let mut wrong_elements = WrongElements::default();
        let asked = Pace::of(self.plan, test);
        let adapts = self.plan.pairing.as_ref().is_some_and(|pairing| pairing.adapts);
        let mut pace = asked;
        for number in 1..=u64::from(self.plan.check).max(1) {
            let seed = derive_seed(self.seed(Placement::OutOfPlace), u64::MAX - number);
            let check = (number, seed);
            let slowest = self.prove_pairs(test, sweep, schedule, check, &mut wrong_elements)?;
            pace = if adapts { asked.kept_to(slowest, test) } else { asked };
        }
        let first = self.look(test, sweep, schedule, FIRST_PASSES, pace)?;
        let Suspicion { verdict, retest } =
            self.suspect(&first, test, bytes, schedule, neighbours)?;
        let (verdict, second) = match retest {
            None => (verdict, None),
            Some(retest) => {
                let again = self.look(test, sweep, &retest.schedule, retest.passes, pace)?;
                let figures = figures(&again, test, bytes, neighbours)?;
                (
                    confirm(&verdict, &figures, &Rule::strict(Unit::of(test), self.mover())),
                    Some(again),
                )
            }
        };
        let checked = self.plan.check > 0;
        let messages = self.plan.messages_each(test, pace.window);
        let half = |look: &Look| look.half(messages, bytes, pace, asked);
        let mut first = half(&first);
        first.figures.wrong = checked.then_some(wrong_elements.wrong);
        first.failed_checks = wrong_elements.failed_checks;
        first.wrong_places = wrong_elements.places;
        let notes = self.notes(neighbours, &verdict, test);
        let pairs = PairsFigures { test, verdict, retest: second.as_ref().map(half) };
        Ok(Row {
            out_of_place: Some(first),
            pairs: Some(Box::new(pairs)),
            notes,
            ..self.messages_row(Benchmark::Pairs, sweep, bytes, 0)
        })
    }

    /// Whether GPUs or processors move the bytes. Through MPI processors take part, and the normal
    /// spread between healthy GPUs is not known there: the result is then `Mover::Processors`, the
    /// cautious answer.
    fn mover(&self) -> Mover {
        match self.plan.backend.spec().buffers {
            BufferMemory::Gpu => Mover::Devices,
            BufferMemory::None | BufferMemory::Host | BufferMemory::Chosen => Mover::Processors,
        }
    }

    /// Notes that a reader of the matrix needs.
    fn notes(
        &self,
        neighbours: &Neighbours,
        verdict: &PairsAssessment,
        test: Messages,
    ) -> Vec<String> {
        let on_processors = self.mover() == Mover::Processors;
        let divided = !on_processors && self.plan.ranks() > 2 && !test.is_latency();
        let said = [
            (
                neighbours.crowded(),
                "ranks share cores: a slower rank may only have waited for its core",
            ),
            (
                on_processors && !verdict.slow.is_empty(),
                match self.plan.backend.verbs_options() {
                    Some(_) => {
                        "one launch cannot tell a slow port from a busy link: check whether another launch names the same"
                    }
                    None => {
                        "one launch cannot tell a slow core from a busy one: check whether another launch names the same"
                    }
                },
            ),
            (
                divided,
                "NCCL divides its channels among the peers of a communicator: two ranks alone reach more (busbw bw -g 2)",
            ),
        ];
        said.into_iter().filter(|(holds, _)| *holds).map(|(_, note)| format!("# {note}")).collect()
    }

    /// The suspects of the first look, as rank 0 sees them.
    fn suspect(
        &mut self,
        first: &Look,
        test: Messages,
        bytes: usize,
        schedule: &Schedule,
        neighbours: &Neighbours,
    ) -> Result<Suspicion, RunError> {
        let mut said = Vec::new();
        if self.world.rank() == 0 {
            let verdict = judge(
                &figures(first, test, bytes, neighbours)?,
                &Rule::liberal(Unit::of(test), self.mover()),
            );
            let measured: Vec<[usize; 2]> = schedule.pairs().collect();
            let class = |a: usize, b: usize| {
                let all =
                    self.plan.pairing.as_ref().is_none_or(|p| p.selection != PairSelection::Rails);
                let pair = [a.min(b), a.max(b)];
                (all || measured.contains(&pair)).then(|| neighbours.class(a, b))
            };
            let retest = retest::plan(&verdict, schedule, class);
            said = serde_json::to_vec(&Suspicion { verdict, retest }).unwrap_or_default();
        }
        let all = self.world.allgather(&said, self.deadline())?;
        let said = all.first().map_or(&[][..], Vec::as_slice);
        serde_json::from_slice(said).map_err(|e| internal(format!("rank 0's suspicion: {e}")))
    }

    /// Reports progress.
    fn report_pass(&mut self, test: Messages, pass: usize, passes: usize) -> Result<(), RunError> {
        let bytes = self.plan.bytes_of(test);
        if self.world.rank() == 0 {
            let (pass, passes) = (pass as u64, passes as u64);
            self.report(Report::Pass { index: self.index, bytes, pass, passes })?;
        }
        Ok(())
    }
}

/// The rounds of disjoint pairs.
fn schedule(selection: PairSelection, hosts: &[usize], seed: u64) -> Schedule {
    let count = hosts.iter().max().map_or(0, |last| last + 1);
    let of = |host: usize| (0..hosts.len()).filter(|rank| hosts[*rank] == host).collect();
    let by_host: Vec<Vec<usize>> = (0..count).map(of).collect();
    match selection {
        PairSelection::All => Schedule::by_hosts(&by_host),
        PairSelection::Rails => Schedule::by_rails(&by_host),
        PairSelection::Sample(peers) => Schedule::sample(hosts.len(), peers, seed),
    }
}

/// The figures that can be judged.
fn figures(
    look: &Look,
    test: Messages,
    bytes: usize,
    neighbours: &Neighbours,
) -> Result<Figures, RunError> {
    let unit = Unit::of(test);
    let figure = |us: &f64| unit.figure(bytes as u64, *us);
    let cells = look.samples().filter_map(|([from, to], times)| {
        let class = neighbours.class(from, to);
        Cell::of(from, to, class, &times.iter().map(figure).collect::<Vec<_>>())
    });
    let (hosts, classes) = (neighbours.hosts.clone(), neighbours.classes());
    Figures::new(unit, hosts, classes, cells.collect()).map_err(|e| internal(e.to_string()))
}

/// The error for a case that only a bug can cause.
fn internal(text: String) -> RunError {
    BackendError::Refused { text, exit: Exit::Internal }.into()
}
