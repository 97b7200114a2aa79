#!/usr/bin/env python3
"""Lets a bundle run on glibc 2.34 and 2.35: libraries of Debian that need glibc 2.36 for arc4random and arc4random_buf alone
take these from a library of ours, which asks the kernel as glibc does.

    older_systems.py LIB      the folder of the bundle's libraries"""
import pathlib
import re
import subprocess
import sys

import symbols

NEWER = (2, 36)
FUNCTIONS = {"arc4random", "arc4random_buf"}
LIBRARY = "libkiln_random.so"
SOURCE = """
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

void arc4random_buf(void* bytes, size_t size) {
  const size_t kMost = 256;  /* of getentropy */
  for (char* to = bytes; size > 0;) {
    const size_t now = size < kMost ? size : kMost;
    if (getentropy(to, now) != 0) abort();
    to += now;
    size -= now;
  }
}

uint32_t arc4random(void) {
  uint32_t number;
  arc4random_buf(&number, sizeof number);
  return number;
}
"""
VERSION_IS_WEAK = 2  # VER_FLG_WEAK in vna_flags: the loader does not insist on this version


def stop_insisting(version, file):
    """Marks the need of this version of glibc as weak (ELF: Elf64_Vernaux; its vna_flags are the bytes 4 and 5)."""
    text = subprocess.run(["readelf", "--wide", "--version-info", file], capture_output=True, text=True,
                          check=True).stdout.partition("Version needs")[2]
    section = int(re.search(r"Offset: (0x[0-9a-f]+)", text)[1], 16)
    entry = int(re.search(rf"(0x[0-9a-f]+):\s+Name: GLIBC_{symbols.dotted(version)}  ", text)[1], 16)
    with file.open("r+b") as binary:
        binary.seek(section + entry + 4)
        binary.write(VERSION_IS_WEAK.to_bytes(2, "little"))


def main():
    folder = pathlib.Path(sys.argv[1])
    newer = [path for path, need in symbols.needs_of_all(folder).items() if need.get("GLIBC") == NEWER]
    for file in newer:
        functions = set(symbols.functions_above((2, 35), file))
        if not functions <= FUNCTIONS:
            sys.exit(f"older_systems.py: {file.name} also needs {', '.join(sorted(functions - FUNCTIONS))} of glibc 2.36")
        subprocess.run(["patchelf", "--add-needed", LIBRARY, *(word for name in sorted(functions)
                                                               for word in ("--clear-symbol-version", name)), file], check=True)
        stop_insisting(NEWER, file)
    if newer:
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-s", "-x", "c", "-", "-o", folder / LIBRARY,
                        f"-Wl,-soname,{LIBRARY}"], input=SOURCE, text=True, check=True)


if __name__ == "__main__":
    main()
