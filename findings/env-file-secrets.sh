#!/bin/bash
# The same line of an environment file gives different secrets. `SECRET=correct#horse` is `correct` for Node.js 20
# (`--env-file`), dotenv 18.0.10, Bun 1.4.5, Deno 2.9.6, Next.js' @next/env 16.4.6, Vite 7.3.8 and AdonisJS' env 6.2.0,
# and the whole for bash and four Python packages: python-dotenv 1.2.4, django-environ 0.14.0, python-decouple 3.8 and
# Starlette 1.10.0. `SECRET=correct$horse` is `correct` for all but dotenv, Node.js and these packages. Single quotes
# keep the `$` for bash and Deno, but not for Bun, Next.js, Vite and AdonisJS. No reader reports an error. Hurt:
# receivers of webhooks with a signing secret that a person has made up: no signature matches, or only after a move to
# another framework. Quotes help against `#`. Secrets of letters, digits and `-_+/=` are the same for all.
# Source: https://nextjs.org/docs/app/guides/environment-variables#referencing-other-variables
# Usage: findings/env-file-secrets.sh. Needs Node.js 20, npm's registry, Python 3.11 with pip, and PyPI. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @adonisjs/env@6.2.0 bun@1.4.5 deno@2.9.6 dotenv@18.0.10 @next/env@16.4.6 \
  vite@7.3.8
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check django-environ==0.14.0 python-decouple==3.8 \
  python-dotenv==1.2.4 starlette==1.10.0
cat > libraries.mjs <<'NODE'
import { readFileSync } from "node:fs";
import { EnvParser } from "@adonisjs/env";
import next from "@next/env";
import dotenv from "dotenv";
import { loadEnv } from "vite";

const text = readFileSync(".env", "utf8");
const folder = new URL("./", import.meta.url);
const silent = { info() {}, error: console.error };
const readers = {
  dotenv: () => dotenv.parse(text),
  Vite: () => loadEnv("production", ".", ""),
  AdonisJS: () => new EnvParser(text, folder, { ignoreProcessEnv: true }).parse(),
  "Next.js": () => next.loadEnvConfig(".", false, silent).parsedEnv,
};
for (const [name, read] of Object.entries(readers)) console.log(`${name}: ${(await read()).SECRET}`);
NODE
cat > libraries.py <<'PYTHON'
import decouple, dotenv, environ
from starlette.config import Config

environ.Env.read_env(".env", overwrite=True)
readers = {
    "python-dotenv": lambda: dotenv.dotenv_values(".env")["SECRET"],
    "django-environ": lambda: environ.Env().str("SECRET"),
    "python-decouple": lambda: decouple.Config(decouple.RepositoryEnv(".env"))("SECRET"),
    "Starlette": lambda: Config(".env", environ={})("SECRET"),
}
for name, read in readers.items():
    print(f"{name}: {read()}")
PYTHON
echo 'console.log(process.env.SECRET)' > show.cjs
read_all() {
  echo "bash: $(set +u; . ./.env; echo "$SECRET")"
  echo "Node.js: $(node --env-file=.env show.cjs)"
  echo "Bun: $(node_modules/.bin/bun show.cjs)"
  echo "Deno: $(node_modules/.bin/deno run --quiet --env-file=.env --allow-env show.cjs)"
  node libraries.mjs
  python/bin/python libraries.py
}
number=0
for value in 'correct-horse+1/2=' 'correct#horse' 'correct$horse' "'correct#horse'" "'correct\$horse'"; do
  echo "SECRET=$value" > .env
  echo "$value"
  read_all | tee "seen$number" | sed 's/^/  /'
  number=$((number + 1))
done
javascript=(Node.js Bun Deno dotenv Vite AdonisJS Next.js)
python=(python-dotenv django-environ python-decouple Starlette)
# Checks that in this experiment, these readers read this value.
expect() {
  for name in "${@:3}"; do grep --quiet --line-regexp --fixed-strings "$name: $2" "seen$1"; done
}
expect 0 'correct-horse+1/2=' bash "${javascript[@]}" "${python[@]}"
expect 1 correct "${javascript[@]}"
expect 1 'correct#horse' bash "${python[@]}"
expect 2 correct bash Bun Deno Vite AdonisJS Next.js
expect 2 'correct$horse' Node.js dotenv "${python[@]}"
expect 3 'correct#horse' bash "${javascript[@]}" "${python[@]}"
expect 4 correct Bun Vite AdonisJS Next.js
expect 4 'correct$horse' bash Node.js Deno dotenv "${python[@]}"
