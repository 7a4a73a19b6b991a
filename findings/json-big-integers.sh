#!/bin/bash
# Debian 12's Jansson 2.14-2 fails to parse JSON with an integer above 9223372036854775807, such as the upper half of the
# unsigned 64-bit ids, and json-c 0.16-2 turns each integer above 18446744073709551615 into this number, without an error:
# two ids become one. cJSON 1.7.15-1+deb12u4 rounds to a double, as JavaScript does, and ends a string at `\u0000`. The
# grammar of JSON allows all of them. Hurt: receivers of webhooks in C: the signature is right, and then an event whose
# result has such an id is refused at each attempt, or is stored as the result of another id.
# Source: https://jansson.readthedocs.io/en/2.14/conformance.html
# Usage: findings/json-big-integers.sh. Needs apt-get of Debian 12, and gcc. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libcjson-dev=1.7.15-1+deb12u4 libcjson1=1.7.15-1+deb12u4 \
  libjansson-dev=2.14-2 libjansson4=2.14-2 libjson-c-dev=0.16-2 libjson-c5=0.16-2
for package in *.deb; do dpkg --extract "$package" .; done
cat > jansson.c <<'C'
#include <jansson.h>
#include <stdio.h>

int main(int count, char **texts) {
  for (int index = 1; index < count; index++) {
    json_error_t error;
    json_t *value = json_loads(texts[index], 0, &error);
    puts(value ? json_dumps(value, JSON_COMPACT) : "error");
  }
}
C
cat > json-c.c <<'C'
#include <json-c/json.h>
#include <stdio.h>

int main(int count, char **texts) {
  for (int index = 1; index < count; index++) {
    struct json_object *value = json_tokener_parse(texts[index]);
    puts(value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN) : "error");
  }
}
C
cat > cjson.c <<'C'
#include <cjson/cJSON.h>
#include <stdio.h>

int main(int count, char **texts) {
  for (int index = 1; index < count; index++) {
    cJSON *value = cJSON_Parse(texts[index]);
    puts(value ? cJSON_PrintUnformatted(value) : "error");
  }
}
C
changed=0
for library in jansson json-c cjson; do
  gcc -I usr/include -L usr/lib/x86_64-linux-gnu -L lib/x86_64-linux-gnu "$library.c" -o "$library" "-l$library"
  mapfile -t seen < <(LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu:lib/x86_64-linux-gnu "./$library" '{"id":9223372036854775807}' \
    '{"id":9223372036854775808}' '{"id":20000000000000000001}' '{"id":20000000000000000002}' '{"id":"job\u0000-1"}')
  echo "$library: ${seen[*]}"
  case $library in
    jansson) expected='{"id":9223372036854775807} error error error error' ;;
    json-c) expected='{"id":9223372036854775807} {"id":9223372036854775808} {"id":18446744073709551615}'
      expected+=' {"id":18446744073709551615} {"id":"job\u0000-1"}' ;;
    cjson) expected='{"id":9.2233720368547758e+18} {"id":9.2233720368547758e+18} {"id":2e+19} {"id":2e+19} {"id":"job"}' ;;
  esac
  [ "${seen[*]}" = "$expected" ] || changed=1
done
exit $changed
