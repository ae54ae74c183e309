"""Finds the commands of the documents and of the help, and runs them: the part of tests/documented.sh that reads.
Not what a reader has beside them (files, history): that is made there."""
import glob, os, re, shutil, subprocess, sys, time

root, work = os.environ["REPOSITORY"], os.environ["WORK"]
BUILDS = bool(os.environ["DEFAULT"])
LIMIT_S = 300
# What a command may need that CI has not. Readers see the same words behind the command.
NEEDS = re.compile(
    r"needs ((?:(?:a|two|four|eight) )?GPUs?|a record of GPUs|two hosts|a running job|dumps of PyTorch's flight recorder|a job's files|Slurm|Kubernetes|GitHub|torchrun"
    r"|a container engine|a tuner's file|an interrupted tuning|a download|root|man|your program|that plugin|half an hour|a quarter of an hour)\b"
)
# Exit code 1 of these is an answer, not a failure.
ANSWERS = re.compile(r"\bbusbw (doctor|check|lint|watch|pairs .*--strict|plan .*--measured)\b")
COMMAND = re.compile(r"^(?:\w+=\S+ )*(?:(?:mpirun|srun|salloc|torchrun|sudo|kubectl) .*)?busbw [a-z-]")
REPOSITORY = re.compile(r"(^|\s)(cargo|(tests|tools|target|bench|fuzz|web)/)")

ran, waived, forms, failures, repeated = [], [], 0, [], 0


def split(line):
    """A line as the command and its comment, as a shell splits it."""
    found = re.search(r"\s#\s(.*)$", line)
    return (line[: found.start()].strip(), found[1]) if found else (line.strip(), "")


def waive(where, command, why):
    waived.append((where, command, why))


def run(where, command, folder, wanted=None):
    env = dict(os.environ)
    if REPOSITORY.search(command):
        steps = open(f"{root}/.ci/run").read()
        if re.search(r"^(cargo test|tests/|tools/)", command):
            if command.split("   ")[0] in steps:
                return waive(where, command, "a step of .ci/run")
            return failures.append((where, command, "neither a step of .ci/run nor marked"))
        if not BUILDS:
            return waive(where, command, "builds this repository: run with target/release/busbw only")
        folder = root
        env["HOME"] = os.environ["BUILDER_HOME"]
    tool = command.split()[0]
    if re.fullmatch(r"[a-z]+", tool) and not shutil.which(tool):
        return waive(where, command, f"there is no {tool} here")
    begun = time.monotonic()
    try:
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return failures.append((where, command, f"still running after {LIMIT_S} s"))
    codes = (0, 1) if ANSWERS.search(command) else (0,)
    if done.returncode not in codes:
        return failures.append((where, command, f"exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}"))
    # Into a file, into a program that is content, or where lint finds nothing, silence is success.
    if not (done.stdout.strip() or done.stderr.strip() or re.search(r" > |--xml=|python3|busbw lint", command)):
        return failures.append((where, command, "it printed nothing"))
    # What `explain` and `plan` print does not depend on the machine: it is held against the document, line by line.
    if wanted and (" explain " in command or "busbw plan " in command):
        lines = done.stdout.splitlines()
        for line in wanted:
            if line not in lines:
                return failures.append((where, command, f"it does not print: {line}\nbut: {done.stdout}"))
    ran.append((time.monotonic() - begun, where, command))
    print(f"ok {ran[-1][0]:6.1f} s {where}: {command}", flush=True)


def fresh():
    """A copy of the reader's folder, and of the history that is in its home."""
    for name in ("reader", "home"):
        shutil.rmtree(f"{work}/{name}", ignore_errors=True)
        shutil.copytree(f"{work}/as-{name}", f"{work}/{name}")
    return f"{work}/reader"


def each(where, line, folder, wanted=None):
    command, comment = split(line)
    needs = NEEDS.match(comment)
    if needs:
        return waive(where, command, needs[0])
    if comment.startswith("needs "):
        return failures.append((where, command, f"'{comment}': tests/documented/commands.py knows no such need"))
    run(where, command, folder, wanted)


