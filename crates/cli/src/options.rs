//! What was asked: the command line and NCCL_TESTS_* become one typed request.
//! Not the plan's execution, and clap stays in here: nothing behind this module knows of it.

mod arguments;
mod calls;
mod checking;
mod command_line;
mod defaults;
mod environment;
mod fabrics;
mod getopt;
mod grammar;
mod help;
mod installing;
mod integer;
mod kubernetes;
mod launching;
mod osu;
mod overview;
mod own_words;
mod pairing;
mod perftest;
mod planning;
mod plugins;
mod predicting;
mod rdma;
mod reading_commands;
mod record_commands;
mod replaying;
mod reporting;
mod suspicious_options;
mod sweeping;
mod table_form;
mod tuning;
mod watching;

pub use arguments::BenchArguments;
pub use checking::{CheckingArguments, words_of_pairs};
pub use command_line::{Command, job_words, mistake, parse};
pub use environment::Environment;
pub(crate) use grammar::grammar;
pub use installing::{CompletionsArguments, ManArguments};
pub use launching::LaunchingArguments;
pub(crate) use planning::pair_selection;
pub use planning::{BadOption, HostResources, plan, record_place};
pub use plugins::{CheckArguments, PluginArguments, PluginCommand, PluginKind};
pub use predicting::{PlanArguments, PlanQuestion};
pub use reading_commands::{
    AlgorithmsArguments, DoctorArguments, ExplainArguments, LintArguments, ShowArguments,
    TopoArguments,
};
pub use record_commands::{
    CompareArguments, ImportArguments, ListArguments, ReferencesArguments, SchemaArguments,
};
pub use reporting::ReportArguments;
pub use sweeping::{SweepArguments, TransportsArguments, TurnArguments};
pub use table_form::units_of;
pub use tuning::TuneArguments;
pub use watching::{Recorded, WatchArguments};
