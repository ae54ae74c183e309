#!/usr/bin/env python3
"""1,000 ranks on 125 hosts, all on this machine: `busbw all_reduce -H` through a program that stands for ssh, with the
limits that clusters have. How long start, run and end take, what it costs, and whether anything is left on any host after
the end, after the death of the host where it was started, and after that host has fallen silent.

    tests/scale.py BUSBW SHIMS [HOSTS [RANKS_A_HOST]] [CASE]...

SHIMS is what tests/shims/build.sh has made. CASE: cold (no host has a copy of busbw), run, busy (all ranks at work for a
minute), doctor, dead, silent, stopped (process 0 is). Exit code 1 if something is left or a run fails. Not speed of collectives: two cores stand for 125 hosts.
"""
import os, resource, shutil, signal, subprocess, sys, tempfile, threading, time

BUSBW, SHIMS = (os.path.realpath(one) for one in sys.argv[1:3])
NUMBERS = [int(one) for one in sys.argv[3:] if one.isdigit()]
HOSTS, EACH = (NUMBERS + [125, 8][len(NUMBERS):])[:2]
CASES = [one for one in sys.argv[3:] if not one.isdigit()] or ["cold", "run", "busy", "doctor", "dead", "silent", "stopped"]
ROW = "all_reduce --backend nccl -b 8 -e 8 -n 1 -w 0 -c 0 --batches 1 -T 120".split()
SOFT_LIMIT = 1024

SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
env -i PATH=/usr/bin:/bin HOME="{home}" SCALE_TEST={mark} BUSBW_SHIM_MEMORY=67108864 NCCL_HOSTID="host-$2" sh -c "$3"
exit $?
"""


def limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(SOFT_LIMIT, hard), hard))


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(pid, what):
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def status(pid, field):
    for line in read(pid, "status").decode(errors="replace").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def threads():
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].split("/")[1])


class Job:
    """A run under way, and what it was seen to use."""

    def __init__(self, home, words):
        self.mark = f"scale-{os.getpid()}-{time.monotonic_ns()}"
        script = os.path.join(home, "ssh")
        with open(script, "w") as file:
            file.write(SSH.format(home=home, mark=self.mark))
        os.chmod(script, 0o755)
        # Addresses of this machine, one for each host.
        hosts = ",".join(f"127.0.{1 + number // 250}.{1 + number % 250}:{EACH}" for number in range(HOSTS))
        environment = dict(os.environ, LD_LIBRARY_PATH=SHIMS, SCALE_TEST=self.mark, BUSBW_NO_RECORD="1", HOME=home)
        environment.pop("BUSBW_JOB_SECRET", None)
        self.before = available(), threads()
        self.most, self.own = [0, 0, 0], [0, 0]
        self.seen, self.lines, self.wanted = {}, [], []
        self.begun = time.monotonic()
        self.child = subprocess.Popen(
            [BUSBW, *words, "--launcher", "ssh", "--launcher-command", script, "-H", hosts],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            start_new_session=True, preexec_fn=limit)
        self.readers = [threading.Thread(target=self.follow, args=(stream,), daemon=True) for stream in (self.child.stdout, self.child.stderr)]
        for reader in [*self.readers, threading.Thread(target=self.sample, daemon=True)]:
            reader.start()

    def follow(self, stream):
        for line in stream:
            line = line.decode(errors="replace").rstrip()
            self.lines.append(line)
            for what, text in (("joined", "control over"), ("world", "#  Rank"), ("row", " float "), *self.wanted):
                if text in line:
                    self.seen.setdefault(what, time.monotonic() - self.begun)

    def names(self, text):
        self.wanted.append(("named", text))

    def sample(self):
        while self.child.poll() is None:
            memory, running = available(), threads()
            files = len(os.listdir(f"/proc/{self.child.pid}/fd")) if os.path.exists(f"/proc/{self.child.pid}/fd") else 0
            for place, value in enumerate((self.before[0] - memory, running - self.before[1], files)):
                self.most[place] = max(self.most[place], value)
            self.own = [max(pair) for pair in zip(self.own, (status(self.child.pid, "VmHWM"), status(self.child.pid, "Threads")))]
            time.sleep(0.3)

    def processes(self):
        mark = self.mark.encode()
        return [pid for pid in pids() if pid != self.child.pid and mark in read(pid, "environ") and b"\nState:\tZ" not in read(pid, "status")]

    def gone(self, limit, allowed=()):
        """Seconds until nothing is left; none if something is."""
        begun = time.monotonic()
        while True:
            left = set(self.processes()) - set(allowed)
            if not left:
                return time.monotonic() - begun
            if time.monotonic() - begun > limit:
                for pid in left:
                    words = read(pid, "cmdline").replace(b"\0", b" ")[:100].decode(errors="replace")
                    print(f"    left: {pid} {words}", flush=True)
                return None
            time.sleep(0.2)

    def wait_for(self, what, limit):
        begun = time.monotonic()
        while what not in self.seen and self.child.poll() is None and time.monotonic() - begun < limit:
            time.sleep(0.1)
        return what in self.seen

    def end(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()

    def told(self):
        for line in self.lines[-6:]:
            print("    " + line[:300], flush=True)


def run(home, name, words=ROW):
    job = Job(home, words)
    try:
        code = job.child.wait(timeout=300)
        over = time.monotonic() - job.begun
        for reader in job.readers:
            reader.join(5)
        left = job.gone(5)
        moments = ", ".join(f"{what} {when:.1f} s" for what, when in job.seen.items())
        print(f"{name}: {HOSTS} hosts, {HOSTS * EACH} ranks: exit {code}, {moments}, over {over:.1f} s; at most {job.most[0] // 1024} MiB and {job.most[1]} threads "
              f"on this machine, of it busbw itself {job.own[0] // 1024} MiB, {job.own[1]} threads, {job.most[2]} open files; "
              + ("nothing left" if left is not None else "something is left"), flush=True)
        if code:
            job.told()
        return code == 0 and left is not None
    except subprocess.TimeoutExpired:
        print(f"{name}: not over after 300 s: {job.seen}", flush=True)
        job.told()
        return False
    finally:
        job.end()


def lost(home, name, number, after):
    """The host where it was started: busbw and its ssh get a signal."""
    job = Job(home, [*ROW, "-N", "0"])
    try:
        if not job.wait_for("row", 200):
            print(f"{name}: no row", flush=True)
            job.told()
            return False
        time.sleep(2)
        everybody = job.processes()
        ours = [pid for pid in everybody if b"-T\0-o\0" in read(pid, "cmdline")] + [job.child.pid]
        for pid in ours:
            os.kill(pid, number)
        took = job.gone(after, ours)
        print(f"{name}: {len(everybody) + 1} processes, of which {len(ours)} are on the host where it was started: "
              + (f"nothing left on any other after {took:.1f} s" if took is not None else f"something is left after {after} s"), flush=True)
        return took is not None
    finally:
        job.end()


def stopped(home):
    """Process 0 is stopped while all ranks work: when it is named, and when nothing is left."""
    job = Job(home, [*ROW, "-N", "0"])
    try:
        if not job.wait_for("row", 200):
            print("stopped: no row", flush=True)
            job.told()
            return False
        first = next(pid for pid in job.processes() if b"all_reduce" in read(pid, "cmdline").split(b"\0")[:2] and b"RANK=0" in read(pid, "environ").split(b"\0"))
        os.kill(first, signal.SIGSTOP)
        begun = time.monotonic()
        job.names(f"process 0 of the run (process {first} ")
        code = job.child.wait(timeout=120)
        over, named, left = time.monotonic() - begun, job.seen.get("named"), job.gone(30)
        named = named and named + job.begun - begun
        print(f"stopped: process 0 " + (f"named after {named:.1f} s" if named else "not named") + f", exit {code} after {over:.1f} s, "
              + (f"nothing left {left:.1f} s later" if left is not None else "something is left"), flush=True)
        return bool(named) and named <= 15 and code == 6 and left is not None
    finally:
        job.end()


def doctor(home):
    """One doctor a process, and the comparison: with the variables of a launcher."""
    mark, size = f"scale-{os.getpid()}-doctor", HOSTS * EACH
    begun, children = time.monotonic(), []
    environment = dict(os.environ, SCALE_TEST=mark, LD_LIBRARY_PATH=SHIMS, HOME=home, WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(EACH),
                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(10000 + os.getpid() % 10000), BUSBW_JOB_SECRET="scale")
    for rank in range(size):
        out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
        children.append(subprocess.Popen([BUSBW, "doctor"], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank % EACH)), stdout=out,
                                         stderr=subprocess.STDOUT if rank == 0 else out, stdin=subprocess.DEVNULL, preexec_fn=limit))
    started = time.monotonic() - begun
    try:
        text = children[0].communicate(timeout=200)[0].decode(errors="replace")
        codes = {child.wait(timeout=30) for child in children}
        over = time.monotonic() - begun
        compared = f"{size} ranks compared" in text
        print(f"doctor: {size} processes started in {started:.1f} s, {'compared' if compared else 'NOT compared'}, over {over:.1f} s, exit codes {sorted(codes)}", flush=True)
        if not compared:
            print("    " + "\n    ".join(text.splitlines()[-5:]), flush=True)
        return compared and len(codes) == 1
    except subprocess.TimeoutExpired:
        print("doctor: not over in time", flush=True)
        return False
    finally:
        for child in children:
            child.poll() is None and child.kill()


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/proc/sys/net/core/somaxconn") as file:
        print(f"{os.cpu_count()} cores; open files {SOFT_LIMIT} (at most {hard}); processes {resource.getrlimit(resource.RLIMIT_NPROC)[0]}; somaxconn {file.read().strip()}", flush=True)
    home = tempfile.mkdtemp(prefix="busbw-scale-")
    good = True
    try:
        if "cold" in CASES:
            good &= run(home, "cold")
        else:
            run_quietly(home)
        if "run" in CASES:
            good &= run(home, "run")
        if "busy" in CASES:
            good &= run(home, "busy", [*ROW, "-N", "10"])
        if "doctor" in CASES:
            good &= doctor(home)
        if "dead" in CASES:
            good &= lost(home, "dead", signal.SIGKILL, 30)
        if "silent" in CASES:
            good &= lost(home, "silent", signal.SIGSTOP, 40)
        if "stopped" in CASES:
            good &= stopped(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(not good)


def run_quietly(home):
    """So that the one copy is there."""
    global HOSTS, EACH
    hosts, each = HOSTS, EACH
    HOSTS, EACH = 1, 2
    run(home, "copy")
    HOSTS, EACH = hosts, each


main()
