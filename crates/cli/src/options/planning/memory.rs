//! Where the buffers of the `mpi` and `verbs` backends are.
//! Not whether a library or a device takes them there: only they know, once they have been started.

use busbw_core::{
    Benchmark,
    plan::{BackendChoice, BufferMemory, Memory},
};

use super::BenchArguments;
use crate::options::BadOption;

/// Of each end of a pair; none on other backends, which have no choice.
pub(super) fn buffers(
    a: &BenchArguments,
    benchmark: Benchmark,
    backend: &BackendChoice,
) -> Result<Option<[Memory; 2]>, BadOption> {
    if backend.spec().buffers != BufferMemory::Chosen {
        return match &a.buffers {
            None => Ok(None),
            Some(_) => Err(BadOption::new(format!(
                "--buffers says where MPI or an RDMA device finds them, and --backend {} has them in one place only: add --backend mpi or --backend verbs, or leave it out",
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
    use busbw_core::{
        exit::Exit,
        plan::{Plan, VerbsOptions},
    };

    use super::*;
    use crate::options::HostResources;
    use crate::options::{self, Command, Environment};
    use busbw_runner::backend::mpi::{Gpus, Libraries};

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
            ("busbw osu_latency -d cuda", [Gpu; 2]),
            ("busbw osu_latency -d cuda H D", [Host, Gpu]),
        ] {
            assert_eq!(planned(line, BackendChoice::Mpi), Ok(Some(want)), "{line}");
        }
        let verbs = BackendChoice::Verbs(VerbsOptions::default());
        for (line, want) in [
            ("busbw bw --buffers gpu,host", [Gpu, Host]),
            ("busbw ib_write_bw --use_cuda 1", [Gpu; 2]),
            ("busbw ib_read_lat --use_cuda=auto", [Gpu; 2]),
            ("busbw ib_send_bw", [Host; 2]),
        ] {
            assert_eq!(planned(line, verbs), Ok(Some(want)), "{line}");
        }
        assert_eq!(planned("busbw latency", BackendChoice::Host), Ok(None));
    }

    #[test]
    fn what_has_no_choice_is_refused() {
        let elsewhere = planned("busbw latency --buffers gpu", BackendChoice::Host).unwrap_err();
        assert!(elsewhere.to_string().contains("add --backend mpi or"), "{elsewhere}");
        for line in ["busbw all_reduce --buffers gpu,host", "busbw pairs --buffers host,gpu"] {
            let one = planned(line, BackendChoice::Mpi).unwrap_err().to_string();
            assert!(one.contains("only messages have two ends"), "{one}");
        }
        let typo = ["busbw", "bw", "--buffers", "gpu,cpu"].map(std::ffi::OsString::from);
        assert!(options::parse(typo).is_err());
    }
    /// As process 1 of 2 on a host with so many GPUs, or none.
    fn launched(line: &str, gpus: Option<usize>) -> Result<Plan, BadOption> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let Ok(Command::Bench { benchmark, style, program, arguments }) = options::parse(words)
        else {
            panic!("{line} does not parse");
        };
        let variables = ["SIZE", "RANK", "LOCAL_SIZE", "LOCAL_RANK"]
            .map(|end| format!("OMPI_COMM_WORLD_{end}"));
        let environment = Environment::read(|name| {
            let at = variables.iter().position(|variable| variable == name)?;
            Some(["2", "1", "2", "1"][at].to_owned())
        });
        let gpus =
            gpus.map(|count| Gpus { amd: false, driver: "d".into(), count, memory: 1 << 34 });
        let mpi = match gpus {
            None if arguments.wants_gpus() => Err("there is no driver".to_owned()),
            gpus => Ok(Libraries { mpi: "m".into(), gpus }),
        };
        let host_resources = HostResources {
            cores: 8,
            cores_of_parent: 8,
            gpus: Err("none".to_owned()),
            mpi,
            seed: 1,
        };
        options::plan(benchmark, style, &program, &arguments, &environment, &host_resources)
            .map(|request| request.plan)
    }

    #[test]
    fn each_process_has_the_gpu_of_its_place() {
        use Memory::{Gpu, Host};
        let sides = launched("busbw osu_latency D H", Some(8)).unwrap();
        assert_eq!((sides.backend, sides.buffers), (BackendChoice::Mpi, Some([Gpu, Host])));
        assert_eq!(
            (sides.first_device, sides.osu.map(|osu| osu.on_gpus)),
            (1, Some([true, false]))
        );
        // Its launcher has dealt it one.
        let dealt = launched("busbw bw --backend mpi --buffers gpu", Some(1)).unwrap();
        assert_eq!((dealt.first_device, dealt.buffers), (0, Some([Gpu; 2])));
        let host = launched("busbw bw --backend mpi", None).unwrap();
        assert_eq!((host.first_device, host.buffers), (0, Some([Host; 2])));
    }

    #[test]
    fn without_a_gpu_no_run_goes_to_the_host_instead() {
        for line in
            ["busbw osu_latency D D", "busbw osu_bw H D", "busbw bw --backend mpi --buffers gpu"]
        {
            let refused = launched(line, None).unwrap_err();
            assert_eq!(refused.exit, Exit::Impossible, "{line}");
            let text = "--backend mpi cannot run here: there is no driver";
            assert!(refused.to_string().contains(text), "{line}: {refused}");
        }
    }
}
