#!/usr/bin/env python3
"""Calls the local service as its OpenAPI description permits and forbids: python3 .ci/try-openapi.py LOCAL

LOCAL is the local runner. Needs schemathesis, in .ci/tools.txt. Fails if a response has an undescribed status or form, if
the service accepts what the description forbids, or rejects what it permits. Takes up to two minutes.
"""

import os, re, subprocess, sys, tempfile, xml.etree.ElementTree

from service import new_organization, running

LOCAL = sys.argv[1]
# Routes that a key may call. The others end the session or the account that the calls need.
ROUTES = "^/v1/(webhooks|deliveries|audit|tenant)/"
SECONDS = 100
# Differences that stay, by name: a part of the report, and the reason.
KNOWN = {
    "an unmapped method": (r"Unsupported method \w+ returned 404", "API Gateway answers 404, not 405, where no route exists"),
    "an order of times": (r"Must not be before the start of the period", "JSON Schema cannot compare two fields"),
    "a character": (r"Must not contain the invisible character", "a pattern cannot list those above U+FFFF"),
    "a host name": (r"Must have a valid host name and port", "JSON Schema has no format for the host in a URL"),
}


def failures(report):
    """The failures in a report, each with its operation."""
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        for found in [*case.findall("failure"), *case.findall("error")]:
            parts = re.split(r"(?m)^\d+\. Test Case ID", found.text or "")
            # Errors of the tool itself have no parts.
            yield from ((case.get("name"), part.strip()) for part in parts if part.strip())


def main():
    with running(LOCAL) as stack:
        service = stack["api"]
        _, key = new_organization(service, stack["mail"])
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.xml")
            command = [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{service}/openapi.json", "--url", service),
                *("--header", f"x-api-key: {key}", "--include-path-regex", ROUTES, "--seed", "1", "--no-color"),
                *("--max-time", str(SECONDS), "--max-examples", "100", "--generation-database", "none"),
                *("--report", "junit", "--report-junit-path", report),
            ]
            environment = os.environ | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
            run = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if not os.path.exists(report):
                sys.exit(run.stdout)
            cases = re.search(r"(\d+) generated", run.stdout)
            if not cases or int(cases[1]) < 500:
                sys.exit(f"too few test cases:\n{run.stdout}")
            unknown = 0
            for operation, text in failures(report):
                names = [name for name, (sign, _) in KNOWN.items() if re.search(sign, text)]
                if not names:
                    unknown += 1
                    print(f"{operation}: {text}\n")
        print(f"{cases[1]} calls, {unknown} differences from the description")
        sys.exit(unknown > 0)


main()
