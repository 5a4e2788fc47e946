#!/usr/bin/env node
// Starts the command line: the built program when there is one, else the TypeScript sources. This file has to
// parse and run on old versions of Node too, so that those get an answer instead of a syntax error.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const neededMajor = 24;
const here = dirname(fileURLToPath(import.meta.url));

if (Number(process.versions.node.split(".")[0]) >= neededMajor) await start();
else startNewerNode();

async function start() {
  delete process.env.SVC_NODE_RESTARTED;
  const module = await import("node:module");
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  module.enableCompileCache(join(cache, "svc"));
  const built = join(here, "..", "dist", "main.mjs");
  const program = existsSync(built) ? built : join(here, "..", "src", "main.ts");
  const { main } = await import(pathToFileURL(program).href);
  await main();
}

// A project may bring its own Node as a package; `npx svc` finds us, but runs us with the system's.
function startNewerNode() {
  const node = newerNode();
  if (node === null) {
    console.error(`svc needs Node.js ${neededMajor} or newer; this is ${process.version}.`);
    process.exitCode = 1;
    return;
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    env: { ...process.env, SVC_NODE_RESTARTED: "1" },
  });
  // Ctrl-C reaches the child by itself as well. Told in words, it knows that once was meant; see cli/src/stop.ts.
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.send(signal, () => {}));
  // Nobody looks on any more, and it ends at the first one anyway.
  process.on("SIGHUP", () => child.kill("SIGHUP"));
  child.on("error", (error) => {
    console.error(`svc cannot start ${node}: ${error.message}`);
    process.exitCode = 1;
  });
  child.on("exit", (status, signal) => {
    if (signal === null) {
      process.exitCode = status;
      return;
    }
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function newerNode() {
  // Restarted already, and still too old.
  if (process.env.SVC_NODE_RESTARTED) return null;
  for (let at = here; ; at = dirname(at)) {
    const candidate = join(at, "node_modules", ".bin", "node");
    if (existsSync(candidate)) return candidate;
    if (at === dirname(at)) return null;
  }
}
