//! What a published page has around its tables: sentences, code, topologies. It gives each table what belongs to it.
//! Not the tables, and not what a sentence says (`prose`).
//!
//! A table has the sentences since the table before it or the last heading, and those before the page's first table. A
//! topology belongs to the table before it, unless a heading stands between: then to the one that follows.

use crate::measurement::{Form, Known, Memory, Page as Stated};
use busbw_core::{Collective, size};

use super::{
    command, nccl_tests, prose,
    section::{Section, keep_command},
};

/// Maximum of bytes of sentences, and of a topology.
const MAX_PROSE_BYTES: usize = 4 << 10;
const MAX_TOPOLOGY_BYTES: usize = 256 << 10;

/// A page while its lines are read.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Within a fence of code.
    fenced: bool,
    /// The topology that is open.
    xml: Option<String>,
    /// Sentences before the first table.
    beginning: Option<String>,
    /// Sentences that wait for a table.
    prose: String,
    /// Settings and a command in inline code, which wait for a table.
    settings: Vec<(String, String)>,
    command: Option<String>,
    topology: Option<String>,
    /// What was given last.
    last: Last,
    /// The line on which the run begins that was given its part, and whether a heading followed its table.
    given: Option<u64>,
    headed: bool,
}

/// What sentences say of a table.
#[derive(Debug, Default)]
struct Last {
    stated: Stated,
    settings: Vec<(String, String)>,
    collective: Option<Collective>,
}

impl Page {
    /// Reads a line that is of no table. Returns whether it was recognised.
    pub(super) fn line(&mut self, line: &str, open: &mut Section) -> bool {
        let text = line.trim();
        // Lines of other programs may stand between those of a topology.
        let element = text.starts_with('<') || text.ends_with('>');
        if text.starts_with("<system") || (self.xml.is_some() && element) {
            self.topology_line(text, open);
            return true;
        }
        if text.starts_with("```") || text.starts_with("~~~") {
            self.fenced = !self.fenced;
            return false;
        }
        if has_test(text) && command::begins(text) {
            self.command = Some(keep_command(text));
            return true;
        }
        if self.fenced {
            return false;
        }
        if let Some(title) = heading(text) {
            self.end_beginning();
            self.headed = true;
            self.prose.clear();
            self.settings.clear();
            self.command = None;
            self.add(title);
        } else if is_prose(text) {
            self.add(text);
            self.inline_code(text);
        }
        false
    }

    fn topology_line(&mut self, text: &str, open: &mut Section) {
        let xml = self.xml.get_or_insert_default();
        if xml.len() + text.len() < MAX_TOPOLOGY_BYTES {
            xml.push_str(text);
            xml.push('\n');
        }
        if !text.contains("</system>") {
            return;
        }
        let whole = self.xml.take().filter(|xml| xml.trim_end().ends_with("</system>"));
        let run = &mut open.measurement;
        let has = run.page.as_ref().is_some_and(|page| page.topology.is_some());
        if self.headed || has || self.given != Some(run.source.line) {
            self.topology = whole;
        } else {
            run.page.get_or_insert_default().topology = whole;
        }
    }

    fn add(&mut self, text: &str) {
        if self.prose.len() + text.len() < MAX_PROSE_BYTES {
            self.prose.push_str(text);
            self.prose.push('\n');
        }
    }

    /// The sentences so far are those of the page, not of a section.
    fn end_beginning(&mut self) {
        let lines = self.prose.lines().count();
        if self.beginning.is_none() && lines > 1 {
            self.beginning = Some(self.prose.clone());
        }
    }

