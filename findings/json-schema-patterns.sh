#!/bin/bash
# A `pattern` of JSON Schema is a regular expression of JavaScript, but validators give it to their own language.
# php-json-schema 5.2.12 and libjson-validator-perl 5.14 do not know `\u`: for `^[^\u00a0]*$`, the PHP validator refuses every
# text, and the Perl validator those with u, a or 0. ajv 8.20.0 and jsonschema 4.26.0 (Python) are right. The character
# itself, instead of `\u00a0`, works in all of them. Hurt: producers whose valid events are refused, and authors of a valid
# schema.
# Source: https://json-schema.org/draft/2020-12/json-schema-core#name-regular-expressions
# Usage: findings/json-schema-patterns.sh. Needs apt-get and perl of Debian 12, Python 3.11 with pip, Node.js 20, and the
# registries of PyPI and npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet php8.2-cli=8.2.36-1~deb12u1 libargon2-1=0~20171227-0.3+deb12u1 \
  libicu72=72.1-3+deb12u1 libsodium23=1.0.18-1+deb12u1 libxml2=2.9.14+dfsg-1.3~deb12u6 php-json-schema=5.2.12-2 \
  libjson-validator-perl=5.14+dfsg-1 libmojolicious-perl=9.31+dfsg-1 libyaml-libyaml-perl=0.86+ds-1+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check jsonschema==4.26.0
npm install --silent --no-audit --no-fund --ignore-scripts ajv@8.20.0
cat > cases.py <<'PYTHON'
import json

ESCAPE, CHARACTER = r"^[^\u00a0]*$", "^[^\u00a0]*$"
CASES = [("^[!-~]+$", "id"), (ESCAPE, "id"), (ESCAPE, "job 20"), (CHARACTER, "job 20"), (CHARACTER, "\u00a0")]
print(json.dumps([{"schema": {"type": "string", "pattern": pattern}, "value": value} for pattern, value in CASES]))
PYTHON
python3 cases.py > cases.json
cat > python.py <<'PYTHON'
import json, jsonschema

for case in json.load(open("cases.json")):
    print(int(jsonschema.Draft202012Validator(case["schema"]).is_valid(case["value"])))
PYTHON
cat > php.php <<'PHP'
<?php
error_reporting(E_ERROR);
spl_autoload_register(function ($class) {
    require "usr/share/php/" . str_replace("\\", "/", $class) . ".php";
});
foreach (json_decode(file_get_contents("cases.json")) as $case) {
    $validator = new JsonSchema\Validator();
    $validator->validate($case->value, $case->schema);
    echo (int) $validator->isValid(), "\n";
}
PHP
cat > perl.pl <<'PERL'
use strict;
use JSON::Validator;
use Mojo::File;
use Mojo::JSON;

$SIG{__WARN__} = sub { };
for my $case (@{Mojo::JSON::decode_json(Mojo::File->new("cases.json")->slurp)}) {
    my @errors = JSON::Validator->new->schema($case->{schema})->validate($case->{value});
    print @errors ? "0\n" : "1\n";
}
PERL
cat > ajv.cjs <<'NODE'
const { default: Ajv } = require("ajv");

for (const { schema, value } of require("./cases.json")) console.log(Number(new Ajv().validate(schema, value)));
NODE

# Runs a validator, and compares the cases that it accepts: 1 is valid.
expect() {
  local expected=$1 name=$2 found
  shift 2
  found=$("$@" | tr --delete '\n')
  echo "$name: $found"
  [ "$found" = "$expected" ]
}
cat cases.json
expect 11110 ajv node ajv.cjs
expect 11110 "jsonschema, Python" venv/bin/python python.py
expect 10010 php-json-schema usr/bin/php8.2 -n php.php
perl5=$(echo usr/lib/*-linux-gnu/perl5/5.36)
expect 11010 libjson-validator-perl perl -I usr/share/perl5 -I "$perl5" perl.pl
