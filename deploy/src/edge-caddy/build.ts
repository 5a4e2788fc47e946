import { cp, readdir, rename, rm } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { ownProgram } from "@svc/runtime/programs";
import { environmentOf } from "../environment.ts";
import { holdExclusively } from "../exclusive.ts";
import { edgeCaddyDir, edgeCaddyPath, moduleDir } from "./built.ts";
import { type CaddySources, provideSources } from "./sources.ts";

const buildMs = 3_600_000;
/** By which Go code refers to the module. */
const modulePath = "svc.test/edge-module";
const caddyPackage = "github.com/caddyserver/caddy/v2";
const moduleName = "http.handlers.svc_edge";

/** The module has a fault; the message is for whoever works on it. */
export class ModuleError extends Error {
  override name = "ModuleError";
}

/**
 * Makes a Caddy with the module of `edge-module`, tests of the module included, and puts it where `edgeCaddy` finds it. Needs apt, and
 * neither root nor Go on this machine. Minutes the first time, seconds from then on.
 *
 * @returns its path
 */
export async function buildEdgeCaddy(options: {
  clock: Clock;
  cacheDir: string;
  env: NodeJS.ProcessEnv;
  log(line: string): void;
}): Promise<string> {
  const { clock, cacheDir, env, log } = options;
  const signal = clock.abortAfter(buildMs);
  await using _turn = await holdExclusively(clock, "edge-caddy", buildMs);
  const sources = await provideSources({ clock, cacheDir, signal, log });
  const code = join(sources.goPath[0] ?? "", "src", modulePath);
  await rm(code, { recursive: true, force: true });
  await cp(moduleDir, code, { recursive: true });
  const { go, gofmt } = toolsOf(sources, cacheDir, { env, signal });
  const misformatted = await gofmt("-l", code);
  if (misformatted !== "") throw new ModuleError(`gofmt would write otherwise:\n${misformatted}`);
  log("checking and testing the module");
  await go(code, "vet", "./...");
  await go(code, "test", "./...");
  log("building Caddy");
  const path = edgeCaddyPath(cacheDir);
  const fresh = `${path}.new`;
  const linked = `-s -w -X ${caddyPackage}.CustomVersion=${sources.version}`;
  await go(code, "build", "-trimpath", "-ldflags", linked, "-o", fresh, "./cmd/caddy");
  const { stdout } = await run([ownProgram(fresh), "list-modules"], { signal });
  if (!stdout.split("\n").includes(moduleName)) throw new ModuleError(`what was built does not have ${moduleName}`);
  await rename(fresh, path);
  await removeOthers(cacheDir, path);
  return path;
}

/** Runs Go's programs, each of which returns what it wrote. */
function toolsOf(
  { root, goPath }: CaddySources,
  cacheDir: string,
  { env, signal }: { env: NodeJS.ProcessEnv; signal: AbortSignal },
) {
  const goRoot = join(root, "usr/lib/go");
  const settings = {
    GOROOT: goRoot,
    GOPATH: goPath.join(delimiter),
    GOCACHE: join(edgeCaddyDir(cacheDir), "compiled"),
    // Debian's code is found by its place, without versions and without asking anybody.
    GO111MODULE: "off",
    GOPROXY: "off",
    GOFLAGS: "",
    // What has no C in it needs no compiler of C, and runs on any Linux.
    CGO_ENABLED: "0",
  };
  const tool = (name: string) => ownProgram(join(goRoot, "bin", name));
  const about = { env: environmentOf(env, settings), timeoutMs: buildMs, signal };
  return {
    go: async (cwd: string, ...args: string[]) => void (await run([tool("go"), ...args], { ...about, cwd })),
    gofmt: async (...args: string[]) => (await run([tool("gofmt"), ...args], about)).stdout.trim(),
  };
}

/** Caddys of other sources, which nobody looks for any more. One that runs goes on. */
async function removeOthers(cacheDir: string, path: string): Promise<void> {
  const dir = edgeCaddyDir(cacheDir);
  for (const name of await readdir(dir)) {
    const each = join(dir, name);
    if (name.startsWith("caddy-") && each !== path) await rm(each, { force: true });
  }
}
