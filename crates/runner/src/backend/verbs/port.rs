//! The device, port and address of a rank: chosen by its own host, opened, and held against what was asked for.
//! Not the choice (`busbw_host::machine`), and not the connections (`join`).

use std::sync::Arc;

use busbw_core::{
    Benchmark,
    exit::Exit,
    plan::{Arrival, Connection, Plan, Verb, VerbsOptions},
    record::{Slot, VerbsFacts},
};
use busbw_hardware::{
    limits,
    machine::{NicKind, Nics},
};
use busbw_host::{
    in_use,
    machine::{self, AddressKind, Choice, Root},
};
use busbw_verbs::{
    Address, Device, Limits, Link, LinkLayer, PcieOrdering, Port, Verbs, VerbsError,
};

use super::Wanted;
use crate::backend::device::bind_to;

/// RDMA reads that are open at once, unless the device has fewer.
const MOST_READS: u8 = 16;

/// An open device, and its port.
pub(super) struct OpenPort {
    pub(super) device: Arc<Device>,
    pub(super) choice: Choice,
    pub(super) port: Port,
    pub(super) address: Address,
    /// The plan's options as far as the device goes.
    pub(super) options: VerbsOptions,
    number: u8,
    /// All that the host's ranks take in turn.
    candidates: Vec<Choice>,
}

impl OpenPort {
    /// Opens the port of the rank with number `local` on its host.
    ///
    /// # Errors
    /// Why there is none to use, and the exit code.
    pub(super) fn open(
        plan: &Plan,
        wanted: &Wanted,
        local: usize,
    ) -> Result<OpenPort, (Exit, String)> {
        let impossible = |why: String| (Exit::Impossible, why);
        let wrong = |error: VerbsError| (Exit::Library, error.to_string());
        let options = plan.backend.verbs_options().copied().unwrap_or_default();
        let (choice, candidates) = choose(wanted, &options, local).map_err(impossible)?;
        if plan.bind {
            bind(&choice);
        }
        let verbs = Verbs::open().map_err(|error| {
            impossible(format!("{error}; install rdma-core's libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (RHEL)"))
        })?;
        let device = Device::open(verbs, &choice.device);
        let device = device.map_err(|error| impossible(error.to_string()))?;
        let number = u8::try_from(choice.port).unwrap_or(1);
        let port = device.port(number).map_err(wrong)?;
        if !port.active {
            let (name, state) = (choice.name(), port.state);
            return Err(impossible(format!("port {name} is not active (state {state})")));
        }
        let options = within(&options, &device.limits().map_err(wrong)?);
        let address = own_address(&device, &choice, number, &port).map_err(wrong)?;
        Ok(OpenPort { device, choice, port, address, options, number, candidates })
    }

    /// The same port with the address that the connection manager has chosen.
    pub(super) fn with_address(self, gid_index: u8, wanted: &Wanted, local: usize) -> OpenPort {
        let options = VerbsOptions { gid_index: Some(gid_index), ..self.options };
        let is_other = u32::from(gid_index) != self.choice.gid_index;
        let chosen = is_other.then(|| choose(wanted, &options, local).ok()).flatten();
        match chosen {
            Some((choice, _)) if choice.name() == self.choice.name() => {
                let why = "the connection manager chose its address".to_owned();
                OpenPort { choice: Choice { why, ..choice }, ..self }
            }
            _ => self,
        }
    }

    /// The devices that the host's ranks take in turn.
    pub(super) fn ports(&self) -> Vec<&str> {
        self.candidates.iter().map(|port| port.device.as_str()).collect()
    }

    /// The devices whose counters count what goes through the port: itself, and its interface.
    pub(super) fn counted_as(&self) -> Vec<String> {
        let port = in_use::port_name(&self.choice.device, self.choice.port);
        std::iter::once(port).chain(self.choice.interface.clone()).collect()
    }

    /// The order of the device's writes. Strict where the last byte of a message stands for all of it, and nothing else is measured.
    pub(super) fn ordering(&self, plan: &Plan) -> PcieOrdering {
        let is_polled = plan.arrival_of_writes() == Some(Arrival::Polled);
        let is_only_polled = is_polled && plan.benchmark != Benchmark::Pairs;
        let is_possible = Verbs::open().is_ok_and(Verbs::relaxes_ordering);
        match self.options.strict_ordering || is_only_polled || !is_possible {
            true => PcieOrdering::Strict,
            false => PcieOrdering::Relaxed,
        }
    }

    /// How packets leave this port.
    pub(super) fn link(&self, mtu: u32) -> Link {
        Link {
            port: self.number,
            gid_index: u8::try_from(self.choice.gid_index).unwrap_or(0),
            mtu,
            traffic_class: self.options.traffic_class,
            service_level: self.options.service_level,
            timeout: self.options.timeout,
            retries: 7,
            reads: self.options.open_reads.unwrap_or(MOST_READS),
        }
    }

