#!/usr/bin/env python3
"""Writes stubs of macOS's frameworks: python3 .ci/frameworks.py TARGET FOLDER

To link against a framework, a linker needs the names of its functions. Apple's lists are part of Xcode, and Zig contains only that of
libSystem. These stubs contain the names that the client's crates declare.
"""

import pathlib, re, sys

from package import label, shipped

LINK = re.compile(r'link\(name = "(\w+)", kind = "framework"\)')
DECLARED = re.compile(r"^\s*pub (?:fn|static) (\w+)[^{;]*;", re.MULTILINE)
STUB = """\
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '/System/Library/Frameworks/{name}.framework/Versions/A/{name}'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ {symbols} ]
...
"""


def main():
    target, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    symbols = {}
    for package, _ in shipped(target, ["cli"]):
        sources = [path.read_text() for path in sorted(pathlib.Path(package["manifest_path"]).parent.glob("src/**/*.rs"))]
        names = sorted({name for source in sources for name in LINK.findall(source)})
        if not names:
            continue
        if len(names) > 1:
            sys.exit(f"{label(package)} links several frameworks, {names}: it is unknown which of its functions belong to which")
        symbols.setdefault(names[0], set()).update(name for source in sources for name in DECLARED.findall(source))
    for name, declared in symbols.items():
        if not declared:
            continue
        framework = folder / f"{name}.framework"
        framework.mkdir(parents=True, exist_ok=True)
        stub = STUB.format(name=name, symbols=", ".join(f"_{symbol}" for symbol in sorted(declared)))
        (framework / f"{name}.tbd").write_text(stub)


main()
