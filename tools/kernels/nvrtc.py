"""Compiles CUDA C to PTX text with a given NVRTC library; needs no GPU and no toolkit.

usage: nvrtc.py LIBNVRTC SOURCE PTX [NAME=VALUE...]

NAME=VALUE defines a macro.
"""
import ctypes
import os
import sys

# Volta: the first whose threads of one warp all get on when some wait for a lock. No contraction of
# products and sums, so that a device rounds where a processor does.
OPTIONS = [b"--gpu-architecture=compute_70", b"--std=c++17", b"--fmad=false"]


def main(library, source, ptx, *definitions):
    folder, name = os.path.split(os.path.abspath(source))
    # The library loads its builtins by name.
    ctypes.CDLL(os.path.join(os.path.dirname(library), "libnvrtc-builtins.so.12.0"))
    nvrtc = ctypes.CDLL(library)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(function, *arguments):
        error = getattr(nvrtc, function)(*arguments)
        if error:
            log_size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(log_size))
            log = ctypes.create_string_buffer(log_size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            sys.exit(f"{function}: {nvrtc.nvrtcGetErrorString(error).decode()}\n{log.value.decode()}")

    program = ctypes.c_void_p()
    with open(source, "rb") as file:
        text = file.read()
    call("nvrtcCreateProgram", ctypes.byref(program), text, name.encode(), 0, None, None)
    options = OPTIONS + [b"--include-path=" + folder.encode()]
    options += [b"--define-macro=" + definition.encode() for definition in definitions]
    array = (ctypes.c_char_p * len(options))(*options)
    call("nvrtcCompileProgram", program, len(options), array)
    size = ctypes.c_size_t()
    call("nvrtcGetPTXSize", program, ctypes.byref(size))
    compiled = ctypes.create_string_buffer(size.value)
    call("nvrtcGetPTX", program, compiled)
    # Without comments, indentation and blanks between operands: a sixth of the text.
    lines = (line.split("//")[0].split() for line in compiled.value.decode().splitlines())
    with open(ptx, "w") as file:
        file.writelines(" ".join(words).replace(", ", ",") + "\n" for words in lines if words)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
