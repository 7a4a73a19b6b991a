#!/usr/bin/env python3
"""Packages binaries in a folder that deploys without a build: python3 .ci/package.py ARCHITECTURE BINARIES FOLDER

ARCHITECTURE is arm64 or x86_64, as in the template; BINARIES contains the functions' binaries; FOLDER is replaced. The same
binaries and commit produce the same bytes.
"""

import datetime, hashlib, json, pathlib, re, shutil, subprocess, sys, tomllib, uuid, zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUST = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}
READ = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT", "docs", "events", "findings", "template"]


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def pack_functions(architecture, binaries, folder):
    """Writes the functions' zips, and the template that refers to them.

    Changes the template as text instead of parsed YAML, to keep its comments.
    """
    source = (ROOT / "template.yaml").read_text()

    def replace(old, new, times=1):
        nonlocal source
        source, found = re.subn(old, new, source, flags=re.MULTILINE)
        if found != times:
            sys.exit(f"template.yaml contains {old} {found} times instead of {times}")

    names = sorted(path.name for path in (ROOT / "functions").iterdir())
    replace(
        r"^    Metadata: {BuildMethod: rust-cargolambda, BuildProperties: {Binary: (.+)}}\n    Properties:\n",
        r"    Properties:\n      CodeUri: functions/\1.zip\n",
        len(names),
    )
    replace(r"^    CodeUri: \.\n", "")
    # Permits only this value, because an update keeps the stack's current value, which may belong to a different
    # package.
    replace(
        r"^    Default: arm64\n    AllowedValues: \[arm64, x86_64\]\n",
        f"    Default: {architecture}\n    AllowedValues: [{architecture}]\n",
    )
    (folder / "template.yaml").write_text(source)

    (folder / "functions").mkdir()
    for name in names:
        # With a constant time, so unchanged functions are not deployed again.
        bootstrap = zipfile.ZipInfo("bootstrap", date_time=(1980, 1, 1, 0, 0, 0))
        bootstrap.create_system = 3  # Unix, for the permissions below.
        bootstrap.external_attr = 0o100755 << 16
        bootstrap.compress_type = zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(folder / "functions" / f"{name}.zip", "w") as archive:
            archive.writestr(bootstrap, (binaries / name).read_bytes(), compresslevel=9)


def shipped(target, programs):
    """Returns the crates in these members of the workspace, each with its dependencies.

    A few of them are not linked: crates of macros, and of features that only the tests enable.
    """
    metadata = json.loads(
        output("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target)
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {
        node["id"]: sorted(
            dependency["pkg"]
            for dependency in node["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        )
        for node in metadata["resolve"]["nodes"]
    }
    wanted = [id for id in metadata["workspace_members"] if packages[id]["name"] in programs]
    found = {}
    while wanted:
        id = wanted.pop()
        if id not in found:
            found[id] = needs[id]
            wanted += needs[id]
    return [(packages[id], [packages[need] for need in found[id]]) for id in sorted(found, key=lambda id: label(packages[id]))]


def label(package):
    return f"{package['name']} {package['version']}"


def licence(package):
    return re.sub(" ?/ ?", " OR ", package["license"])


def licence_texts(crates):
    """Returns the license texts of third-party crates, each text once."""
    users = {}
    for package in crates:
        crate = pathlib.Path(package["manifest_path"]).parent
        # Includes the licenses of vendored code, such as mimalloc.
        texts = [
            path.read_text(errors="replace")
            for path in sorted(crate.rglob("*"))
            if re.match("(UN)?LICEN[CS]E|COPY(ING|RIGHT)|NOTICE", path.name, re.IGNORECASE)
            and path.suffix not in (".rs", ".py")
            and path.is_file()
        ]
        # Some crates name their license but do not contain its text.
        if not texts and "Apache-2.0" in package["license"]:
            texts = [(ROOT / "LICENSE-APACHE").read_text()]
        elif not texts and package["license"] == "MIT":
            holder = ", ".join(package["authors"]) or f"the authors of {package['name']}"
            texts = [re.sub("Copyright .*", f"Copyright (c) {holder}", (ROOT / "LICENSE-MIT").read_text())]
        elif not texts:
            sys.exit(f"{label(package)} has no license text")
        for text in texts:
            users.setdefault(text.strip("\n") + "\n", []).append(f"{label(package)} ({licence(package)})")
    line = "=" * 80 + "\n"
    return "".join(
        line + "\n".join(dict.fromkeys(names)) + "\n" + line + "\n" + text + "\n"
        for text, names in sorted(users.items(), key=lambda pair: pair[1])
    )


def write_sbom(architecture, crates, folder):
    """Writes the software bill of materials, in the format of CycloneDX."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {label(package): package.get("checksum") for package in locked}

    def reference(package):
        # The project's crates are not published: the registry contains other crates with these names.
        return f"pkg:cargo/{package['name']}@{package['version']}" if package["source"] else f"fanfare/{package['name']}"

    def component(package):
        of_registry = {
            "purl": reference(package),
            "hashes": [{"alg": "SHA-256", "content": checksums[label(package)]}],
        }
        return {
            "type": "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            "licenses": [{"expression": licence(package)}],
            **(of_registry if package["source"] else {}),
        }

    version = next(package["version"] for package, _ in crates if package["name"] == "cli")
    rust = re.search(r"^release: (.*)$", output("rustc", "-vV"), re.MULTILINE)[1]
    released = int(output("git", "log", "-1", "--format=%ct"))
    sbom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(released, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": "fanfare",
                "name": "fanfare",
                "version": version,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            },
            "properties": [{"name": "architecture", "value": architecture}],
        },
        "components": [
            *(component(package) for package, _ in crates),
            {
                "type": "library",
                "bom-ref": "std",
                "name": "std",
                "version": rust,
                "description": "The Rust standard library",
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            },
        ],
        "dependencies": [
            {"ref": "fanfare", "dependsOn": ["fanfare/cli", "fanfare/local", "std"]},
            *(
                {"ref": reference(package), "dependsOn": sorted({reference(need) for need in needs})}
                for package, needs in crates
            ),
        ],
    }
    content = hashlib.sha256(json.dumps(sbom).encode()).hexdigest()
    sbom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}"
    (folder / "sbom.cdx.json").write_text(json.dumps(sbom, indent=1) + "\n")


def main():
    architecture, binaries, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "licences").mkdir(parents=True)
    pack_functions(architecture, binaries, folder)
    # `local` contains all functions.
    crates = shipped(RUST[architecture], ["cli", "local"])
    texts = licence_texts([package for package, _ in crates if package["source"]])
    (folder / "licences" / "crates.txt").write_text(texts)
    write_sbom(architecture, crates, folder)
    for path in output("git", "ls-files", "-z", "--", *READ).split("\0")[:-1]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)


if __name__ == "__main__":
    main()
