#!/usr/bin/env python3
"""Checks executables for macOS, which cannot run here: python3 .ci/check-macho.py arm64|x86_64 FILE

Fails unless the executable is for that processor, runs on the versions of macOS in the name of its wheel, loads only libraries that
every Mac has, and has an ad hoc signature that covers each of its pages: macOS kills arm64 programs without one.
"""

import hashlib, pathlib, re, struct, sys

# The processor, and the lowest version of macOS.
KINDS = {"arm64": (0x0100000C, (11, 0)), "x86_64": (0x01000007, (10, 12))}
LIBRARIES = r"/usr/lib/(libSystem\.B|libcharset\.1|libiconv\.2)\.dylib|/System/Library/Frameworks/(\w+)\.framework/Versions/A/\2"
LOAD_DYLIB, LOAD_WEAK_DYLIB, REEXPORT_DYLIB, RPATH = 0xC, 0x80000018, 0x8000001F, 0x8000001C
VERSION_MIN_MACOSX, BUILD_VERSION, CODE_SIGNATURE = 0x24, 0x32, 0x1D
EMBEDDED_SIGNATURE, CODE_DIRECTORY = 0xFADE0CC0, 0xFADE0C02
AD_HOC, SHA256 = 0x2, 2


def commands(binary):
    """Yields the load commands, as (number, bytes)."""
    count, at = struct.unpack_from("<I", binary, 16)[0], 32
    for _ in range(count):
        number, size = struct.unpack_from("<II", binary, at)
        yield number, binary[at : at + size]
        at += size


def version(packed):
    return packed >> 16, packed >> 8 & 0xFF


def string(command):
    offset = struct.unpack_from("<I", command, 8)[0]
    return command[offset:].split(b"\0")[0].decode()


def check_signature(binary, command):
    start, size = struct.unpack_from("<II", command, 8)
    blob = binary[start : start + size]
    magic, _, count = struct.unpack_from(">III", blob, 0)
    assert magic == EMBEDDED_SIGNATURE, "the signature has another format"
    offsets = [struct.unpack_from(">II", blob, 12 + 8 * index)[1] for index in range(count)]
    [directory] = [blob[at:] for at in offsets if struct.unpack_from(">I", blob, at)[0] == CODE_DIRECTORY]
    flags, hashes, _, _, pages, limit = struct.unpack_from(">IIIIII", directory, 12)
    length, kind, _, page = struct.unpack_from("BBBB", directory, 36)
    assert flags & AD_HOC and kind == SHA256, "the signature is not ad hoc, or does not use SHA-256"
    assert limit == start and start + size == len(binary), "the signature does not cover the file"
    assert pages == -(-limit >> page), "the signature does not have a hash for each page"
    for index in range(pages):
        content = binary[index << page : min(index + 1 << page, limit)]
        expected = directory[hashes + index * length :][:length]
        assert hashlib.sha256(content).digest() == expected, f"the signature is wrong for page {index}"


def check(processor, binary):
    number, lowest = KINDS[processor]
    magic, found, _, kind = struct.unpack_from("<IIII", binary, 0)
    assert (magic, found, kind) == (0xFEEDFACF, number, 2), f"it is not an executable for {processor}"
    libraries, versions, signatures = [], [], []
    for number, command in commands(binary):
        if number in (LOAD_DYLIB, LOAD_WEAK_DYLIB, REEXPORT_DYLIB):
            libraries.append(string(command))
        elif number == VERSION_MIN_MACOSX:
            versions.append(version(struct.unpack_from("<I", command, 8)[0]))
        elif number == BUILD_VERSION:
            platform, minimum = struct.unpack_from("<II", command, 8)
            assert platform == 1, "it is not for macOS"
            versions.append(version(minimum))
        elif number == CODE_SIGNATURE:
            signatures.append(command)
        assert number != RPATH, "it searches folders of this machine for libraries"
    foreign = [name for name in libraries if not re.fullmatch(LIBRARIES, name)]
    assert libraries and not foreign, f"it loads {foreign}"
    assert len(versions) == 1 and versions[0] <= lowest, f"it requires macOS {versions}, but its wheel names {lowest}"
    assert len(signatures) == 1, "it is not signed"
    check_signature(binary, signatures[0])
    return libraries


processor, path = sys.argv[1:]
try:
    libraries = check(processor, pathlib.Path(path).read_bytes())
except AssertionError as error:
    sys.exit(f"{path}: {error}")
print(f"{path}: for {processor}, signed, loads", *libraries)
