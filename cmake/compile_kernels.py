"""compile_kernels.py NVRTC SOURCE OUTPUT INCLUDE...: compiles the kernels of SOURCE with CUDA's compiler library for every GPU
that it knows from Turing to Blackwell, and writes them to the C++ source OUTPUT (src/modules/cuda/norm_kernels.h). Needs no GPU,
no driver and no CUDA toolkit."""
import ctypes
import pathlib
import sys

CUBINS = (75, 80, 90, 100)  # compute capabilities, times ten, which serve newer ones of their major version, too
PTX = 75  # for all others


def check(nvrtc, code, program=None):
    if code == 0:
        return
    log = b""
    if program is not None:
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        log = log.value
    sys.exit(nvrtc.nvrtcGetErrorString(code).decode() + "\n" + log.decode())


def compiled(nvrtc, source, includes, architecture, kind):
    """`kind`: CUBIN or PTX."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None))
    options = [f"--gpu-architecture={architecture}", "--std=c++20", "--device-as-default-execution-space",
               *(f"--include-path={folder}" for folder in includes)]
    words = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    check(nvrtc, nvrtc.nvrtcCompileProgram(program, len(options), words), program)
    check(nvrtc, getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)), program)
    code = ctypes.create_string_buffer(size.value)
    check(nvrtc, getattr(nvrtc, f"nvrtcGet{kind}")(program, code), program)
    check(nvrtc, nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))
    return code.raw


def literal(code):
    """Bytes as a C++ string: three octal digits each but for plain characters."""
    plain = {byte: chr(byte) for byte in range(32, 127) if chr(byte) not in '"\\?'}
    return '"' + "".join(plain.get(byte) or f"\\{byte:03o}" for byte in code) + '"'


def main(library, source, output, *includes):
    nvrtc = ctypes.CDLL(library)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    source = pathlib.Path(source)
    images = [(number, compiled(nvrtc, source, includes, f"sm_{number}", "CUBIN")) for number in CUBINS]
    images.append((0, compiled(nvrtc, source, includes, f"compute_{PTX}", "PTX")))
    rows = "".join(f"    {{{number}, {literal(code)}}},\n" for number, code in images)
    pathlib.Path(output).write_text('#include "modules/cuda/norm_kernels.h"\n\nnamespace kiln {\n\n'
                                    f"const NormImage kNormImages[kNumNormImages] = {{\n{rows}}};\n\n}}  // namespace kiln\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
