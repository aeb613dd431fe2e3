"""Compiles CUDA sources with NVRTC.

A request on stdin: {"headers": {NAME: TEXT}, "sources": {PATH: TEXT}, "architectures": [...], "options": [...]}.
An answer on stdout: [{"source", "architecture", "compiled", "log"}].
"""

import ctypes
import glob
import json
import multiprocessing
import os
import sys
import sysconfig


def load():
    site = sysconfig.get_paths()["platlib"]
    found = sorted(glob.glob(os.path.join(site, "nvidia", "**", "libnvrtc.so.13"), recursive=True))
    if not found:
        sys.exit("libnvrtc.so.13 is not in the venv's site-packages")
    # NVRTC opens its builtins by bare name; loaded first, they are found without a search path.
    for builtins in glob.glob(os.path.join(os.path.dirname(found[0]), "libnvrtc-builtins.so.13.*")):
        ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(found[0])


def strings(values):
    return (ctypes.c_char_p * len(values))(*[value.encode() for value in values])


def read(nvrtc, size_of, bytes_of, program):
    size = ctypes.c_size_t()
    if getattr(nvrtc, size_of)(program, ctypes.byref(size)) != 0:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, bytes_of)(program, buffer)
    return buffer.raw


def compile_one(nvrtc, path, text, headers, options):
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), path.encode(), len(headers), strings(list(headers.values())), strings(list(headers))
    )
    if created != 0:
        raise RuntimeError(f"nvrtcCreateProgram failed with {created}")
    status = nvrtc.nvrtcCompileProgram(program, len(options), strings(options))
    log = read(nvrtc, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program).rstrip(b"\0").decode(errors="replace")
    cubin = read(nvrtc, "nvrtcGetCUBINSize", "nvrtcGetCUBIN", program) if status == 0 else b""
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin[:4] == b"\x7fELF", log


def compile_job(job):
    """Runs in a process of its own: one process compiles one program at a time."""
    nvrtc, request, path, architecture = STATE["nvrtc"], STATE["request"], *job
    options = [f"--gpu-architecture={architecture}", *request["options"]]
    compiled, log = compile_one(nvrtc, path, request["sources"][path], request["headers"], options)
    return {"source": path, "architecture": architecture, "compiled": compiled, "log": log}


STATE = {}


def main():
    request = json.load(sys.stdin)
    # Set before the fork, so that every process has the library and the sources.
    STATE.update(nvrtc=load(), request=request)
    jobs = [(path, architecture) for path in request["sources"] for architecture in request["architectures"]]
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        json.dump(pool.map(compile_job, jobs, chunksize=1), sys.stdout)


main()