def document(path):
    name = os.path.relpath(path, root)
    lines = open(path).read().split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        where = f"{name}:{at + 1}"
        if line.startswith("```"):
            kind, end = line[3:].strip(), at + 1
            while lines[end] != "```":
                end += 1
            block(kind, name, at + 1, lines[at + 1 : end])
            at = end + 1
            continue
        if line.startswith("    ") and COMMAND.match(line.strip()):
            failures.append((where, line.strip(), "a command in an indented block: neither run nor marked; write ```sh"))
        mentions(where, line, name == "README.md" and line.startswith("|"))
        at += 1


def block(kind, name, first, lines):
    if kind == "sh":
        folder = fresh()
        for offset, line in enumerate(lines):
            if line.strip() and not line.startswith("#"):
                each(f"{name}:{first + offset + 1}", line, folder)
    elif kind == "console":
        folder, prompts = fresh(), [i for i, line in enumerate(lines) if line.startswith("$ ")]
        for prompt, following in zip(prompts, prompts[1:] + [len(lines)]):
            each(f"{name}:{first + prompt + 1}", lines[prompt][2:], folder, lines[prompt + 1 : following])
    else:
        for offset, line in enumerate(lines):
            if COMMAND.match(line.removeprefix("$ ")):
                failures.append((f"{name}:{first + offset + 1}", line, f"a command in a block of kind '{kind}': write sh or console"))


def mentions(where, line, is_table):
    """Code in running text. That of README's table is run; elsewhere the command and its options must exist."""
    global forms, repeated
    for found in re.finditer(r"`([^`]*)`( \(([^)]*)\))?", line):
        text, note = found[1], found[3] or ""
        if not re.match(r"(\w+=\S+ )*busbw [a-z]", text):
            continue
        is_form = "…" in text or re.search(r"(^|[\s=])[A-Z]+(\.json)?( |$)", text)
        if is_table and not is_form:
            if any(command == text for _, _, command in ran):
                repeated += 1
                continue
            each(where, f"{text}   # {note}" if note.startswith("needs") else text, fresh())
            continue
        forms += 1
        command = re.sub(r"^(\w+=\S+ )*", "", text).split()[1]
        if command not in helps:
            helps[command] = subprocess.run(["busbw", command, "--help"], capture_output=True, text=True)
        help_ = helps[command]
        if help_.returncode != 0:
            failures.append((where, text, f"busbw has no command {command}"))
            continue
        for option in re.findall(r" (--[a-z][a-z-]+)", text):
            if option not in help_.stdout and "$(" not in text:
                failures.append((where, text, f"busbw {command} has no option {option}"))


def examples():
    """The examples of every command's help, which end at the first line that is not indented."""
    names = subprocess.run(["busbw", "--help"], capture_output=True, text=True).stdout
    names = re.findall(r"^  ([a-z_]+)  ", names.split("Commands:")[1].split("Options:")[0], re.M)
    before = {command for _, _, command in ran}
    for name in ["", *names, "all_reduce_perf"]:
        text = subprocess.run(["busbw", *name.split(), "--help"], capture_output=True, text=True).stdout
        for line in text.partition("Examples:\n")[2].split("\n\n")[0].splitlines():
            command = split(line)[0]
            # Twelve collectives have the same examples: those of two are run.
            if command not in before and not (name in names[2:12]):
                before.add(command)
                each(f"busbw {name} --help", line, fresh())


helps = {}
paths = [f"{root}/README.md", f"{root}/CONTRIBUTING.md", *sorted(glob.glob(f"{root}/docs/*.md"))]
for path in paths:
    document(path)

examples()

for where, command, why in waived:
    print(f"waived   {where}: {command}: {why}")
for where, command, why in failures:
    print(f"FAILED   {where}: {command}: {why}")
print(f"{len(ran)} commands ran as printed, {repeated} of a table had run before, {len(waived)} are waived, {len(failures)} failed; "
      f"{forms} more are named in text, and they and their options exist")
# Without documents or marks there would be nothing to fail.
sys.exit(bool(failures) or len(ran) < 40)
