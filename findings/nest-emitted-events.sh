#!/bin/bash
# In NestJS 11.2.10, `await emitter.emitAsync()` of @nestjs/event-emitter 3.1.0 returns normally if a listener with `@OnEvent`
# raises an error, which is only logged, because `suppressErrors` is true by default; EventEmitter2, the library in it, raises
# it. And `client.emit()` of @nestjs/microservices 11.2.6 with TCP, called without its result as in the documentation, drops
# the event without an error or a log line if the other service is away. A listener with `suppressErrors: false` and a
# controller that returns the result of `emit()` answer 500. Hurt: receivers of webhooks that hand each event to a listener or
# to another service of theirs: an event whose work fails, or that comes during a restart, is answered with 201 and lost.
# Source: https://docs.nestjs.com/techniques/events and https://docs.nestjs.com/microservices/basics#publishing-events
# Usage: findings/nest-emitted-events.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @nestjs/common@11.2.10 @nestjs/core@11.2.10 \
  @nestjs/platform-express@11.2.10 @nestjs/microservices@11.2.6 @nestjs/event-emitter@3.1.0 eventemitter2@6.4.9 \
  reflect-metadata@0.2.2 rxjs@7.8.2
cat > receiver.js <<'JS'
require("reflect-metadata");
const { Controller, Module, Post } = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const { EventEmitter2, EventEmitterModule, OnEvent } = require("@nestjs/event-emitter");
const { ClientProxyFactory, Transport } = require("@nestjs/microservices");

const decorate = (type, name, decorator) => decorator(type.prototype, name, Object.getOwnPropertyDescriptor(type.prototype, name));
const fail = async () => {
  throw new Error("The database is away");
};

class Listener {
  process() {
    return fail();
  }
  processStrictly() {
    return fail();
  }
}
decorate(Listener, "process", OnEvent("job"));
decorate(Listener, "processStrictly", OnEvent("strict", { suppressErrors: false }));

// No service listens there.
const client = ClientProxyFactory.create({ transport: Transport.TCP, options: { host: "127.0.0.1", port: 1 } });
const plain = new (require("eventemitter2").EventEmitter2)();
plain.on("job", fail);

class Receiver {
  constructor(emitter) {
    this.emitter = emitter;
  }
  async emitAsync() {
    await this.emitter.emitAsync("job", {});
  }
  async emitAsyncStrict() {
    await this.emitter.emitAsync("strict", {});
  }
  async emitAsyncOfTheLibrary() {
    await plain.emitAsync("job", {});
  }
  emit() {
    client.emit("job", { job_id: "job-1" });
  }
  returnEmit() {
    return client.emit("job", { job_id: "job-1" });
  }
}
Reflect.defineMetadata("design:paramtypes", [EventEmitter2], Receiver);
const routes = ["emitAsync", "emitAsyncStrict", "emitAsyncOfTheLibrary", "emit", "returnEmit"];
for (const route of routes) decorate(Receiver, route, Post(route));
Controller()(Receiver);
class App {}
Module({ imports: [EventEmitterModule.forRoot()], controllers: [Receiver], providers: [Listener] })(App);

(async () => {
  const lines = [];
  const logger = Object.fromEntries(["log", "error", "warn", "debug", "verbose"].map((level) => [
    level, (message) => { if (level === "error" || level === "warn") lines.push(String(message)); },
  ]));
  process.on("unhandledRejection", (error) => lines.push(`unhandled: ${error.message}`));
  const app = await NestFactory.create(App, { logger });
  await app.listen(0, "127.0.0.1");
  for (const route of routes) {
    const { status } = await fetch(`${await app.getUrl()}/${route}`, { method: "POST" });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    console.log(`${route}: ${status}, log: ${lines.splice(0).join(" ") || "nothing"}`);
  }
  process.exit();
})();
JS
seen=$(node receiver.js)
echo "$seen"
[ "$seen" = 'emitAsync: 201, log: The database is away
emitAsyncStrict: 500, log: Error: The database is away
emitAsyncOfTheLibrary: 500, log: Error: The database is away
emit: 201, log: nothing
returnEmit: 500, log: Error: connect ECONNREFUSED 127.0.0.1:1' ]
