//! The kernel's log, where it may be read.
//! Not what its lines mean.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
};

use rustix::fs::OFlags;

use super::Root;

/// The most bytes that are read: the kernel keeps a few MiB at most.
const MAX_LOG_BYTES: usize = 64 << 20;
/// The longest record of /dev/kmsg: CONSOLE_EXT_LOG_MAX of kernel/printk/internal.h.
const MAX_RECORD_BYTES: usize = 8192;

/// The log's text: lines of /dev/kmsg as the kernel writes them, `6,1234,5678,-;message`.
///
/// # Errors
/// The log cannot be read: in a container, or where dmesg_restrict keeps it for root.
pub fn kernel_log(root: &Root) -> Result<String, String> {
    let path = root.path("dev/kmsg");
    let opened = OpenOptions::new()
        .read(true)
        // Non-blocking: a read would wait for the next message when all have been read.
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(&path);
    let mut file = opened.map_err(|why| format!("{}: {why}", path.display()))?;
    let (mut text, mut record) = (Vec::new(), [0; MAX_RECORD_BYTES]);
    while text.len() < MAX_LOG_BYTES {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(count) => text.extend(&record[..count]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => break,
            // EPIPE: records were overwritten meanwhile; the next read continues after them.
            Err(why) if matches!(why.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
            Err(why) => return Err(format!("{}: {why}", path.display())),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
