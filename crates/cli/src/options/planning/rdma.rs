//! The options of RDMA as the plan has them, and which of them go together.
//! Not which device: the rank's own host chooses it.

use busbw_core::plan::{Connection, VerbsOptions};

use crate::options::{
    BadOption,
    rdma::{GpuChoice, RdmaArguments},
};

/// The plan's options.
///
/// # Errors
/// The kind of queue pair has no such verb, or a queue is too short for what is posted at once.
pub(super) fn options(a: &RdmaArguments, is_on_gpus: bool) -> Result<VerbsOptions, BadOption> {
    let default = VerbsOptions::default();
    let options = VerbsOptions {
        verb: a.verb.unwrap_or(default.verb),
        connection: a.connection.unwrap_or(default.connection),
        queue_pairs: a.qp.unwrap_or(default.queue_pairs),
        send_depth: a.tx_depth.unwrap_or(default.send_depth),
        receive_depth: a.rx_depth.unwrap_or(default.receive_depth),
        signal_every: a.cq_mod.unwrap_or(default.signal_every),
        listed: a.post_list.unwrap_or(default.listed),
        inline_bytes: a.inline_size,
        mtu: a.mtu,
        port: a.ib_port,
        gid_index: a.gid_index,
        open_reads: a.outs,
        connection_manager: a.rdma_cm,
        traffic_class: a.tclass.unwrap_or(default.traffic_class),
        service_level: a.sl.unwrap_or(default.service_level),
        timeout: a.qp_timeout.unwrap_or(default.timeout),
        strict_ordering: a.disable_pcie_relaxed,
        gpu: match a.use_cuda {
            Some(GpuChoice::Number(number)) => Some(number),
            Some(GpuChoice::Nearest) | None => None,
        },
        only_dma_buf: a.use_cuda_dmabuf,
    };
    let (verb, connection) = (options.verb, options.connection);
    if !verb.is_of(connection) {
        let kinds = Connection::ALL.iter().filter(|(kind, ..)| verb.is_of(*kind));
        let kinds: Vec<&str> = kinds.map(|(_, name, _)| *name).collect();
        return Err(BadOption::new(format!(
            "--connection {} has no {}: that goes over {}",
            connection.name(),
            verb.name(),
            kinds.join(" or ")
        )));
    }
    if options.connection_manager && connection != Connection::Rc {
        return Err(BadOption::new(format!(
            "--rdma_cm connects reliable queue pairs: leave it out, or --connection {}",
            connection.name()
        )));
    }
    if options.connection_manager && options.gid_index.is_some() {
        return Err(BadOption::new(
            "--rdma_cm and --gid-index do not go together: the connection manager chooses by IP address",
        ));
    }
    if options.listed > options.send_depth {
        return Err(BadOption::new(format!(
            "--post_list {}: a queue of {} messages (--tx-depth) does not take so many at once",
            options.listed, options.send_depth
        )));
    }
    if a.use_cuda.is_some() && !is_on_gpus {
        return Err(BadOption::new(
            "--use_cuda and --buffers host do not go together: leave one out",
        ));
    }
    if options.only_dma_buf && !is_on_gpus {
        return Err(BadOption::new(
            "--use_cuda_dmabuf is about the memory of GPUs: add --use_cuda auto, or --buffers gpu",
        ));
    }
    if is_on_gpus && options.inline_bytes.is_some_and(|bytes| bytes > 0) {
        return Err(BadOption::new(
            "--inline_size: a processor copies no memory of a GPU into a request; leave it out",
        ));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use busbw_core::plan::Verb;

    use super::*;

    #[test]
    fn what_does_not_go_together() {
        let none = RdmaArguments::default();
        assert_eq!(options(&none, false).unwrap(), VerbsOptions::default());
        let read = RdmaArguments {
            verb: Some(Verb::Read),
            connection: Some(Connection::Uc),
            ..none.clone()
        };
        let why = options(&read, false).unwrap_err().to_string();
        assert_eq!(why, "--connection UC has no read: that goes over RC");
        let list = RdmaArguments { tx_depth: Some(8), post_list: Some(9), ..none.clone() };
        assert!(options(&list, false).unwrap_err().to_string().contains("--tx-depth"));
        let managed = RdmaArguments { rdma_cm: true, ..none.clone() };
        assert!(options(&managed, false).unwrap().connection_manager);
        let datagrams = RdmaArguments { connection: Some(Connection::Uc), ..managed.clone() };
        assert!(options(&datagrams, false).unwrap_err().to_string().contains("--connection UC"));
        let chosen = RdmaArguments { gid_index: Some(1), ..managed };
        assert!(options(&chosen, false).unwrap_err().to_string().contains("--gid-index"));
        let gpu = RdmaArguments { use_cuda: Some(GpuChoice::Number(3)), ..none.clone() };
        assert_eq!(options(&gpu, true).unwrap().gpu, Some(3));
        let copied = RdmaArguments { inline_size: Some(64), ..gpu };
        assert!(options(&copied, true).unwrap_err().to_string().contains("--inline_size"));
        let elsewhere = RdmaArguments { use_cuda: Some(GpuChoice::Nearest), ..none.clone() };
        assert!(options(&elsewhere, false).unwrap_err().to_string().contains("--buffers host"));
        let dma_buf = RdmaArguments { use_cuda_dmabuf: true, ..none };
        let why = options(&dma_buf, false).unwrap_err().to_string();
        assert!(why.contains("--buffers gpu"), "{why}");
        assert!(options(&dma_buf, true).unwrap().only_dma_buf);
    }
}
