#!/usr/bin/env node
// Starts the command line: the TypeScript sources in a source tree, else the built program. This file has to
// parse and run on old versions of Node too, so that those get an answer instead of a syntax error.
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const sources = join(here, "..", "src", "main.ts");
// What is published has no sources. Where there are some, a build may be of older ones.
const isSourceTree = existsSync(sources);
// The build is made for the oldest version that `engines` of package.json names.
const needed = isSourceTree ? [24, 0] : [22, 19];
const [major, minor] = process.versions.node.split(".").map(Number);

if (major > needed[0] || (major === needed[0] && minor >= needed[1])) await start();
else await startNewerNode();

async function start() {
  delete process.env.SVC_NODE_RESTARTED;
  const module = await import("node:module");
  // A relative path is ignored, as XDG has it: the cache would be in the project, and be deployed with it.
  const base = process.env.XDG_CACHE_HOME;
  const cache = base?.startsWith("/") ? base : join(homedir(), ".cache");
  module.enableCompileCache(join(cache, "svc"));
  const program = isSourceTree ? sources : join(here, "..", "dist", "main.mjs");
  const { main } = await import(pathToFileURL(program).href);
  await main();
}

// A project may bring its own Node as a package; `npx svc` finds us, but runs us with the system's.
async function startNewerNode() {
  const node = newerNode();
  if (node === null) {
    refuse();
    return;
  }
  const { spawn } = await import("node:child_process");
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

// As the program itself fails with UNEXPECTED. Which command it is, only the program knows.
function refuse() {
  const message = `svc needs Node.js ${needed.join(".")} or newer; this is ${process.version}`;
  const words = process.argv.slice(2);
  const end = words.indexOf("--");
  const options = end === -1 ? words : words.slice(0, end);
  if (options.includes("--json")) {
    const error = { code: "UNEXPECTED", message, hint: "Install a newer Node.js, and run the command again" };
    console.log(JSON.stringify({ ok: false, operation: "svc", error }));
  } else console.error(message);
  process.exitCode = 1;
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