    /// Settings and commands in inline code: `NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1`, `osu_latency D D`.
    fn inline_code(&mut self, text: &str) {
        for code in text.split('`').skip(1).step_by(2) {
            let mut words = code.split_ascii_whitespace().peekable();
            if words.peek().is_some_and(|first| command::is_test(first)) {
                self.command = Some(keep_command(code));
            } else if words.peek().is_some() && words.clone().all(command::is_setting) {
                let pairs = words.filter_map(|word| word.split_once('='));
                self.settings = pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).take(64).collect();
            }
        }
    }

    /// Gives the open run what belongs to it, once its table has begun.
    pub(super) fn give(&mut self, open: &mut Section) {
        let run = &mut open.measurement;
        if run.rows.is_empty() || self.given == Some(run.source.line) {
            return;
        }
        self.xml = None;
        let first = self.given.replace(run.source.line).is_none();
        self.headed = false;
        let own = std::mem::take(&mut self.prose);
        if first && self.beginning.is_none() {
            self.beginning = Some(own.clone());
        }
        let command = self.command.take();
        let topology = self.topology.take();
        let setting = run.page.take().and_then(|page| page.setting);
        // The rows of a table of settings are runs with nothing between them.
        let goes_on = setting.is_some() && own.is_empty() && command.is_none();
        if !goes_on {
            self.last = Last::default();
            self.last.settings = std::mem::take(&mut self.settings);
            let beginning = self.beginning.as_deref().unwrap_or_default();
            self.last.stated = prose::read(&own).or(&prose::read(beginning));
            self.last.stated.size = prose::size_in(&own).or_else(|| prose::size_in(beginning));
            self.last.collective = collective_in(&own).or_else(|| collective_in(beginning));
        }
        run.command = run.command.take().or(command);
        // What a sentence says of settings holds where no command line tells.
        if run.command.is_none() {
            for (name, value) in &self.last.settings {
                run.environment.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        if run.source.form == Form::Osu {
            run.test.memory = run.command.as_deref().and_then(memory).or(run.test.memory);
        }
        let stated = Stated { setting, topology, ..self.last.stated.clone() };
        if stated.setting.is_some() {
            let program = run.command.as_deref().and_then(nccl_tests::collective_in);
            run.test.collective = program.or(self.last.collective).map(Known::stated);
            let largest = run.command.as_deref().and_then(largest_size);
            let size = stated.size.or(largest).unwrap_or(0);
            run.rows.iter_mut().for_each(|row| row.size = size);
        }
        if stated != Stated::default() {
            run.page = Some(stated);
        }
    }
}

/// The title of a heading.
fn heading(text: &str) -> Option<&str> {
    let title = text.trim_start_matches('#');
    let level = text.len() - title.len();
    ((1..=6).contains(&level) && title.starts_with(' ')).then(|| title.trim())
}

/// Whether a line is of sentences: it begins with a word, and has several.
fn is_prose(text: &str) -> bool {
    let text = text.trim_start_matches(['*', '-', '>', '(', '`', ' ']);
    text.starts_with(|c: char| c.is_alphanumeric())
        && text.split_ascii_whitespace().nth(1).is_some()
}

/// Whether a line names a test's program that no other reader looks for.
fn has_test(text: &str) -> bool {
    text.contains("osu_") && text.split_ascii_whitespace().any(command::is_test)
}

/// Where the buffers of `osu_bw D D` are; none where they differ.
fn memory(command: &str) -> Option<Known<Memory>> {
    let mut words = command.split_ascii_whitespace().skip_while(|word| !command::is_test(word));
    words.next()?;
    match words.filter(|word| ["D", "H"].contains(word)).collect::<Vec<_>>().as_slice() {
        ["D", "D"] => Some(Known::stated(Memory::Device)),
        ["H", "H"] => Some(Known::stated(Memory::Host)),
        _ => None,
    }
}

/// The collective that sentences name, if they name one.
fn collective_in(text: &str) -> Option<Collective> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
    let mut named = words.filter_map(|word| {
        let word = word.to_ascii_lowercase().replace('-', "_");
        let name = match word.strip_suffix("_perf").unwrap_or(&word) {
            "allreduce" => "all_reduce",
            "allgather" => "all_gather",
            "reducescatter" => "reduce_scatter",
            "all_to_all" => "alltoall",
            // Words of any sentence are no collectives.
            name if !name.contains('_') && name != "alltoall" => return None,
            name => name,
        };
        Collective::from_name(name)
    });
    let first = named.next()?;
    named.all(|next| next == first).then_some(first)
}

/// The largest size of a command line of nccl-tests, bytes.
fn largest_size(command: &str) -> Option<u64> {
    let mut words = command.split_ascii_whitespace().skip_while(|word| *word != "-e");
    size::parse(words.nth(1)?).ok()
}

#[cfg(test)]
mod tests {
    use crate::import::read;
    use crate::measurement::{Figure, Measurement, Memory, Network};

    const ROW: &str = "1048576 262144 float sum -1 1234.5 849.36 1486.38 0 1234.5 849.36 1486.38 0";

    fn runs(text: &str) -> Vec<Measurement> {
        read(text.as_bytes(), "page").expect("rows").measurements
    }

