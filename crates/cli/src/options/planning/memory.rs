//! Where the buffers of the `mpi` backend are.
//! Not whether its library takes them there: only the library knows, once it has been started.

use model::{
    Benchmark,
    plan::{BackendChoice, Memory},
};

use super::{BadOption, BenchArguments};

/// Of each end of a pair; none on other backends, which have no choice.
pub(super) fn buffers(
    a: &BenchArguments,
    benchmark: Benchmark,
    backend: &BackendChoice,
) -> Result<Option<[Memory; 2]>, BadOption> {
    if !matches!(backend, BackendChoice::Mpi) {
        return match &a.buffers {
            None => Ok(None),
            Some(_) => Err(BadOption::new(format!(
                "--buffers says where MPI finds them, and --backend {} has them in one place only: add --backend mpi, or leave it out",
                backend.name()
            ))),
        };
    }
    let buffers = a.wanted_buffers().unwrap_or_default();
    let [begins, answers] = buffers;
    if begins != answers && benchmark.messages().is_none() {
        return Err(BadOption::new(
            "--buffers: only messages have two ends, as in latency and bw; write host or gpu for all ranks",
        ));
    }
    Ok(Some(buffers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{self, Command};

    fn planned(line: &str, backend: BackendChoice) -> Result<Option<[Memory; 2]>, BadOption> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let Ok(Command::Bench { benchmark, arguments, .. }) = options::parse(words) else {
            panic!("{line} does not parse");
        };
        buffers(&arguments, benchmark, &backend)
    }

    #[test]
    fn both_grammars_say_where() {
        use Memory::{Gpu, Host};
        for (line, want) in [
            ("busbw latency", [Host; 2]),
            ("busbw latency --buffers gpu", [Gpu; 2]),
            ("busbw bw --buffers host,gpu", [Host, Gpu]),
            ("busbw all_reduce --buffers gpu", [Gpu; 2]),
            ("busbw osu_latency D H", [Gpu, Host]),
            ("busbw osu_bw H H", [Host; 2]),
            ("busbw osu_allreduce -d cuda", [Gpu; 2]),
        ] {
            assert_eq!(planned(line, BackendChoice::Mpi), Ok(Some(want)), "{line}");
        }
        assert_eq!(planned("busbw latency", BackendChoice::Host), Ok(None));
    }

    #[test]
    fn what_has_no_choice_is_refused() {
        let elsewhere = planned("busbw latency --buffers gpu", BackendChoice::Host).unwrap_err();
        assert!(elsewhere.to_string().contains("add --backend mpi"), "{elsewhere}");
        for line in ["busbw all_reduce --buffers gpu,host", "busbw pairs --buffers host,gpu"] {
            let one = planned(line, BackendChoice::Mpi).unwrap_err().to_string();
            assert!(one.contains("only messages have two ends"), "{one}");
        }
        let typo = ["busbw", "bw", "--buffers", "gpu,cpu"].map(std::ffi::OsString::from);
        assert!(options::parse(typo).is_err());
    }
}