    /// Bytes up to which a message is copied when it is posted, if none were asked for: perftest's
    /// (perftest_parameters.h: DEF_INLINE_WRITE, DEF_INLINE_SEND_RC_UC, DEF_INLINE_SEND_UD).
    pub(super) fn inline_bytes(&self, plan: &Plan) -> u32 {
        let is_latency = matches!(plan.benchmark, Benchmark::Messages(test) if test.is_latency());
        let default = match (self.options.verb, self.options.connection) {
            _ if !is_latency => 0,
            (Verb::Write, _) => 220,
            (Verb::Send, Connection::Ud) => 188,
            (Verb::Send, _) => 236,
            // What is read is not copied.
            (Verb::Read, _) => 0,
        };
        self.options.inline_bytes.unwrap_or(default)
    }

    /// The protocol's name.
    pub(super) fn protocol(&self) -> &'static str {
        match self.choice.kind {
            AddressKind::InfiniBand { .. } => "InfiniBand",
            AddressKind::RoceV1 => "RoCE v1",
            AddressKind::RoceV2Ipv4 | AddressKind::RoceV2Ipv6 | AddressKind::RoceV2LinkLocal => {
                "RoCE v2"
            }
            AddressKind::RoceUnknown => "RoCE",
        }
    }

    /// What port and slot can send one way with packets of `mtu` bytes, GB/s, where the port's rate is known.
    fn limit(&self, mtu: u32) -> Option<f64> {
        let kind = match self.choice.kind {
            AddressKind::InfiniBand { .. } => NicKind::InfiniBand,
            _ => NicKind::Roce,
        };
        let (rate, slot) = (self.choice.gbps, self.choice.slot);
        let nics = Nics { count: 1, rate, kind, mtu: Some(mtu), slot, sharing: 1 };
        Some(limits::one_way(nics).payload?.busbw)
    }

    /// As the record has it.
    pub(super) fn facts(
        &self,
        rank: usize,
        mtu: u32,
        inline_bytes: u32,
        ordering: PcieOrdering,
    ) -> VerbsFacts {
        let OpenPort { choice, options, address, .. } = self;
        VerbsFacts {
            rank,
            verb: options.verb,
            connection: options.connection,
            device: choice.device.clone(),
            port: self.number,
            gid_index: u8::try_from(choice.gid_index).unwrap_or(0),
            gid: address.gid.map(|_| choice.address()),
            lid: address.lid,
            protocol: self.protocol().to_owned(),
            gbps: choice.gbps,
            slot: choice.slot.map(|slot| Slot { generation: slot.generation, width: slot.width }),
            limit: self.limit(mtu),
            mtu,
            numa: choice.numa,
            interface: choice.interface.clone(),
            inline_bytes,
            relaxed_ordering: ordering == PcieOrdering::Relaxed,
            gpu: None,
            why: choice.why.clone(),
        }
    }
}

/// The device, port and address of the rank with this number on its host, and all those that its ranks take in turn.
fn choose(
    wanted: &Wanted,
    options: &VerbsOptions,
    local: usize,
) -> Result<(Choice, Vec<Choice>), String> {
    let devices = machine::rdma(&Root::system());
    let wanted = machine::Wanted {
        devices: wanted.devices.clone(),
        port: options.port.map(u32::from),
        gid_index: options.gid_index.map(u32::from),
    };
    let choice = machine::choose(&devices, &wanted, local, None)?;
    Ok((choice, machine::candidates(&devices, &wanted)?.ports))
}

/// Binds this thread to the processors next to the device, as far as it may use them. Memory is allocated there, too.
fn bind(choice: &Choice) {
    let Some(near) = choice.numa.and_then(|node| machine::of_node(&Root::system(), node)) else {
        return;
    };
    let usable = machine::usable_cores();
    let cores: Vec<usize> =
        machine::processor_list(&near).into_iter().filter(|core| usable.contains(core)).collect();
    bind_to(&cores);
}

/// The options as far as the device goes.
fn within(options: &VerbsOptions, limits: &Limits) -> VerbsOptions {
    let most = limits.open_reads.min(limits.answered_reads).max(1);
    let most_requests = limits.requests.max(1);
    let most_completions = (limits.completions / u32::from(options.queue_pairs).max(1)).max(1);
    VerbsOptions {
        send_depth: options.send_depth.min(most_requests).min(most_completions),
        receive_depth: options.receive_depth.min(most_requests).min(most_completions),
        open_reads: Some(options.open_reads.unwrap_or(MOST_READS).min(most)),
        ..*options
    }
}

/// Our port's address. InfiniBand's within a subnet is the LID.
fn own_address(
    device: &Device,
    choice: &Choice,
    number: u8,
    port: &Port,
) -> Result<Address, VerbsError> {
    let gid = match port.link_layer {
        LinkLayer::InfiniBand => None,
        LinkLayer::Ethernet => {
            let index = u8::try_from(choice.gid_index).unwrap_or(0);
            Some(device.gid(number, index)?.octets())
        }
    };
    Ok(Address { gid, lid: port.lid })
}
