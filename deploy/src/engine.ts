import { openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { engineOutput } from "@svc/runtime/engine-output";
import { argv, spawnProgram } from "@svc/runtime/programs";
import { sleep } from "@svc/runtime/sleep";
import Docker from "dockerode";
import { holdExclusively } from "./exclusive.ts";
import { repositoryRoot } from "./paths.ts";
import { endProcess, identify, isAlive, type ProcessId } from "./process-id.ts";

const startMs = 60_000;
const stopMs = 30_000;
const pingMs = 3_000;

export interface Engine extends AsyncDisposable {
  docker: Docker;
  /** Whether this call started the engine; disposing then stops it, unless somebody's containers run in it. */
  started: boolean;
}

async function answersPing(socketPath: string): Promise<boolean> {
  try {
    await new Docker({ socketPath, timeout: pingMs }).ping();
    return true;
  } catch {
    return false;
  }
}

/** The engine behind the socket, or null when none answers. A busy one may take its time: `patienceMs`. */
export async function findEngine(clock: Clock, socketPath: string, patienceMs = 0): Promise<Docker | null> {
  const untilMs = clock.steadyMs() + patienceMs;
  while (!(await answersPing(socketPath))) {
    if (clock.steadyMs() > untilMs) return null;
    await sleep(clock, 200);
  }
  return new Docker({ socketPath });
}

/** Its `runc` takes from build steps what the engine has no setting for. */
const ownPrograms = join(repositoryRoot, "deploy", "engine");

/**
 * The environment of an engine whose build steps have no more rights than they need (the first `runc` it finds is ours),
 * and which passes on what they write.
 *
 * @param version what `engineVersion` says of the engine that is started with it
 */
export const engineEnvironment = (env: NodeJS.ProcessEnv, version: string): NodeJS.ProcessEnv => ({
  ...env,
  ...engineOutput(version),
  PATH: [ownPrograms, env["PATH"] ?? ""].join(":"),
});

/** What the engine that is installed here says of its version. */
export const engineVersion = async (): Promise<string> => (await run(argv("dockerd", "--version"))).stdout;

/** Where an operator, or the set-up, tells every engine of the machine what to do. */
const settingsFile = "/etc/docker/daemon.json";

/**
 * Arguments by which an engine that we start makes root in containers and in build steps nobody on the host. It refuses
 * to be told the same thing twice, so a machine whose own settings say it is left to them.
 */
function userRemapping(): string[] {
  let settings: unknown = null;
  try {
    settings = JSON.parse(readFileSync(settingsFile, "utf8"));
  } catch {}
  const isSet = typeof settings === "object" && settings !== null && "userns-remap" in settings;
  return isSet ? [] : ["--userns-remap", "default"];
}

/** Says what an engine that somebody else started lacks; it is used all the same. */
async function noteRemapping(docker: Docker, log: (line: string) => void): Promise<void> {
  const { SecurityOptions } = (await docker.info()) as { SecurityOptions?: readonly string[] };
  const isRemapped = SecurityOptions?.some((option) => /^name=(?:userns|rootless)(?:,|$)/.test(option)) ?? false;
  if (!isRemapped)
    log(
      "the Docker engine of this machine does not remap users: unless it is a recent one, Dockerfiles are not built " +
        "(docs/hardening.md says how to change that)",
    );
}

/**
 * The machine's Docker engine, started when none answers (as root). It is the machine's own one, with its
 * usual data directory; what it had before users were remapped lies beside what it has now, unseen. `logFile` receives what it says.
 */
export async function provideEngine(options: {
  clock: Clock;
  socketPath: string;
  logFile: string;
  log: (line: string) => void;
}): Promise<Engine> {
  const { clock } = options;
  const docker = new Docker({ socketPath: options.socketPath });
  const existing: Engine = { docker, started: false, [Symbol.asyncDispose]: async () => {} };
  if (await answersPing(options.socketPath)) {
    await noteRemapping(docker, options.log);
    return existing;
  }
  await using _turn = await holdExclusively(clock, "docker engine", startMs);
  if (await answersPing(options.socketPath)) return existing;
  if (process.getuid?.() !== 0) {
    throw new Error(
      `no Docker engine answers on ${options.socketPath}; start it (systemctl start docker), and see that you may use it`,
    );
  }
  options.log("starting a Docker engine");
  const output = openSync(options.logFile, "a", 0o600);
  const flags = ["--host", `unix://${options.socketPath}`, "--log-level", "warn", ...userRemapping()];
  const child = spawnProgram(argv("dockerd", ...flags), {
    detached: true,
    env: engineEnvironment(process.env, await engineVersion()),
    stdio: ["ignore", output, output],
  });
  child.on("error", () => {});
  child.unref();
  const id = identify(child.pid ?? 0);
  const untilMs = clock.steadyMs() + startMs;
  while (!(await answersPing(options.socketPath))) {
    if (!isAlive(id) || clock.steadyMs() > untilMs) {
      await endProcess(clock, id, stopMs);
      throw new Error(`the Docker engine did not start; see ${options.logFile}`);
    }
    await sleep(clock, 200);
  }
  return { docker, started: true, [Symbol.asyncDispose]: () => stopEngine(clock, docker, id, options.log) };
}

async function stopEngine(clock: Clock, docker: Docker, id: ProcessId, log: (line: string) => void): Promise<void> {
  const running = await docker.listContainers().catch(() => []);
  if (running.length > 0) log(`leaving the Docker engine running: ${running.length} containers of others are in it`);
  else await endProcess(clock, id, stopMs);
}
