#!/usr/bin/env python3
"""Packages the client: python3 .ci/package-client.py BINARIES EXTRAS FOLDER

BINARIES contains a folder with the executable for each target, and EXTRAS the folders `completions`, `man` and `licences`. FOLDER
receives an archive, a wheel and an npm package for each target, and the npm package that selects among these. The same
executables and commit produce the same bytes.
"""

import base64, gzip, hashlib, io, json, os, pathlib, sys, tarfile, time, tomllib, zipfile

from package import ROOT, licence_texts, shipped

# The name on PyPI and npm. `fanfare` is a different project on PyPI.
NAME = "fanfare-cli"
SUMMARY = "Manage webhooks from a terminal, and forward their events to a local program"
# For each target, the tags of its wheel, and npm's names of its operating system and processor. The versions of macOS
# are Rust's minimum. The Linux executables are static, so they run on systems with glibc and with musl.
TARGETS = {
    "aarch64-apple-darwin": ("macosx_11_0_arm64", "darwin", "arm64"),
    "x86_64-apple-darwin": ("macosx_10_12_x86_64", "darwin", "x64"),
    "aarch64-unknown-linux-musl": ("manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64", "linux", "arm64"),
    "x86_64-unknown-linux-musl": ("manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64", "linux", "x64"),
    "x86_64-pc-windows-gnullvm": ("win_amd64", "win32", "x64"),
}
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
RELEASED = int(os.environ["SOURCE_DATE_EPOCH"])
README = f"""# fanfare

{SUMMARY}. `fanfare --help` lists the commands, and the help of each command has examples.
"""


def tar_gz(path, files):
    """Writes files, given as (name, content, is executable), as a reproducible archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data, is_executable in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), RELEASED, 0o755 if is_executable else 0o644
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(gzip.compress(content.getvalue(), compresslevel=9, mtime=0))


def zipped(path, files):
    """Writes files like tar_gz, as a zip."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data, is_executable in files:
            entry = zipfile.ZipInfo(name, date_time=time.gmtime(RELEASED)[:6])
            entry.create_system = 3  # Unix, for the permissions that follow.
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)


def below(folder):
    """Returns the files below a folder, as (name, content, False)."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path.relative_to(folder).as_posix(), path.read_bytes(), False) for path in paths]


def moved(prefix, files):
    return [(prefix + name, data, is_executable) for name, data, is_executable in files]


def archive(target, executable, extras, licences, folder):
    """Writes the archive for people and installers."""
    name = f"fanfare-{VERSION}-{target}"
    files = moved(f"{name}/", [executable, *extras, *licences])
    if "windows" in target:
        zipped(folder / f"{name}.zip", files)
    else:
        tar_gz(folder / f"{name}.tar.gz", files)


def wheel(target, executable, extras, licences, folder):
    """Writes the wheel. pip and uv install its executable next to those of Python programs."""
    tags = TARGETS[target][0]
    stem = f"{NAME.replace('-', '_')}-{VERSION}"
    metadata = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {VERSION}",
        f"Summary: {SUMMARY}",
        "License-Expression: MIT OR Apache-2.0",
        *(f"License-File: {name}" for name, _, _ in licences),
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
        "",
        README,
    ]
    kind = ["Wheel-Version: 1.0", "Generator: fanfare", "Root-Is-Purelib: false"]
    kind += [f"Tag: py3-none-{tag}" for tag in tags.split(".")]
    manual = [] if tags.startswith("win") else [file for file in extras if file[0].startswith("man/")]
    files = [
        *moved(f"{stem}.data/scripts/", [executable]),
        *moved(f"{stem}.data/data/share/", manual),
        *moved(f"{stem}.dist-info/licenses/", licences),
        (f"{stem}.dist-info/METADATA", "\n".join(metadata).encode(), False),
        (f"{stem}.dist-info/WHEEL", ("\n".join(kind) + "\n").encode(), False),
    ]
    record = f"{stem}.dist-info/RECORD"
    hashed = [(name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), len(data)) for name, data, _ in files]
    rows = "".join(f"{name},sha256={digest},{size}\n" for name, digest, size in hashed) + f"{record},,\n"
    zipped(folder / f"{stem}-py3-none-{tags}.whl", [*files, (record, rows.encode(), False)])


def of_platform(target):
    return f"{NAME}-{'-'.join(TARGETS[target][1:])}"


def npm_package(manifest, files, folder):
    manifest = {"version": VERSION, "description": SUMMARY, "license": "MIT OR Apache-2.0", **manifest}
    files = [("package.json", (json.dumps(manifest, indent=2) + "\n").encode(), False), ("README.md", README.encode(), False), *files]
    tar_gz(folder / f"{manifest['name']}-{VERSION}.tgz", moved("package/", files))


def npm_platform(target, executable, licences, folder):
    """Writes the npm package with the executable. npm installs it only on its own platform, where npx can also run it directly."""
    _, system, processor = TARGETS[target]
    manifest = {"name": of_platform(target), "os": [system], "cpu": [processor], "preferUnplugged": True}
    # Not `fanfare`, the command of the other package: npm would refuse to install both.
    manifest["bin"] = {of_platform(target): f"bin/{executable[0]}"}
    npm_package(manifest, moved("bin/", [executable]) + licences, folder)


def npm_chooser(extras, licences, folder):
    """Writes the npm package that people install. Its script starts the executable in the platform's package."""
    launcher = (ROOT / ".ci" / "fanfare.cjs").read_bytes()
    manual = [file for file in extras if file[0].startswith("man/")]
    manifest = {
        "name": NAME,
        "bin": {"fanfare": "bin/fanfare.cjs"},
        "man": [name for name, _, _ in manual],
        "engines": {"node": ">=18"},
        "optionalDependencies": {of_platform(target): VERSION for target in sorted(TARGETS)},
    }
    npm_package(manifest, [("bin/fanfare.cjs", launcher, True), *manual, *licences], folder)


def main():
    binaries, extras, folder = (pathlib.Path(path) for path in sys.argv[1:])
    own = [(name, (ROOT / name).read_bytes(), False) for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    toolchain = moved("licences/", below(extras / "licences"))
    extras = [file for name in ("completions", "man") for file in moved(f"{name}/", below(extras / name))]
    for target in TARGETS:
        [path] = (binaries / target).iterdir()
        executable = (path.name, path.read_bytes(), True)
        crates = [package for package, _ in shipped(target, ["cli"]) if package["source"]]
        licences = [*own, ("licences/crates.txt", licence_texts(crates).encode(), False), *toolchain]
        archive(target, executable, extras, licences, folder)
        wheel(target, executable, extras, licences, folder)
        npm_platform(target, executable, licences, folder)
    npm_chooser(extras, own, folder)


main()
