#!/bin/bash
# If an `async` function fails once, `memoize` of lodash 4.18.1, underscore 1.13.8, es-toolkit 1.53.2, memoize 11.0.0,
# memoizee 0.4.17, memoize-one 6.0.0, micro-memoize 5.2.0 and moize 6.1.7, `memo` of radash 12.1.1, and `once` of
# lodash, underscore and es-toolkit, as well as onetime 8.0.0, keep the rejected promise and return it to each later
# call. p-memoize 9.0.0, memoizee with `promise: true`, micro-memoize with `async: true` and `moize.promise` call it
# again. Hurt: receivers of webhooks that load their secret once from a vault with such a function: if the vault does
# not answer when the first event arrives, each event is answered with 500 until the receiver is restarted, although
# the vault is back. The same goes for connections to a database.
# Source: https://lodash.com/docs/4.17.15#memoize and https://github.com/sindresorhus/memoize
# Usage: findings/memoized-errors.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts es-toolkit@1.53.2 lodash@4.18.1 memoize@11.0.0 \
  memoizee@0.4.17 memoize-one@6.0.0 micro-memoize@5.2.0 moize@6.1.7 onetime@8.0.0 p-memoize@9.0.0 radash@12.1.1 \
  underscore@1.13.8
cat > receivers.cjs <<'NODE'
const { createServer } = require("node:http");

async function main() {
  const load = async (name) => (await import(name)).default;
  const names = ["es-toolkit", "lodash", "memoizee", "memoize-one", "moize", "radash", "underscore"];
  const modules = names.map((name) => require(name)).map((module) => module.default ?? module);
  const [esToolkit, lodash, memoizee, memoizeOne, moize, radash, underscore] = modules;
  const { memoize: microMemoize } = require("micro-memoize");
  const [memoize, onetime, pMemoize] = await Promise.all(["memoize", "onetime", "p-memoize"].map(load));
  const [kept, again] = [[500, 500, 500], [500, 204, 204]];
  const receivers = {
    "lodash, memoize": [lodash.memoize, kept],
    "lodash, once": [lodash.once, kept],
    "underscore, memoize": [underscore.memoize, kept],
    "underscore, once": [underscore.once, kept],
    "es-toolkit, memoize": [esToolkit.memoize, kept],
    "es-toolkit, once": [esToolkit.once, kept],
    "radash, memo": [(secret) => radash.memo(secret), kept],
    "memoize": [memoize, kept],
    "memoizee": [(secret) => memoizee(secret), kept],
    "memoizee, promise": [(secret) => memoizee(secret, { promise: true }), again],
    "memoize-one": [memoizeOne, kept],
    "micro-memoize": [(secret) => microMemoize(secret), kept],
    "micro-memoize, async": [(secret) => microMemoize(secret, { async: true }), again],
    "moize": [(secret) => moize(secret), kept],
    "moize.promise": [(secret) => moize.promise(secret), again],
    "onetime": [onetime, kept],
    "p-memoize": [pMemoize, again],
  };
  let changed = false;
  for (const [name, [once, expected]] of Object.entries(receivers)) {
    let loads = 0;
    const secret = once(async () => {
      if (++loads === 1) throw new Error("the vault does not answer");
      return "secret";
    });
    const server = createServer((request, response) => {
      request.resume().on("end", async () => {
        const status = await secret().then(() => 204, () => 500);
        response.writeHead(status).end();
      });
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const statuses = [];
    for (let event = 0; event < 3; event++) {
      const url = `http://127.0.0.1:${server.address().port}/`;
      statuses.push((await fetch(url, { method: "POST", body: "{}" })).status);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    console.log(`${name}: ${statuses.join(", ")}; the secret was loaded ${loads === 1 ? "once" : `${loads} times`}`);
    changed ||= String(statuses) !== String(expected);
    server.close();
    server.closeAllConnections();
  }
  process.exit(changed ? 1 : 0);
}

main();
NODE
node receivers.cjs