    #[test]
    fn a_command_belongs_to_the_table_below_it() {
        let page = format!(
            "Two nodes x 4 H100.\n```\nmpirun -np 8 -N 4 \\\n  -x NCCL_MNNVL_ENABLE=0 \\\n  ./all_reduce_perf_mpi -b 1M\n```\n{ROW}\n# Avg bus bandwidth : 1\n\nThen with one 200 Gb/s RoCE port:\n```\nexport NCCL_NET=Socket\nmpirun -np 8 -H a,b -x NCCL_NET ./all_reduce_perf -b 1M\n```\n{ROW}\n"
        );
        let runs = runs(&page);
        let [first, second] = runs.as_slice() else { panic!("{} runs", runs.len()) };
        assert!(
            first.command.as_deref().is_some_and(|all| all.contains("NCCL_MNNVL_ENABLE=0 ./all"))
        );
        assert_eq!((first.hosts, second.hosts), (Some(2), Some(2)));
        assert_eq!(second.environment.get("NCCL_NET").map(String::as_str), Some("Socket"));
        assert!(first.environment.is_empty());
        let page = second.page.as_ref().expect("a page");
        assert_eq!((page.gpus, page.nics.map(|nics| nics.gbit)), (Some(4), Some(200.0)));
        assert_eq!(first.page.as_ref().and_then(|page| page.nics), None);
    }

    #[test]
    fn a_topology_is_of_the_table_before_it_unless_a_heading_stands_between() {
        let xml = |name: &str| {
            format!("```xml\n<system version=\"1\">\n<nic name=\"{name}\"/>\n</system>\n```\n")
        };
        let page = format!(
            "## One\n{ROW}\n# Avg bus bandwidth : 1\n{}\n## Two\n{}{ROW}\n",
            xml("a"),
            xml("b")
        );
        let found: Vec<bool> = runs(&page)
            .iter()
            .zip(["a", "b"])
            .map(|(run, name)| {
                let topology = run.page.as_ref().and_then(|page| page.topology.as_deref());
                topology.is_some_and(|xml| xml.contains(&format!("\"{name}\"")))
            })
            .collect();
        assert_eq!(found, [true, true]);
    }

    #[test]
    fn lines_of_other_programs_are_no_part_of_a_topology() {
        let page = format!("{ROW}\n<system version=\"1\">\n+ hostname\n<nic/>\n</system>\n");
        let run = runs(&page).remove(0);
        let topology = run.page.and_then(|page| page.topology);
        assert_eq!(topology.as_deref(), Some("<system version=\"1\">\n<nic/>\n</system>\n"));
    }

    #[test]
    fn settings_are_runs_of_their_own() {
        let page = "Six nodes x 8 H100, 8 x 400 Gb/s RoCE per node, NVLink is off (`NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1`), 48 ranks, all_reduce:\n\n| setting | GB/s |\n|---|---|\n| default | 23 |\n| NCCL_IB_QPS_PER_CONNECTION=4 | 25 |\n";
        let runs = runs(page);
        let [first, second] = runs.as_slice() else { panic!("{} runs", runs.len()) };
        for run in [first, second] {
            assert_eq!(run.rank_count(), Some(48));
            assert_eq!((run.hosts, run.test_name()), (Some(6), "all_reduce"));
            assert_eq!(run.environment.get("NCCL_P2P_DISABLE").map(String::as_str), Some("1"));
            let nics = run.page.as_ref().and_then(|page| page.nics).expect("stated");
            assert_eq!((nics.count, nics.network), (8, Some(Network::Roce)));
        }
        assert_eq!(first.environment.len() + 1, second.environment.len());
        assert_eq!(second.rows[0].out_of_place.as_ref().and_then(|half| half.busbw), Some(25.0));
    }

    #[test]
    fn another_test_behind_a_table_of_osu_is_another_test() {
        let page = "Host memory (`osu_latency H H`):\n# OSU MPI-CUDA Latency Test v7.4\n# Size Avg Latency(us)\n1 1.71\n2 1.72\nGPU memory (`osu_latency D D`):\nSize (bytes) Latency (us)\n0 1 2.88\nBandwidth:\nSize (bytes) Bandwidth (MB/s)\n0 1 3.23\n";
        let runs = runs(page);
        let memory: Vec<Option<Memory>> =
            runs.iter().map(|run| run.test.memory.map(|memory| memory.value)).collect();
        assert_eq!(memory, [Some(Memory::Host), Some(Memory::Device), None]);
        assert_eq!(runs[2].test.figure, Figure::PointToPoint);
        assert_eq!(runs[2].test_name(), "OSU bandwidth");
    }

    #[test]
    fn a_page_without_a_table_is_refused_as_before() {
        assert!(read("Two nodes x 8 H100.\nNothing else is here.\n".as_bytes(), "page").is_err());
    }
}
