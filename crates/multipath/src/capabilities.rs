//! What a path can do: TCP connections, queue pairs and datagrams differ in little else.
//! Not how it is done.

/// What a path can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Everything that is sent arrives while the path is up, in order: a TCP connection, a reliable queue
    /// pair (RC). Otherwise it may be lost, and
    /// the transport keeps the window and sends it again: datagrams, unreliable queue pairs (UC, UD).
    pub is_reliable: bool,
    /// What arrives does so in the order in which it was sent (UC): a gap is a loss, and what is lost never arrives. It is for
    /// reliable paths anyway.
    pub is_ordered: bool,
    /// The layer below reads the caller's memory until a chunk is acknowledged (RDMA): a message is not done
    /// before that, though
    /// another path has delivered the same chunk. Otherwise a chunk is copied when it is handed out (sockets). On an
    /// unreliable path that does not keep its order it must have been copied, since nothing says when it has sent what is lost.
    pub is_zero_copy: bool,
    /// The layer below writes to the receiver's memory by itself (RDMA writes): what is late may be written there long after
    /// another path has delivered the same, into memory that belongs to the receiver's caller again. So a chunk is on one
    /// path at a time. A path that is late is given up, and its chunks go elsewhere only when it is
    /// [lost](crate::Sender::lost): the driver says so after both ends have stopped it.
    pub is_placed: bool,
    /// Bytes of a chunk at most.
    pub max_chunk: u32,
}

impl Capabilities {
    /// A TCP connection.
    pub const STREAM: Capabilities = Capabilities {
        is_reliable: true,
        is_ordered: true,
        is_zero_copy: false,
        is_placed: false,
        max_chunk: 1 << 20,
    };

    /// A reliable queue pair (RC) that writes to the receiver's memory.
    pub const RELIABLE_WRITES: Capabilities =
        Capabilities { is_zero_copy: true, is_placed: true, ..Capabilities::STREAM };

    /// An unreliable queue pair (UC) that writes to the receiver's memory.
    pub const UNRELIABLE_WRITES: Capabilities =
        Capabilities { is_reliable: false, ..Capabilities::RELIABLE_WRITES };

    /// Datagrams with so many bytes of a chunk.
    #[must_use]
    pub const fn datagrams(max_chunk: u32) -> Capabilities {
        Capabilities {
            is_reliable: false,
            is_ordered: false,
            is_zero_copy: false,
            is_placed: false,
            max_chunk,
        }
    }
}
