"""A docker-archive (manifest.json, a config, one layer) of a program and all that it needs of this machine's files.
Not a build of the program, and not an image that is pushed anywhere: tools/image.sh says how it is loaded.

The archive's format: github.com/moby/docker-image-spec, spec.md, "Combined Image JSON + Filesystem Changeset Format".
"""

import argparse
import glob
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

# e_machine of an ELF header, at byte 18: System V ABI, "ELF Header".
ARCHITECTURES = {62: "amd64", 183: "arm64"}
# What getaddrinfo reads besides /etc/hosts and /etc/resolv.conf, which the container's runtime writes; and a home.
TEXTS = {
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/tmp:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}
# Of glibc older than 2.34, which opened them by name; later ones hold this code in libc.
NAME_LIBRARIES = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")
# Of each MPI: its library, what it opens at run time and what its launcher consists of, as Debian lays them out.
# Open MPI opens components, of itself and of PMIx, and reads the texts of its messages; MPICH has all in one library.
MPI = {
    "openmpi": {
        "package": "openmpi-bin",
        "library": "libmpi.so.40",
        "programs": {"mpirun": "mpirun.openmpi", "orted": "orted"},
        "parts": ("{lib}/openmpi/lib/openmpi3/*.so", "{lib}/pmix2/lib/pmix/*.so", "/usr/share/openmpi/*", "/usr/share/pmix*/*",
                  "/etc/openmpi/*.conf", "/etc/pmix*.conf"),
    },
    "mpich": {
        "package": "mpich",
        "library": "libmpich.so.12",
        "programs": {"mpirun": "mpiexec.hydra", "hydra_pmi_proxy": "hydra_pmi_proxy"},
        "parts": (),
    },
}
# How mpirun of an MPIJob's launcher starts processes in its workers: sshd, ssh and the shell that sshd runs commands by.
# mpi-operator mounts one key pair of the job's own at /root/.ssh (pkg/controller/mpi_job_controller.go): it is the user's
# and the hosts', so that no key is in the image.
SECURE_SHELL = {"usr/sbin/sshd": "/usr/sbin/sshd", "usr/bin/ssh": "/usr/bin/ssh", "bin/sh": "/bin/dash"}
SECURE_SHELL_TEXTS = {
    "etc/ssh/sshd_config": "HostKey /root/.ssh/id_rsa\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\n",
    "etc/ssh/ssh_config": "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534:sshd:/run/sshd:/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/tmp:/sbin/nologin\n",
}


class CannotPack(Exception):
    """What is missing, where, and what to do."""


def architecture(program):
    with open(program, "rb") as file:
        head = file.read(20)
    machine = int.from_bytes(head[18:20], "little")
    if head[:4] != b"\x7fELF" or machine not in ARCHITECTURES:
        raise CannotPack(f"{program} is no ELF program for x86-64 or aarch64: give one that was built for Linux")
    return ARCHITECTURES[machine]


def needed(file):
    """Paths of the loader and of the libraries that a program or a library needs, as `ldd` finds them."""
    answer = subprocess.run(["ldd", file], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "LC_ALL": "C"})
    missing = re.findall(r"^\s*(\S+) => not found", answer.stdout, re.MULTILINE)
    if missing:
        raise CannotPack(f"{file} needs {', '.join(missing)}, not found on this machine: install the package that has it")
    if answer.returncode and "not a dynamic executable" not in answer.stderr:
        raise CannotPack(f"ldd {file}: {(answer.stderr or answer.stdout).strip()}; a program of this machine's architecture is needed")
    return re.findall(r"(/\S+) \(0x", answer.stdout)


