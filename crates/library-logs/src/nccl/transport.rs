//! The transport after `via …`: the one that NCCL set up from one rank to another.
//! Not bytes: it proves that the transport was set up, not that it was used.
//!
//! Formats: NCCL's src/transport/p2p.cc, shm.cc, net.cc, coll_net.cc (2.18 to 2.32), and RCCL's.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cursor::Cursor;
use super::tally::keep;

/// A transport, as far as NCCL describes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Transport {
    /// GPU to GPU: NVLink or PCIe, which this line does not distinguish; the path type of a `Graph`
    /// does.
    #[serde(rename = "P2P")]
    P2p {
        /// How the peer's memory was mapped.
        mapping: Mapping,
        /// The receiver reads, instead of the sender writing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        read: bool,
        /// The copy engine moves the bytes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copy_engine: bool,
        /// The rank whose GPU forwards the bytes, where the two have no path of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        through: Option<u32>,
    },
    /// Host memory that both processes map.
    #[serde(rename = "SHM")]
    Shm {
        /// The sender's copy engine fills it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copy_engine_in: bool,
        /// The receiver's copy engine empties it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copy_engine_out: bool,
    },
    /// The network, through NCCL's own code or a plugin.
    #[serde(rename = "NET")]
    Net {
        /// `IB`, `Socket`, or the plugin's name.
        plugin: String,
        /// The network device's number in that plugin.
        device: u32,
        /// The NIC reads and writes the GPU's memory (GPU Direct RDMA); without it, bytes are
        /// staged in host memory.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gdrdma: bool,
        /// GPU Direct over PCIe where the GPU also has a coherent link to the processor.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pci: bool,
        /// PXN: the rank of the same node whose NIC sends the bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pxn: Option<u32>,
        /// The buffer is shared by several connections, as for send and receive.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shared: bool,
    },
    /// A network that reduces, such as SHARP.
    #[serde(rename = "COLLNET")]
    CollNet {
        /// The plugin's name.
        plugin: String,
        /// The network device's number in that plugin.
        device: u32,
        /// As for NET.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gdrdma: bool,
    },
}

/// How one GPU's memory was mapped for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mapping {
    /// Within one process: the pointer itself.
    #[serde(rename = "direct pointer")]
    DirectPointer,
    /// cuMem handles.
    #[serde(rename = "CUMEM")]
    CuMem,
    /// CUDA IPC handles.
    #[serde(rename = "IPC")]
    Ipc,
    /// Fabric handles between hosts: multi-node NVLink.
    #[serde(rename = "MNNVL")]
    Mnnvl,
    /// Through another GPU of the node.
    #[serde(rename = "indirect")]
    Indirect,
}

impl Mapping {
    const ALL: [Mapping; 5] =
        [Mapping::DirectPointer, Mapping::CuMem, Mapping::Ipc, Mapping::Mnnvl, Mapping::Indirect];

    /// NCCL's word.
    fn word(self) -> &'static str {
        match self {
            Mapping::DirectPointer => "direct pointer",
            Mapping::CuMem => "CUMEM",
            Mapping::Ipc => "IPC",
            Mapping::Mnnvl => "MNNVL",
            Mapping::Indirect => "indirect",
        }
    }
}

impl Transport {
    /// What follows `via `.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Transport> {
        if cursor.has("P2P/") {
            return p2p(cursor);
        }
        if cursor.has("SHM/") {
            return shm(cursor);
        }
        // Until 2.12.
        if cursor.has("direct shared memory") {
            return Some(Transport::Shm { copy_engine_in: false, copy_engine_out: false });
        }
        if cursor.has("NET/") {
            return net(cursor);
        }
        cursor.literal("COLLNET/")?;
        let plugin = keep(cursor.until("/")?);
        let device = cursor.number()?;
        Some(Transport::CollNet { plugin, device, gdrdma: cursor.has("/GDRDMA") })
    }
}

fn p2p(cursor: &mut Cursor<'_>) -> Option<Transport> {
    let mapping = Mapping::ALL.into_iter().find(|mapping| cursor.has(mapping.word()))?;
    let mut through = None;
    if mapping == Mapping::Indirect {
        through = Some(cursor.field("/")?);
        cursor.literal("[")?;
        cursor.hex()?;
        cursor.literal("]")?;
    }
    let read = cursor.has("/read");
    Some(Transport::P2p { mapping, read, copy_engine: cursor.has("/CE"), through })
}

fn shm(cursor: &mut Cursor<'_>) -> Option<Transport> {
    let copy_engine_in = cursor.one_of(&["direct", "CE"])? == "CE";
    // 2.30 says it once.
    let copy_engine_out =
        if cursor.has("/") { cursor.one_of(&["direct", "CE"])? == "CE" } else { copy_engine_in };
    Some(Transport::Shm { copy_engine_in, copy_engine_out })
}

