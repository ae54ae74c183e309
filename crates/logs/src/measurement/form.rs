//! The forms of a source, and what each says about its runs: one table, which every reader of runs asks.
//! Not how a form is read (`import`).

use serde::{Deserialize, Serialize};

/// The format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The table of nccl-tests or rccl-tests.
    #[default]
    NcclTests,
    /// The report of nccl-tests' `-J`.
    NcclTestsJson,
    /// The text of the OSU Micro-Benchmarks, or a print of it.
    Osu,
    /// busbw's record.
    Record,
    /// What busbw's net plugin counted, without a run.
    NetStats,
    /// What busbw's profiler wrote of a running job.
    Watch,
    /// The output of a job or of NCCL, without a table.
    Log,
}

/// What a form says about every run that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormFacts {
    /// What wrote the source, in the line that `import` prints of a run.
    pub name: &'static str,
    /// The program that measured, in a table of versions.
    pub program: &'static str,
    /// Whether the program runs over NCCL (or RCCL).
    pub library: NcclUse,
    /// Whether the source has everything that busbw records: settings, command line with secrets masked, devices.
    pub recorded: bool,
    /// Whether the source is of a benchmark, which has figures; else it has counters only.
    pub benchmark: bool,
    /// Whether a file's name may say where the buffers were, because the text often does not.
    pub memory_in_file_name: bool,
}

/// Whether NCCL (or RCCL) moved a run's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NcclUse {
    /// Always.
    Always,
    /// Only if the backend and the devices that the source states say so.
    ByBackend,
    /// Only if NCCL's log is in the source.
    IfLogged,
    /// Never.
    Never,
}

impl Form {
    /// What the form says about its runs. A new form is a variant and an entry here.
    pub const fn facts(self) -> FormFacts {
        match self {
            Form::NcclTests => FormFacts {
                name: "nccl-tests",
                program: "nccl-tests",
                library: NcclUse::Always,
                recorded: false,
                benchmark: true,
                memory_in_file_name: false,
            },
            Form::NcclTestsJson => FormFacts { name: "nccl-tests -J", ..Form::NcclTests.facts() },
            Form::Osu => FormFacts {
                name: "OSU",
                program: "OSU Micro-Benchmarks",
                library: NcclUse::IfLogged,
                recorded: false,
                benchmark: true,
                memory_in_file_name: true,
            },
            Form::Record => FormFacts {
                name: "busbw",
                program: "busbw",
                library: NcclUse::ByBackend,
                recorded: true,
                benchmark: true,
                memory_in_file_name: false,
            },
            Form::NetStats => FormFacts {
                name: "its statistics",
                program: "busbw",
                library: NcclUse::Never,
                recorded: false,
                benchmark: false,
                memory_in_file_name: false,
            },
            Form::Watch => FormFacts {
                name: "busbw's profiler",
                program: "the job",
                library: NcclUse::Always,
                recorded: false,
                benchmark: true,
                memory_in_file_name: false,
            },
            Form::Log => FormFacts {
                name: "a log without a table",
                program: "the job",
                library: NcclUse::IfLogged,
                recorded: false,
                benchmark: false,
                memory_in_file_name: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_keep_their_names_in_json() {
        for (form, json) in [
            (Form::NcclTests, "\"nccl-tests\""),
            (Form::NcclTestsJson, "\"nccl-tests-json\""),
            (Form::Osu, "\"osu\""),
            (Form::Record, "\"record\""),
            (Form::NetStats, "\"net-stats\""),
            (Form::Watch, "\"watch\""),
            (Form::Log, "\"log\""),
        ] {
            assert_eq!(serde_json::to_string(&form).ok().as_deref(), Some(json));
        }
    }
}
