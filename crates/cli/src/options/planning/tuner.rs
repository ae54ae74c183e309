//! Which tuner NCCL's ranks ask, where busbw knows it: that of `--tuner`, or of BUSBW_TUNER.
//! Not the file's lines (`busbw-tuner-file`), and not whether all hosts have the same one (`busbw_job::rendezvous`).

use std::path::Path;

use busbw_core::{environment::TUNER_BEFORE, plan::MovedBy};
use busbw_host::machine;
use busbw_runner::backend::nccl::tuner::{NCCL_TUNER_PLUGIN, Tuner};

use super::{Asked, Ranks};
use crate::options::{BadOption, Environment};

/// The file's name of busbw's tuner, and what NCCL makes it of.
const OURS: [&str; 2] = ["libnccl-tuner-busbw.so", "busbw"];

/// The tuner, where there is one.
///
/// # Errors
/// The file cannot be used, or another tuner would be left out.
pub(super) fn wanted(asked: &Asked<'_>, ranks: &Ranks<'_>) -> Result<Option<Tuner>, BadOption> {
    let (environment, backend) = (asked.environment, &ranks.backend);
    let is_nccl = backend.spec().moved_by == MovedBy::Nccl;
    let before = environment.tuner_before.clone();
    let tuner = match (&asked.arguments.tuner, &environment.tuner) {
        (Some(file), _) if !is_nccl => {
            return Err(BadOption::new(format!(
                "--tuner {} is for NCCL's ranks: --backend {} asks no tuner",
                file.display(),
                backend.name()
            )));
        }
        (Some(file), _) => {
            if ranks.gpus.is_some_and(|gpus| gpus.libraries.amd) {
                return Err(BadOption::impossible(
                    "--tuner is for NCCL: busbw's tuner was never tried with RCCL",
                ));
            }
            nothing_left_out(file, environment)?;
            Tuner::of_file(file, before)
        }
        (None, Some(value)) if is_nccl => Tuner::of_variable(value, before),
        (None, _) => return Ok(None),
    };
    // A worker's refusal gets its rank and host from the rendezvous.
    let whose = match &environment.launched {
        Some(launched) if launched.rank == 0 => format!("rank 0 on {}: ", machine::host_name()),
        _ => String::new(),
    };
    tuner.map(Some).map_err(|why| BadOption::new(format!("{whose}{why:#}")))
}

/// Refuses `--tuner` where the user has another tuner that nobody would ask any more.
fn nothing_left_out(file: &Path, environment: &Environment) -> Result<(), BadOption> {
    let Some(other) = &environment.tuner_plugin else { return Ok(()) };
    let name = Path::new(other).file_name().unwrap_or_default();
    if environment.tuner_before.is_some() || OURS.iter().any(|ours| name == *ours) {
        return Ok(());
    }
    Err(BadOption::new(format!(
        "--tuner {} would take the place of {NCCL_TUNER_PLUGIN}={other}: set {TUNER_BEFORE} to that tuner's library to have it asked where the file has no entry, or unset {NCCL_TUNER_PLUGIN}",
        file.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::PathBuf};

    use busbw_runner::{
        backend::nccl::{Gpus, Libraries},
        request::Request,
    };

    use super::*;
    use crate::options::{self, Command, HostResources};

    fn planned(line: &str, amd: bool, variables: &[(&str, &str)]) -> Result<Request, BadOption> {
        let words = line.split_whitespace().map(OsString::from);
        let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words)
        else {
            panic!("{line} does not parse");
        };
        let libraries = Libraries { amd, driver: PathBuf::new(), nccl: PathBuf::new() };
        let host_resources = HostResources {
            cores: 4,
            cores_of_parent: 4,
            gpus: Ok(Gpus { count: 2, memory: 1 << 34, libraries }),
            mpi: Err("there is none".to_owned()),
            seed: 1,
        };
        let environment = Environment::read(|name| {
            let set = variables.iter().find(|(variable, _)| *variable == name);
            set.map(|(_, value)| (*value).to_owned())
        });
        options::plan(benchmark, style, &program, &arguments, &environment, &host_resources)
    }

    #[test]
    fn a_file_is_taken_with_its_hash_and_leaves_no_other_tuner_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuner.csv");
        std::fs::write(&file, "allreduce,0,9,ring,ll,4,-1,-1\n").unwrap();
        let line = format!("busbw all_reduce --backend nccl --tuner {}", file.display());
        let tuner = |variables: &[_]| planned(&line, false, variables).unwrap().resources.tuner;
        let agreement = tuner(&[]).unwrap().agreement();
        assert!(agreement.starts_with(&format!("BUSBW_TUNER={}#sha256=", file.display())));
        for ours in ["busbw", "/a/libnccl-tuner-busbw.so", ""] {
            assert!(tuner(&[("NCCL_TUNER_PLUGIN", ours)]).is_some(), "{ours}");
        }
        let other = ("NCCL_TUNER_PLUGIN", "/opt/libnccl-ofi-tuner.so");
        let both = tuner(&[other, ("BUSBW_TUNER_BEFORE", other.1)]).unwrap().agreement();
        assert!(both.ends_with(" BUSBW_TUNER_BEFORE=/opt/libnccl-ofi-tuner.so"), "{both}");
        let refused = planned(&line, false, &[other]).unwrap_err().to_string();
        assert!(refused.contains("set BUSBW_TUNER_BEFORE to that tuner's library"), "{refused}");
        let remarks = planned(&line, false, &[]).unwrap().remarks;
        assert!(remarks.iter().any(|remark| remark.contains("1 line of")), "{remarks:?}");

        let value = agreement.strip_prefix("BUSBW_TUNER=").unwrap();
        let set = [("BUSBW_TUNER", value)];
        let plain = planned("busbw all_reduce --backend nccl", false, &set).unwrap();
        assert_eq!(plain.resources.tuner.unwrap().agreement(), agreement);
        assert!(
            planned("busbw all_reduce --backend host", false, &set)
                .unwrap()
                .resources
                .tuner
                .is_none()
        );
        std::fs::write(&file, "allreduce,0,8,ring,ll,4,-1,-1\n").unwrap();
        let another = planned("busbw all_reduce --backend nccl", false, &set).unwrap_err();
        assert!(another.to_string().contains("but BUSBW_TUNER says"), "{another}");
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        let line = "busbw all_reduce --tuner /nowhere.csv";
        let host = planned(&format!("{line} --backend host"), false, &[]).unwrap_err().to_string();
        assert!(host.contains("--backend host asks no tuner"), "{host}");
        let nccl = format!("{line} --backend nccl");
        let amd = planned(&nccl, true, &[]).unwrap_err().to_string();
        assert!(amd.contains("never tried with RCCL"), "{amd}");
        let missing = planned(&nccl, false, &[]).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read the tuner's file /nowhere.csv"), "{missing}");
    }
}
