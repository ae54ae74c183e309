"""The command line of tools/nccl_release.sh. Not what is read (facts.py), compared (diff.py) or generated (history.py)."""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import diff  # noqa: E402
import facts  # noqa: E402
import history  # noqa: E402
import slim  # noqa: E402
import tables  # noqa: E402
from library import Library  # noqa: E402

# The packages on PyPI, by CUDA's major version; releases before 2.27.7 are in the first alone.
PACKAGES = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")


def main():
    parser = argparse.ArgumentParser(
        prog="tools/nccl_release.sh",
        description="Reads what a release of NCCL has from its library, and writes it as data of the release.",
        epilog="tools/nccl_release.sh 2.32.3; tools/nccl_release.sh --diff 2.30.7 2.32.3; "
        "tools/nccl_release.sh --slim sm_90 2.32.3 -o libnccl.so.2",
    )
    parser.add_argument("releases", nargs="*", metavar="VERSION", help="as 2.32.3")
    parser.add_argument("--wheel", help="folder of a wheel that was unpacked (it holds nvidia/nccl), in place of the download")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--diff", action="store_true", help="print the difference between two releases that have data")
    action.add_argument("--generate", action="store_true", help="make the program's tables of the data")
    action.add_argument("--check", action="store_true", help="fail where the program's tables are not what the data give")
    action.add_argument("--slim", metavar="sm_NN", help="write the library with the code of this GPU alone, and no symbols")
    parser.add_argument("-o", "--output", default="libnccl.so.2", help="where --slim writes to")
    arguments = parser.parse_args()
    if arguments.diff:
        expect(parser, arguments.releases, 2)
        print(diff.text(*arguments.releases))
    elif arguments.generate:
        history.generate()
    elif arguments.check:
        stale = history.stale()
        if stale:
            sys.exit(f"{history.GENERATED}: {', '.join(stale)} differ from what data/ gives: tools/nccl_release.sh --generate")
    elif arguments.slim:
        expect(parser, arguments.releases, 1)
        with_library(arguments, arguments.releases[0], write_slim)
    else:
        if not arguments.releases:
            parser.error("which release?")
        for release in arguments.releases:
            with_library(arguments, release, take)


def expect(parser, releases, number):
    """Ends with the usage where there are not so many releases."""
    if len(releases) != number:
        parser.error(f"{number} release{'s' if number > 1 else ''} expected")


def with_library(arguments, release, action):
    """Calls `action` with the folder of a wheel's nvidia/nccl, downloaded where none was named."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", release):
        sys.exit(f"{release} is no release: write it as 2.32.3")
    if arguments.wheel:
        return action(arguments, release, Path(arguments.wheel) / "nvidia/nccl")
    with tempfile.TemporaryDirectory() as folder:
        download(release, folder)
        return action(arguments, release, Path(folder) / "unpacked/nvidia/nccl")


def download(release, folder):
    """Downloads a wheel and unpacks it into folder/unpacked."""
    failures = []
    for package in PACKAGES:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, f"{package}=={release}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            wheel = next(Path(folder).glob("*.whl"))
            subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), f"{folder}/unpacked"], check=True)
            return
        failures.append(done.stderr.strip())
    sys.exit(f"cannot download NCCL {release}:\n" + "\n".join(failures))


def opened(release, folder):
    """The library of a wheel, whose header must be of the release."""
    header = (folder / "include/nccl.h").read_text()
    numbers = [re.search(rf"#define NCCL_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    if ".".join(numbers) != release:
        sys.exit(f"{folder} holds NCCL {'.'.join(numbers)}, not {release}")
    return Library(folder / "lib/libnccl.so.2")


def take(_arguments, release, folder):
    """Writes the data of a release, the program's tables, and prints what changed."""
    tables.write(release, facts.read(opened(release, folder), folder / "include/nccl.h"))
    history.generate()
    known = tables.releases()
    before = known.index(release) - 1
    if before >= 0:
        print(diff.text(known[before], release))


def write_slim(arguments, release, folder):
    """Writes a library that is small when compressed."""
    name = re.fullmatch(r"(?:sm_)?(\d+)a?", arguments.slim)
    if not name:
        sys.exit(f"--slim {arguments.slim}: name a GPU's architecture, as sm_90")
    try:
        kept, zeroed = slim.write(opened(release, folder), int(name[1]), arguments.output)
    except slim.NotFound as error:
        sys.exit(str(error))
    print(f"{arguments.output}: NCCL {release}, {kept} pieces of code for {arguments.slim} kept, {zeroed} of others zeroed")


if __name__ == "__main__":
    main()
