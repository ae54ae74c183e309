"""Makes a library of a wheel small enough to travel: no debug information, and the code of other GPUs as zeros, which compress
to nothing. The file keeps its size and loads as before. Not for measurement beyond the GPU named."""

import struct
import subprocess

# fatbinary.h of CUDA: a container's header, then entries with headers of their own.
CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes of the entries
CONTAINER_MAGIC = 0xBA55ED50
# kind (1: PTX, 2: ELF), version, bytes of the header, bytes of the data, ..., architecture at 28.
ENTRY = struct.Struct("<HHIQ")
ARCHITECTURE_AT = 28


class NotFound(Exception):
    """The library holds no code for the GPU."""


def write(library, architecture, target):
    """Writes `library`'s file to `target` with the code for `architecture` (90 for sm_90) alone. Returns (entries kept, zeroed).

    Raises NotFound where nothing would be kept."""
    subprocess.run(["strip", "-o", target, library.path], check=True)
    with open(target, "rb") as file:
        data = bytearray(file.read())
    stripped = type(library)(target)
    # What the device linker read: nothing loads it.
    _, offset, size = stripped.sections.get("__nv_relfatbin", (0, 0, 0))
    data[offset:offset + size] = bytes(size)
    _, offset, size = stripped.sections[".nv_fatbin"]
    kept, zeroed = _only(data, offset, offset + size, architecture)
    if not kept:
        raise NotFound(f"{library.path} holds no code for sm_{architecture}")
    with open(target, "wb") as file:
        file.write(data)
    return kept, zeroed


def _only(data, at, end, architecture):
    kept = zeroed = 0
    while at + CONTAINER.size <= end:
        magic, _, header, size = CONTAINER.unpack_from(data, at)
        if magic != CONTAINER_MAGIC:
            at += 8  # containers are aligned
            continue
        entry, last = at + header, at + header + size
        while entry < last:
            _, _, entry_header, bytes_ = ENTRY.unpack_from(data, entry)
            (of,) = struct.unpack_from("<I", data, entry + ARCHITECTURE_AT)
            start = entry + entry_header
            if of == architecture:
                kept += 1
            else:
                data[start:start + bytes_] = bytes(bytes_)
                zeroed += 1
            entry = start + bytes_
        at = last
    return kept, zeroed
