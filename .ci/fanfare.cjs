#!/usr/bin/env node
// Starts the executable in the npm package for this platform, and exits with the same code or signal.
"use strict";

const { spawn } = require("node:child_process");

const name = `fanfare-cli-${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "fanfare.exe" : "fanfare";

let executable;
try {
  executable = require.resolve(`${name}/bin/${file}`);
} catch {
  console.error(`error: The npm package ${name} is not installed.`);
  console.error("hint: Install fanfare-cli with optional dependencies. If this platform has no package, build from source.");
  process.exit(1);
}

const child = spawn(executable, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to both processes, so the child may get it twice. A supervisor sends SIGINT to this one only. On
// Windows, `kill` would end the child without its own handling of Ctrl-C.
const forwarded = process.platform === "win32" ? ["SIGTERM", "SIGHUP"] : ["SIGINT", "SIGTERM", "SIGHUP"];
process.on("SIGINT", () => {});
for (const signal of forwarded) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: ${executable} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
