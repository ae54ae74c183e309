//! What the environment says: BUSBW_WATCH, the folder, the job and the rank.
//! Not whether the folder can be used (`folder`).

use std::path::{Path, PathBuf};

use nccl_plugin_abi::profiler::kind;

use crate::{
    communicators::COUNTS_TIMED_ONLY,
    names::{FOLDER, VARIABLE},
};

/// What is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Nothing.
    Off,
    /// Calls, and the channels of their kernels.
    Calls,
    /// Nothing, until RAS asks for events in the running job (NCCL 2.31 and newer).
    Standby,
    /// The same, but of small calls that follow one another closely few kernels (`timing`).
    Sampled,
    /// The network's steps too.
    Full,
}

impl Extent {
    /// The kinds of events that an interface of this version is asked for from the start.
    pub fn mask(self, interface: u32) -> u64 {
        let calls = kind::COLLECTIVE | kind::MESSAGE;
        // v2 has no events of kernels.
        let kernels = if interface < 3 { 0 } else { kind::KERNEL_CHANNEL };
        // Before v4 a send's step has no state of waiting for the peer: that time would be the GPU's.
        let steps = if interface < 4 { 0 } else { kind::PROXY_OPERATION | kind::PROXY_STEP };
        match self {
            Self::Off | Self::Standby => 0,
            Self::Calls | Self::Sampled => calls | kernels,
            Self::Full => calls | kernels | steps,
        }
    }
}

impl Extent {
    /// The mask of which not all small kernels are timed. None: all are, also where a kernel that is not timed would make
    /// the times of later ones wrong.
    pub fn sampled(self, interface: u32) -> Option<u64> {
        (self == Self::Sampled && interface < COUNTS_TIMED_ONLY).then(|| self.mask(interface))
    }
}

/// What the environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// What is recorded.
    pub extent: Extent,
    /// A value of BUSBW_WATCH that is not known.
    pub unknown: Option<String>,
    /// Where the file goes. None: there is no such folder, neither HOME nor a variable.
    pub folder: Option<PathBuf>,
    /// Whether BUSBW_WATCH_DIR names it.
    pub named: bool,
    /// The launcher's name of the job.
    pub job: Option<String>,
    /// The launcher's number of this process.
    pub rank: Option<u32>,
}

impl Setting {
    /// Reads variables by `lookup`; `pid` and `parent` are this process and the one that started it.
    pub fn read(lookup: impl Fn(&str) -> Option<String>, pid: u32, parent: u32) -> Self {
        let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let said = set(VARIABLE);
        let (extent, unknown) = match said.as_deref().map(str::trim) {
            None | Some("on" | "1") => (Extent::Calls, None),
            Some("off" | "0") => (Extent::Off, None),
            Some("standby") => (Extent::Standby, None),
            Some("sampled") => (Extent::Sampled, None),
            Some("full") => (Extent::Full, None),
            Some(other) => (Extent::Calls, Some(other.to_owned())),
        };
        let job = ["SLURM_JOB_ID", "PMIX_NAMESPACE", "PBS_JOBID", "LSB_JOBID", "JOB_NAME"]
            .into_iter()
            .find_map(set)
            .or_else(|| set("TORCHELASTIC_RUN_ID").filter(|id| id != "none"));
        let rank = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"]
            .into_iter()
            .find_map(|name| set(name)?.trim().parse().ok());
        let named = set(FOLDER).map(PathBuf::from);
        // The ranks of one launcher share a folder where the job has no name.
        let group = job
            .as_deref()
            .map_or_else(|| if rank.is_some() { parent } else { pid }.to_string(), file_name);
        let data = set("XDG_DATA_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| Some(Path::new(&set("HOME")?).join(".local/share")));
        Self {
            extent,
            unknown,
            named: named.is_some(),
            folder: named.or_else(|| Some(data?.join("busbw/watch").join(group))),
            job,
            rank,
        }
    }

    /// Of this process.
    pub fn of_process() -> Self {
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
        let lookup =
            |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self::read(lookup, std::process::id(), parent)
    }
}

/// A name as part of a path: neither a separator nor a folder above.
pub(crate) fn file_name(name: &str) -> String {
    let kept = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' }
    };
    let kept: String = name.trim().chars().take(100).map(kept).collect();
    if kept.is_empty() || kept.starts_with('.') { format!("_{kept}") } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Setting {
        let lookup =
            |name: &str| variables.iter().find(|one| one.0 == name).map(|one| one.1.to_owned());
        Setting::read(lookup, 7, 6)
    }

    #[test]
    fn the_folder_is_the_jobs() {
        let folder = |variables: &[(&str, &str)]| {
            read(variables).folder.map(|path| path.display().to_string())
        };
        let home = ("HOME", "/h");
        assert_eq!(folder(&[home]).unwrap(), "/h/.local/share/busbw/watch/7");
        assert_eq!(folder(&[home, ("RANK", "3")]).unwrap(), "/h/.local/share/busbw/watch/6");
        let slurm = [home, ("SLURM_JOB_ID", "99"), ("SLURM_PROCID", "1")];
        assert_eq!(folder(&slurm).unwrap(), "/h/.local/share/busbw/watch/99");
        assert_eq!((read(&slurm).job.as_deref(), read(&slurm).rank), (Some("99"), Some(1)));
        let data = [home, ("XDG_DATA_HOME", "/d"), ("TORCHELASTIC_RUN_ID", "../a b")];
        assert_eq!(folder(&data).unwrap(), "/d/busbw/watch/_.._a_b");
        assert_eq!(
            folder(&[home, ("TORCHELASTIC_RUN_ID", "none")]).unwrap(),
            "/h/.local/share/busbw/watch/7"
        );
        assert_eq!(folder(&[("BUSBW_WATCH_DIR", "/x")]).unwrap(), "/x");
        assert!(read(&[("BUSBW_WATCH_DIR", "/x")]).named && !read(&[home]).named);
        assert_eq!(folder(&[("XDG_DATA_HOME", "relative")]), None);
    }

    #[test]
    fn what_is_recorded() {
        let extent = |value| read(&[("BUSBW_WATCH", value)]).extent;
        assert_eq!(
            [extent("off"), extent("full"), extent("sampled"), extent("standby"), extent("")],
            [Extent::Off, Extent::Full, Extent::Sampled, Extent::Standby, Extent::Calls]
        );
        let odd = read(&[("BUSBW_WATCH", "fully")]);
        assert_eq!((odd.extent, odd.unknown.as_deref()), (Extent::Calls, Some("fully")));
        let masks =
            |interface| [Extent::Off, Extent::Calls, Extent::Full].map(|one| one.mask(interface));
        assert_eq!(masks(2), [0, 0b110, 0b110]);
        assert_eq!(masks(3), [0, 0b100_0110, 0b100_0110]);
        assert_eq!(masks(7), [0, 0b100_0110, 0b101_1110]);
        assert_eq!([6, 7].map(|one| Extent::Sampled.sampled(one)), [Some(0b100_0110), None]);
    }
}
