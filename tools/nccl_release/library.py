"""Reads the file of an NCCL library: sections, symbols, disassembly, C strings, structures.
Not what any of it means (facts.py)."""

import re
import subprocess
from pathlib import Path

# Registers of the System V calling convention for integers and pointers, and how they are written when narrower.
ARGUMENTS = {
    "rdi": 0, "edi": 0, "rsi": 1, "esi": 1, "rdx": 2, "edx": 2, "rcx": 3, "ecx": 3, "r8": 4, "r8d": 4, "r9": 5, "r9d": 5,
}
INSTRUCTION = re.compile(r"^ +([0-9a-f]+):\t(\S+) *(.*)$")
FUNCTION = re.compile(r"^([0-9a-f]+) <(.*)>:$")
LOADED = re.compile(r"\(%rip\),%(\w+) +# ([0-9a-f]+) ")
IMMEDIATE = re.compile(r"^\$(-?0x[0-9a-f]+),%(\w+)")
ZEROED = re.compile(r"^%(\w+),%(\w+)$")
CALLED = re.compile(r"^[0-9a-f]+ <(.*)>")


def output(*command):
    """Standard output of a program.

    Raises CalledProcessError where it fails: nothing is made of half a listing."""
    return subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout


class Library:
    """One libnccl.so.2 of a wheel: x86-64, with symbols and DWARF."""

    def __init__(self, path):
        self.path = str(path)
        self.bytes = Path(path).read_bytes()
        self.sections = {}
        for line in output("readelf", "-SW", self.path).splitlines():
            match = re.match(r" +\[ *\d+\] (\S+) +(\S+) +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) ", line)
            if match and match[2] != "NOBITS":
                address, offset, size = (int(match[i], 16) for i in (3, 4, 5))
                self.sections[match[1]] = (address, offset, size)

    def string(self, address):
        """The C string at an address of constant data; None where there is none."""
        for name in (".rodata", ".data.rel.ro", ".data"):
            start, offset, size = self.sections.get(name, (0, 0, 0))
            if start <= address < start + size:
                at = offset + address - start
                end = self.bytes.find(b"\0", at, offset + size)
                try:
                    return self.bytes[at:end].decode("utf-8")
                except UnicodeDecodeError:
                    return None
        return None

    def strings(self):
        """All C strings of the constant data that are text."""
        _, offset, size = self.sections[".rodata"]
        for piece in re.finditer(rb"[\t\n\x20-\x7e]{4,}(?=\0)", self.bytes[offset:offset + size]):
            yield piece[0].decode()

    def exported(self):
        """Names of the functions that programs may call."""
        lines = output("nm", "-D", "--defined-only", self.path).splitlines()
        return sorted(line.split()[2].split("@")[0] for line in lines if line.split()[1] in "TW")

    def calls(self):
        """Every call or jump to a named function: (function it is in, function called, arguments), where arguments has the
        address or number last put into each argument register within the same function, by position."""
        inside, arguments = "", {}
        for line in output("objdump", "-d", "--no-show-raw-insn", "-j", ".text", self.path).splitlines():
            function = FUNCTION.match(line)
            if function:
                inside, arguments = function[2], {}
                continue
            instruction = INSTRUCTION.match(line)
            if not instruction:
                continue
            mnemonic, operands = instruction[2], instruction[3]
            if mnemonic in ("call", "jmp"):
                called = CALLED.match(operands)
                if called:
                    yield inside, called[1], dict(arguments)
                if mnemonic == "call":
                    arguments = {}
                continue
            self._remember(mnemonic, operands, arguments)

    @staticmethod
    def _remember(mnemonic, operands, arguments):
        loaded = LOADED.search(operands) if mnemonic == "lea" else None
        number = IMMEDIATE.match(operands) if mnemonic.startswith(("mov", "or")) else None
        zeroed = ZEROED.match(operands) if mnemonic == "xor" else None
        if loaded and loaded[1] in ARGUMENTS:
            arguments[ARGUMENTS[loaded[1]]] = int(loaded[2], 16)
        elif number and number[2] in ARGUMENTS:
            value = int(number[1], 16)
            if mnemonic.startswith("or"):
                value = -1 if value in (-1, 2**64 - 1, 2**32 - 1) else None
            elif value >= 2**63:
                value -= 2**64
            arguments[ARGUMENTS[number[2]]] = value
        elif zeroed and zeroed[1] == zeroed[2] and zeroed[1] in ARGUMENTS:
            arguments[ARGUMENTS[zeroed[1]]] = 0
        else:
            target = operands.rsplit(",", 1)[-1].lstrip("%")
            if target in ARGUMENTS and mnemonic not in ("cmp", "test", "push"):
                arguments.pop(ARGUMENTS[target], None)

    def enumeration(self, name):
        """The members of a C enumeration by value."""
        text = output("gdb", "-nx", "-batch", "-ex", f"ptype {name}", self.path)
        members, value = {}, 0
        for member in re.search(r"\{(.*)\}", text, re.S)[1].split(","):
            word, _, number = member.partition("=")
            value = int(number) if number else value
            members[value] = word.strip()
            value += 1
        return members

    def structures(self, names):
        """Sizes and offsets of C structures, by the DWARF: {name: (bytes, [(offset, bytes, field)])}. A name that the library
        does not have is left out."""
        commands = []
        for name in names:
            commands += ["-ex", f"echo @@{name}\\n", "-ex", f"ptype /o {name}"]
        command = ["gdb", "-nx", "-batch", *commands, self.path]
        text = subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout
        found = {}
        for piece in text.split("@@")[1:]:
            name, _, body = piece.partition("\n")
            total = re.search(r"total size \(bytes\): +(\d+)", body)
            if total:
                found[name] = (int(total[1]), self._fields(body))
        return found

    @staticmethod
    def _fields(body):
        """Fields in order, (offset, bytes, name), those of inner structures by their path: coll.func."""
        open_types = []
        for line in body.splitlines():
            place = re.match(r"/\*\s+(?:(\d+)\s+\|\s+)?(\d+)\s+\*/(.*)$", line)
            text = (place[3] if place else re.sub(r"/\*.*?\*/", "", line)).strip()
            offset = int(place[1]) if place and place[1] else open_types[-1][0] if open_types else 0
            if text.endswith("{"):
                open_types.append((offset, int(place[2]) if place else 0, []))
            elif text.startswith("}"):
                start, size, fields = open_types.pop()
                if not open_types:
                    return fields
                name = text.strip("}; ").split("[")[0].lstrip("*")
                if name:
                    open_types[-1][2].append((start, size, name))
                    fields = [(at, bytes_, f"{name}.{field}") for at, bytes_, field in fields]
                open_types[-1][2].extend(fields)
            elif place and text.endswith(";"):
                open_types[-1][2].append((offset, int(place[2]), _declared(text[:-1])))
        return []


def _declared(text):
    """The name that a C declaration declares."""
    function = re.search(r"\(\*(\w+)\)", text)
    return function[1] if function else re.search(r"(\w+)(?:\[[^]]*\])*(?: : \d+)?$", text)[1]