def mpi_files(name):
    """Files of an MPI and of the secure shell: {path in the image: path here}."""
    parts = MPI[name]
    install = f"install Debian's {parts['package']}, openssh-server and openssh-client"
    libraries = sorted(glob.glob(f"/usr/lib/*-linux-gnu/{parts['library']}"))
    if not libraries:
        raise CannotPack(f"there is no {parts['library']} in /usr/lib: {install}")
    files = {libraries[0].lstrip("/"): libraries[0], **SECURE_SHELL}
    for place, program in parts["programs"].items():
        path = shutil.which(program)
        if not path:
            raise CannotPack(f"there is no {program} on PATH: {install}")
        files["usr/bin/" + place] = path
    missing = [path for path in SECURE_SHELL.values() if not os.path.exists(path)]
    if missing:
        raise CannotPack(f"there is no {missing[0]}: {install}")
    for pattern in parts["parts"]:
        found = glob.glob(pattern.format(lib=os.path.dirname(libraries[0])))
        files.update({path.lstrip("/"): path for path in found if os.path.isfile(path)})
    return files


def contents(program, place, mpi):
    """All files of the layer: {path in the image: path here or bytes}; `place` is the program's."""
    files = {place: program, **(mpi_files(mpi) if mpi else {})}
    libraries = set()
    for path in files.values():
        with open(path, "rb") as file:
            if file.read(4) == b"\x7fELF":
                libraries.update(needed(path))
    for path in list(libraries):
        if os.path.basename(path) == "libc.so.6":
            beside = (os.path.join(os.path.dirname(path), name) for name in NAME_LIBRARIES)
            libraries.update(path for path in beside if os.path.exists(path))
    files.update({path.lstrip("/"): path for path in libraries})
    texts = {**TEXTS, **(SECURE_SHELL_TEXTS if mpi else {})}
    return {**files, **{path: text.encode() for path, text in texts.items()}}


def entry(archive, name, data=b"", kind=tarfile.REGTYPE, mode=0o644):
    info = tarfile.TarInfo(name)
    # Times and owners are not this machine's: the same files give the same bytes.
    info.size, info.type, info.mode, info.mtime = len(data), kind, mode, 0
    archive.addfile(info, io.BytesIO(data))


def layer(files):
    """The layer, a tar of the files and of the folders above them."""
    folders = {"tmp", "root", "run", "run/sshd"}
    for path in files:
        while path := os.path.dirname(path):
            folders.add(path)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in sorted(folders):
            entry(archive, folder, kind=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        for path, source in sorted(files.items()):
            if isinstance(source, bytes):
                entry(archive, path, source)
            else:
                mode = 0o755 if os.access(source, os.X_OK) else 0o644
                entry(archive, path, open(source, "rb").read(), mode=mode)
    return buffer.getvalue()


def text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def pack(program, out, name, mpi):
    # The program is called as the image is, whatever its file is called here.
    place = "usr/local/bin/" + name.rsplit("/", 1)[-1].split(":")[0]
    content = layer(contents(program, place, mpi))
    digest = hashlib.sha256(content).hexdigest()
    config = text({
        "architecture": architecture(program),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "Entrypoint": ["/" + place],
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "WorkingDir": "/tmp",
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
    })
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    # Whole or not at all.
    making = f"{out}.{os.getpid()}"
    with tarfile.open(making, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        entry(archive, config_name, config)
        entry(archive, digest + "/layer.tar", content)
        entry(archive, "manifest.json", text([{"Config": config_name, "RepoTags": [name], "Layers": [digest + "/layer.tar"]}]))
    os.replace(making, out)


def main():
    words = argparse.ArgumentParser(description="packs an image of one layer without a container engine")
    words.add_argument("--name", default="localhost/busbw:latest", help="the image's name and tag, and so the program's (%(default)s)")
    words.add_argument("--mpi", choices=sorted(MPI), help="adds this MPI's library, its parts, mpirun, sshd and ssh, as pods of an MPIJob need")
    words.add_argument("program", nargs="?", metavar="PROGRAM", help="(target/release/busbw of this checkout)")
    words.add_argument("out", metavar="OUT.tar")
    given = words.parse_args()
    checkout = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    try:
        pack(given.program or os.path.join(checkout, "target/release/busbw"), given.out, given.name, given.mpi)
    except (CannotPack, OSError) as why:
        sys.exit(f"tools/image.sh: {given.out} is not made: {why}")


if __name__ == "__main__":
    main()
