#!/usr/bin/env python3
"""Stops (SIGSTOP) one process of a launched run after another: what names it, when, with which exit code, what is left.

    tests/stopped.py [--quick] BUSBW SHIMS [LAUNCHER[:WHO]]...

LAUNCHER is one of ssh, two (ssh to two hosts, by their names), openmpi, hydra, slurm (SLURM_CONF names a cluster of this
machine), and by-openmpi, by-hydra, by-slurm where the launcher starts busbw. SHIMS is what tests/shims/build.sh has made.
Prints a line for each case; exit code 1 if a case is not as it should be: named within 15 s, exit 6, rows kept, nothing
left. Not busbw's tests of itself (`cargo test`): those stop what a program that stands for ssh has started.
"""
import os, re, shutil, signal, subprocess, sys, tempfile, threading, time

LIMIT = 15.0
GIVE_UP = 45.0
ARGUMENTS = [one for one in sys.argv[1:] if one != "--quick"]
BUSBW, SHIMS = (os.path.realpath(one) for one in ARGUMENTS[:2])
RUN = "all_reduce -b 8 -e 8 -n 5 -N 0 --batches 1".split()

# sh stays, as ssh does, and is on another host by its name.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
number=${{2##*.}}
[ "$number" = 1 ] || device=NCCL_TESTS_DEVICE=3
unshare --uts env -i PATH=/usr/bin:/bin HOME="{home}" SSH_HOST="$number" $device sh -c 'hostname "host-$0"; eval "$1"' "$number" "$3"
exit $?
"""


def read(path, mode="r"):
    try:
        with open(path, mode) as file:
            return file.read()
    except OSError:
        return "" if mode == "r" else b""


class Process:
    def __init__(self, pid):
        self.pid = pid
        self.words = read(f"/proc/{pid}/cmdline").split("\0")[:-1]
        self.environ = read(f"/proc/{pid}/environ", "rb")
        stat = read(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()
        self.state, self.parent = (stat[0], int(stat[1])) if stat else ("X", 0)

    def variable(self, *names):
        for entry in self.environ.split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name.decode(errors="replace") in names:
                return value.decode(errors="replace")
        return None

    def has(self, word):
        return word in self.words[:3]


def marked(mark):
    """Living processes of a run: those that have its mark, and what ssh's stand-in has started in its home."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        one = Process(int(name))
        if one.state in "ZX":
            continue
        if mark.encode() in one.environ or any(mark in word for word in one.words):
            found.append(one)
    return found


def number(one):
    """The number of a process of the job; none for others."""
    value = one.variable("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    return int(value) if value and "all_reduce" in one.words and "--launcher" not in one.words else None


def find(who, mark, user):
    """The process to be stopped."""
    everybody = marked(mark)
    ranks = {number(one): one for one in everybody if number(one) is not None and os.path.basename(one.words[0]).startswith("busbw")}
    if who == "process 0":
        return ranks[0].pid
    if who == "worker":
        return ranks[1].pid
    if who == "worker elsewhere":
        return ranks[2].pid
    if who == "rank 0":
        return next(one.pid for one in everybody if one.has("__rank"))
    agents = sorted((one.variable("SSH_HOST"), one.pid) for one in everybody if one.has("__agent"))
    sshs = sorted((one.words[one.words.index("--") + 1], one.pid) for one in everybody if one.parent == user and "--" in one.words)
    return {"agent 0": lambda: agents[0][1], "agent 1": lambda: agents[1][1], "ssh 0": lambda: sshs[0][1],
            "ssh 1": lambda: sshs[1][1], "launcher": lambda: launcher(everybody, user), "daemon": lambda: ranks[0].parent}[who]()


def launcher(everybody, user):
    return next(one.pid for one in everybody if one.parent == user or one.pid == user and "--launcher" not in one.words)


def command(how, folder):
    """The command, and who is stopped in turn."""
    program = os.path.join(folder, "busbw")
    shutil.copy(BUSBW, program)
    ssh = os.path.join(folder, "ssh")
    os.mkdir(os.path.join(folder, "home"))
    with open(ssh, "w") as file:
        file.write(SSH.format(home=os.path.join(folder, "home")))
    os.chmod(ssh, 0o755)
    record = ["--record", os.path.join(folder, "record.jsonl")]
    of_ssh = ["process 0", "agent 0", "ssh 0", "worker", "rank 0"]
    two = ["agent 1", "ssh 1", "worker elsewhere"]
    local = ["process 0", "launcher", "worker", "rank 0"]
    openmpi = "mpirun.openmpi --allow-run-as-root --oversubscribe"
    by_us = [program, *RUN, *record, "--launcher"]
    return {
        "ssh": lambda: (by_us + ["ssh", "--launcher-command", ssh, "-H", "127.0.0.1:2"], of_ssh),
        "two": lambda: (by_us + ["ssh", "--launcher-command", ssh, "-H", "127.0.0.1:2,127.0.0.2:1"], of_ssh + two),
        "openmpi": lambda: (by_us + ["mpirun", "--launcher-command", openmpi, "--np", "4"], local),
        "hydra": lambda: (by_us + ["mpirun", "--launcher-command", "mpiexec.hydra", "--np", "4"], local + ["daemon"]),
        "slurm": lambda: (by_us + ["slurm", "--launcher-command", "srun --overcommit", "--np", "4"], local + ["daemon"]),
        "by-openmpi": lambda: (openmpi.split() + ["-n", "4", program, *RUN, *record], ["process 0", "worker", "rank 0"]),
        "by-hydra": lambda: (["mpiexec.hydra", "-n", "4", program, *RUN, *record], ["process 0", "worker", "rank 0"]),
        "by-slurm": lambda: (["srun", "--overcommit", "-n", "4", program, *RUN, *record], ["process 0", "worker", "rank 0"]),
    }[how]()


def case(how, who):
    folder = tempfile.mkdtemp(prefix="busbw-stopped-")
    mark = os.path.basename(folder)
    words, _ = command(how, folder)
    environment = dict(os.environ, LD_LIBRARY_PATH=SHIMS, STOPPED_TEST=mark, HOME=folder)
    environment.pop("BUSBW_JOB_SECRET", None)
    child = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True, cwd=folder)
    said, rows = [], []

    def follow(stream, into):
        for line in stream:
            into.append((time.monotonic(), line.decode(errors="replace").rstrip()))

    threads = [threading.Thread(target=follow, args=pair, daemon=True) for pair in ((child.stdout, rows), (child.stderr, said))]
    for thread in threads:
        thread.start()
    try:
        begun = time.monotonic()
        while sum(" float " in line for _, line in rows) < 3:
            if time.monotonic() - begun > 60 or child.poll() is not None:
                return [how, who, "no rows", "", "", [line for _, line in said[-5:]]], False
            time.sleep(0.05)
        victim = find(who, mark, child.pid)
        before = len(said)
        os.kill(victim, signal.SIGSTOP)
        stopped = time.monotonic()
        while child.poll() is None and time.monotonic() - stopped < GIVE_UP:
            time.sleep(0.05)
        ended = time.monotonic() - stopped
        code = child.poll()
        # A daemon of the launcher that is stopped is ended by its processes.
        for _ in range(25 if who == "daemon" else 2):
            time.sleep(1)
            if len(marked(mark)) <= (child.poll() is None):
                break
        left = [one for one in marked(mark) if one.pid != child.pid]
        pattern = re.compile(r"busbw: .*(has|have) (been stopped|not answered|done nothing|not ended)")
        named = [(when - stopped, line) for when, line in said[before:] if pattern.search(line)]
        kept = read(os.path.join(folder, "record.jsonl")).count('"kind":"row"')
        good = bool(named) and named[0][0] <= LIMIT and (str(victim) in named[0][1] or who == "daemon") and kept >= 3 and not left
        # Hydra and srun report SIGKILL of what was stopped, too (docs/launchers.md).
        good = good and (code == 6 or how in ("by-hydra", "by-slurm") and code not in (0, None))
        text = named[0][1].replace(folder, "FOLDER") if named else (said[-1][1] if said[before:] else "")
        when = f"{named[0][0]:.1f} s" if named else "never"
        return [how, who, when, f"{ended:.1f} s, exit {code}" if code is not None else f"held for {GIVE_UP:.0f} s",
                f"{len(left)} left", [text] + ([line for _, line in said[before:]] if not good else [])], good
    finally:
        for _ in range(3):
            for one in marked(mark):
                try:
                    os.kill(one.pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.1)
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    wanted = ARGUMENTS[2:] or ["ssh", "two", "openmpi", "hydra", "by-openmpi", "by-hydra"]
    failed = 0
    for one in wanted:
        how, _, who = one.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            victims = [who] if who else command(how, folder)[1]
        for victim in victims:
            line, good = case(how, victim)
            failed += not good
            print(f"{'ok' if good else 'FAILED':7}{line[0]:11}{line[1]:17}named {line[2]:8} ended {line[3]:20} {line[4]}", flush=True)
            for text in line[5][:6]:
                print("         " + text[:420], flush=True)
    sys.exit(failed > 0)


main()
