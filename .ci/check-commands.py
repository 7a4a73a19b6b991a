#!/usr/bin/env python3
"""Compares the AWS commands in the docs with AWS's own description of its APIs: python3 .ci/check-commands.py

Checks each operation, its options, those that it requires, and the members of the response that `--query` reads. Needs botocore,
a part of SAM, and makes no calls.
"""

import ast, pathlib, re, sys

import botocore.session, jmespath
from botocore import xform_name

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["CHANGELOG.md", "docs/deploying.md", "docs/job-events.md", "docs/operating.md"]
# A program that calls `dynamodb(OPERATION, OPTION=VALUE, ...)`.
PROGRAM = "docs/operate.py"
# Commands that are not operations of an API.
CLIENT = ["cloudformation package", "cloudformation deploy", "logs tail", "s3 mb"]
GLOBAL = {"query", "output"}
# Options with other names than in the API.
RENAMED = {"sns subscribe": {"notification-endpoint": "endpoint"}}

session = botocore.session.get_session()
problems, checked = [], []


def words(source, start):
    """The words of the shell command that begins at `start`. A nested command is a part of its word."""
    found, word, quotes, depth, at = [], "", "", 0, start
    while at < len(source):
        character = source[at]
        if character == "\\" and quotes != "'":
            word, at = word + source[at + 1].replace("\n", " "), at + 2
            continue
        if not depth and not quotes and character in ";|)`#&\n":
            break
        if quotes and character == quotes:
            quotes = ""
        elif not quotes and character in "'\"":
            quotes = character
        elif source.startswith("$(", at) and quotes != "'":
            depth += 1
        elif depth and character == ")":
            depth -= 1
        if character.isspace() and not quotes and not depth:
            found, word = [*found, word], ""
        else:
            word += character
        at += 1
    return [part for part in [*found, word] if part.strip()]


def option_of(name):
    """`TableName` as the AWS CLI calls it: `table-name`."""
    return xform_name(name, "-")


def read(query, shape, report):
    """Reports the members that a parsed query reads from `shape` but that it does not have. Returns the shape of the result."""
    kind, parts = query["type"], query["children"]
    if shape is None or kind in ("literal", "identity"):
        return shape
    if kind == "field":
        if shape.type_name == "map":
            return shape.value
        if query["value"] not in getattr(shape, "members", {}):
            return report(f"{shape.name} has no {query['value']}")
        return shape.members[query["value"]]
    if kind == "index":
        return shape.member
    if kind in ("subexpression", "index_expression", "flatten"):
        for part in parts:
            shape = read(part, shape, report)
        return shape
    if kind in ("projection", "filter_projection"):
        element = read(parts[0], shape, report)
        element = element and element.member
        for part in parts[1:]:
            result = read(part, element, report)
        return read(parts[1], element, report) if kind == "filter_projection" else result
    # A list of values, or a comparison.
    for part in parts:
        read(part, shape, report)
    return None


def check(place, service, operation, options, rest=()):
    """Checks a command with `options`, and with further words in `rest`."""
    name = f"{service} {operation}"
    if name in CLIENT:
        return
    checked.append(name)

    def report(problem):
        problems.append(f"{place}: aws {name}: {problem}")

    model = session.get_service_model(service)
    if operation == "wait":
        if rest[0] not in {option_of(waiter) for waiter in session.get_waiter_model(service).waiter_names}:
            report(f"no waiter {rest[0]}")
        return
    names = {option_of(one): one for one in model.operation_names}
    if operation not in names:
        return report("no such operation")
    described = model.operation_model(names[operation])
    known = {option_of(one): member for one, member in described.input_shape.members.items()}
    flags = {f"no-{option}": option for option in known if known[option].type_name == "boolean"}
    given = {(flags | RENAMED.get(name, {})).get(option, option) for option in options} - GLOBAL
    for option in sorted(given - set(known)):
        report(f"no option --{option}")
    # A sentence may mention an operation without its options.
    required = {option_of(one) for one in described.input_shape.required_members} if options else set()
    for option in sorted(required - given):
        report(f"--{option} is missing")
    if "query" in options:
        query = options["query"].strip("'\"")
        read(jmespath.compile(query.replace("$1", "name")).parsed, described.output_shape, report)


for page in PAGES:
    source = (ROOT / page).read_text()
    for found in re.finditer(r"\baws (?=[a-z0-9]+\s+[a-z])", source):
        service, operation, *rest = [*words(source, found.end()), ""]
        if re.fullmatch("[a-z0-9-]+", operation):
            options = {word[2:]: rest[at + 1] for at, word in enumerate(rest) if word.startswith("--")}
            check(f"{page}:{source.count(chr(10), 0, found.start()) + 1}", service, operation, options, rest)
for node in ast.walk(ast.parse((ROOT / PROGRAM).read_text())):
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dynamodb":
        options = {keyword.arg.replace("_", "-"): "" for keyword in node.keywords}
        check(f"{PROGRAM}:{node.lineno}", "dynamodb", node.args[0].value, options)
print(*problems, f"{len(checked)} AWS commands checked, {len(problems)} problems", sep="\n")
sys.exit(bool(problems))
