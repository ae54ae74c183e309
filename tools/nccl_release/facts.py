"""What a release of NCCL has, read from its library and header: parameters with defaults, functions, structures, plugin
interfaces, log messages. Not how releases differ (diff.py) and not what the program makes of them (history.py)."""

import re
from pathlib import Path

VARIABLE = re.compile(r"NCCL_[A-Z][A-Z0-9_]*")
# NCCL_PARAM makes ncclParamNAME(), which loads the value once (src/include/param.h); typed parameters are objects
# ncclParam<T> whose constructor takes name and default (2.29); the rest is read by getenv or ncclGetEnv.
PARAMETER = re.compile(r"^_Z\d+ncclParam[A-Z]\w*v$")
TYPED = re.compile(r"^_ZN9ncclParamI.*C[12]E")
GETENV = re.compile(r"^((secure_)?getenv(@plt)?|_Z10ncclGetEnvPKc|_Z19ncclEnvPluginGetEnvPKc)$")
# ncclDebugLog(level, flags, file, line, format, ...); since 2.32 ncclDebugLogInternal has a function before the line.
LOGGER = re.compile(r"^_Z\d+ncclDebugLog\w*17ncclDebugLogLevelmPKc(S1_iS1_z|iS1_z)")
# What NCCL looks for in a plugin: ncclNetPlugin_v12, ncclProfiler_v7.
INTERFACE = re.compile(r"^nccl(Net|CollNet|Tuner|Profiler|Env|Gin|Rma|Log)(?:Plugin)?_v(\d+)$")
PLUGIN_STRUCTURE = re.compile(rb"nccl(?:Net|CollNet|Tuner|Profiler|Env|Gin|Rma|Log)\w*_v\d+_t(?=\0)")
# NCCL_CONFIG_UNDEF_INT
UNDEFINED = -(2**31)


def read(library, header):
    """All facts: {"parameters": [(name, default, how it is read)], "functions": [(name,)], "structures": [(structure, offset,
    bytes, field)], "plugins": [(kind, version)], "messages": [(level, text)]}, each sorted."""
    parameters, messages = calls(library)
    # A name that no call shows goes through a function of NCCL's own, or a constructor that was inlined.
    for text in library.strings():
        if VARIABLE.fullmatch(text):
            parameters.setdefault(text, ("-", "string"))
    structures = [
        (name, *row)
        for name, (size, fields) in library.structures(structure_names(library, header)).items()
        for row in [(0, size, "-"), *fields]
    ]
    return {
        "parameters": sorted((name, *rest) for name, rest in parameters.items()),
        "functions": [(name,) for name in library.exported()],
        "structures": structures,
        "plugins": interfaces(library),
        "messages": sorted(messages),
    }


def calls(library):
    """One pass over the code: ({variable: (default, how)}, {(level, text)})."""
    parameters, messages = {}, set()
    levels = library.enumeration("ncclDebugLogLevel")
    for inside, called, arguments in library.calls():

        def text(position):
            address = arguments.get(position)
            return None if address is None else library.string(address)

        logger = LOGGER.match(called)
        if PARAMETER.match(inside.split(".")[0]) and called.startswith("_Z13ncclLoadParam"):
            name = text(0)
            if name:
                parameters[name] = (_number(arguments.get(1)), "parameter")
        elif TYPED.match(called):
            name = text(1)
            if name and VARIABLE.fullmatch(name):
                words = "IPKc" in called
                default = (text(2) or "unset") if words else _number(arguments.get(2))
                parameters[name] = (default, "typed")
        elif GETENV.match(called):
            name = text(0)
            if name and VARIABLE.fullmatch(name):
                parameters.setdefault(name, ("-", "getenv"))
        elif logger:
            message = text(5 if logger[1] == "S1_iS1_z" else 4)
            if message:
                level = levels.get(arguments.get(0), "?")
                messages.add((level.removeprefix("NCCL_LOG_"), message))
    return parameters, messages


def _number(value):
    return "?" if value is None else "unset" if value == UNDEFINED else str(value)


def interfaces(library):
    """(kind, version) of every plugin interface that the library looks for."""
    found = filter(None, (INTERFACE.match(text) for text in library.strings()))
    return sorted({(match[1].lower(), int(match[2])) for match in found})


def structure_names(library, header):
    """Names of the structures of the public header and of plugins."""
    names = set(re.findall(r"\}\s*(nccl\w+);", Path(header).read_text()))
    _, offset, size = library.sections[".debug_str"]
    found = PLUGIN_STRUCTURE.findall(library.bytes, offset, offset + size)
    return sorted(names | {name.decode() for name in found})