fn net(cursor: &mut Cursor<'_>) -> Option<Transport> {
    let plugin = keep(cursor.until("/")?);
    let device = cursor.number()?;
    let mut proxy = *cursor;
    let pxn = proxy.field("(");
    if pxn.is_some() {
        proxy.literal(")")?;
        *cursor = proxy;
    }
    cursor.optional();
    let gdrdma = cursor.has("/GDRDMA");
    let pci = cursor.has("(PCI)");
    let shared = cursor.has("/Shared");
    // Of the receiver alone, from 2.31 on: how it flushes the NIC's writes. Kept, it would make two transports of one
    // connection.
    if cursor.has("/flush=") {
        cursor.word()?;
    }
    Some(Transport::Net { plugin, device, gdrdma, pci, pxn, shared })
}

/// NCCL's own words, in the newest release's spelling.
impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = |yes: &bool, word: &'static str| if *yes { word } else { "" };
        match self {
            Transport::P2p { mapping, read, copy_engine, through } => {
                write!(f, "P2P/{}", mapping.word())?;
                if let Some(rank) = through {
                    write!(f, "/{rank}")?;
                }
                write!(f, "{}{}", says(read, "/read"), says(copy_engine, "/CE"))
            }
            Transport::Shm { copy_engine_in: false, copy_engine_out: false } => {
                f.write_str("SHM/direct")
            }
            Transport::Shm { copy_engine_in, copy_engine_out } => {
                let way = |engine: &bool| if *engine { "CE" } else { "direct" };
                write!(f, "SHM/{}/{}", way(copy_engine_in), way(copy_engine_out))
            }
            Transport::Net { plugin, device, gdrdma, pci, pxn, shared } => {
                write!(f, "NET/{plugin}/{device}")?;
                if let Some(rank) = pxn {
                    write!(f, "({rank})")?;
                }
                let (gdrdma, pci) = (says(gdrdma, "/GDRDMA"), says(pci, "(PCI)"));
                write!(f, "{gdrdma}{pci}{}", says(shared, "/Shared"))
            }
            Transport::CollNet { plugin, device, gdrdma } => {
                write!(f, "COLLNET/{plugin}/{device}{}", says(gdrdma, "/GDRDMA"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, cut: bool) -> Option<Transport> {
        let mut cursor = Cursor::new(text, cut);
        let transport = Transport::read(&mut cursor)?;
        cursor.end()?;
        Some(transport)
    }

    #[test]
    fn what_nccl_prints_comes_back_as_it_was() {
        for text in [
            "P2P/direct pointer",
            "P2P/direct pointer/read",
            "P2P/CUMEM",
            "P2P/CUMEM/read",
            "P2P/CUMEM/CE",
            "P2P/IPC/read/CE",
            "P2P/MNNVL",
            "SHM/direct",
            "SHM/direct/CE",
            "SHM/CE/CE",
            "NET/Socket/0",
            "NET/IB/3/GDRDMA",
            "NET/IB/3/GDRDMA(PCI)",
            "NET/AWS Libfabric/3/GDRDMA/Shared",
            "NET/IBext/5(1)/GDRDMA",
            "NET/IBext_v8/5(12)/Shared",
            "COLLNET/SHARP/5/GDRDMA",
            "COLLNET/SHARP/0",
        ] {
            assert_eq!(read(text, false).map(|t| t.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn older_and_foreign_spellings() {
        let shm = Transport::Shm { copy_engine_in: false, copy_engine_out: false };
        assert_eq!(read("SHM/direct/direct", false), Some(shm.clone()));
        assert_eq!(read("direct shared memory", false), Some(shm));
        let through = read("P2P/indirect/3[1b000]/read", false).expect("it is one");
        assert_eq!(through.to_string(), "P2P/indirect/3/read");
        // RCCL adds the communicator.
        assert!(read("P2P/IPC/read comm 0x55 nRanks 08", false).is_some());
    }

    #[test]
    fn a_receiver_of_2_31_says_how_it_flushes() {
        for (text, printed) in [
            ("NET/IB/0/GDRDMA/flush=None", "NET/IB/0/GDRDMA"),
            ("NET/IB/3/GDRDMA(PCI)/Shared/flush=Always", "NET/IB/3/GDRDMA(PCI)/Shared"),
        ] {
            assert_eq!(read(text, false).map(|t| t.to_string()).as_deref(), Some(printed));
        }
        assert_eq!(read("NET/IB/0/GDRDMA/flush=", false), None);
        assert_eq!(read("NET/IB/0/GDRDMA/flush=Nonode", true), None);
    }

    #[test]
    fn nothing_is_guessed() {
        for text in [
            "P2P/",
            "P2P/NVLINK",
            "P2P/CUMEMX",
            "SHM/dir",
            "NET/IB",
            "NET//1",
            "NET/IB/x",
            "TELEPATHY/1",
            "",
        ] {
            assert_eq!(read(text, false), None, "{text}");
        }
        // Cut: the device may have had another digit, and GDRDMA may be missing.
        assert_eq!(read("NET/IB/1", true), None);
        assert_eq!(read("NET/IB/1(2)node", true), None);
        assert_eq!(read("SHM/direct/dirnode", true), None);
        assert!(read("NET/IB/1/GDRDMAnode", true).is_some());
        assert!(read("P2P/CUMEMnode", true).is_some());
    }
}
