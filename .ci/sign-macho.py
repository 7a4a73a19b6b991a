#!/usr/bin/env python3
"""Adds an ad hoc signature to an executable for macOS, as linkers do: python3 .ci/sign-macho.py IDENTIFIER FILE

Zig signs only executables for arm64, which macOS would not run otherwise. .ci/check-macho.py checks the result.
"""

import hashlib, pathlib, struct, sys

SEGMENT, CODE_SIGNATURE = 0x19, 0x1D
EMBEDDED_SIGNATURE, CODE_DIRECTORY = 0xFADE0CC0, 0xFADE0C02
AD_HOC_BY_LINKER, MAIN_EXECUTABLE, SHA256 = 0x20002, 0x1, 2
# The sizes of pages, as powers of two.
HASHED_PAGE, MEMORY_PAGE = 12, 14
# The version of the code directory, and its length in that version before the identifier and the hashes.
VERSION, LENGTH = 0x20400, 88


def segments(binary):
    """Returns the offsets of the commands that load segments, by the names of the segments, and the end of all commands."""
    count, at = struct.unpack_from("<I", binary, 16)[0], 32
    found = {}
    for _ in range(count):
        number, size = struct.unpack_from("<II", binary, at)
        if number == CODE_SIGNATURE:
            sys.exit("the executable is already signed")
        if number == SEGMENT:
            found[bytes(binary[at + 8 : at + 24]).rstrip(b"\0")] = at
        at += size
    return found, at


def directory(code, identifier, text):
    """Returns the code directory, with the hashes of all pages of the code."""
    pages = [code[at : at + (1 << HASHED_PAGE)] for at in range(0, len(code), 1 << HASHED_PAGE)]
    hashes = b"".join(hashlib.sha256(page).digest() for page in pages)
    start = LENGTH + len(identifier)
    length = start + len(hashes)
    head = struct.pack(">IIIIIIIII", CODE_DIRECTORY, length, VERSION, AD_HOC_BY_LINKER, start, LENGTH, 0, len(pages), len(code))
    kind = struct.pack(">BBBBI", 32, SHA256, 0, HASHED_PAGE, 0)
    return head + kind + struct.pack(">IIIQQQQ", 0, 0, 0, 0, *text, MAIN_EXECUTABLE) + identifier + hashes


def sign(binary, identifier):
    found, end = segments(binary)
    text, linkedit = found[b"__TEXT"], found[b"__LINKEDIT"]
    count, size = struct.unpack_from("<II", binary, 16)
    if any(binary[end : end + 16]):
        sys.exit("there is no space for another load command")
    binary += b"\0" * (-len(binary) % 16)
    start = len(binary)
    # The length does not depend on the content, which changes below.
    length = 20 + len(directory(binary, identifier, (0, 0)))
    struct.pack_into("<IIII", binary, end, CODE_SIGNATURE, 16, start, length)
    struct.pack_into("<II", binary, 16, count + 1, size + 16)
    [offset] = struct.unpack_from("<Q", binary, linkedit + 40)
    in_file = start + length - offset
    in_memory = -(-in_file >> MEMORY_PAGE) << MEMORY_PAGE
    struct.pack_into("<Q", binary, linkedit + 32, in_memory)
    struct.pack_into("<Q", binary, linkedit + 48, in_file)
    signature = directory(binary, identifier, struct.unpack_from("<QQ", binary, text + 40))
    return binary + struct.pack(">IIIII", EMBEDDED_SIGNATURE, length, 1, 0, 20) + signature


identifier, path = sys.argv[1], pathlib.Path(sys.argv[2])
path.write_bytes(sign(bytearray(path.read_bytes()), identifier.encode() + b"\0"))
