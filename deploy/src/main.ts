import { openSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CommandError } from "@svc/runtime/command";
import { readIfThere } from "@svc/runtime/durable-file";
import { spawnProgram } from "@svc/runtime/programs";
import { sleep } from "@svc/runtime/sleep";
import { systemClock } from "@svc/runtime/system";
import { ApiRefused } from "./api.ts";
import { cleanUp } from "./discard.ts";
import { deployExamples } from "./examples.ts";
import { type Info, readInfo, renderInfo, writeInfo } from "./info.ts";
import { layoutOf } from "./layout.ts";
import { nodeBinary, repositoryRoot, runtimeRoot } from "./paths.ts";
import { type Platform, PlatformError, startPlatform } from "./platform.ts";
import { endProcess, identify, isAlive, signalProcess } from "./process-id.ts";
import { ProgramError } from "./program.ts";
import { type LocalSettings, readSettings, SettingsError } from "./settings.ts";
import { findSupervisor } from "./supervisor.ts";

const startMs = 20 * 60_000;
const stopMs = 120_000;
const pollMs = 100;
/** One Ctrl-C can arrive twice, from the terminal and from npm; only a later one means impatience. */
const repeatMs = 2_000;

const clock = systemClock;
const layoutIn = (dir: string) => layoutOf(dir, runtimeRoot(process.env));
const say = (line: string) => console.error(`svc: ${line}`);

/** Settles when the process is asked to end; a second, later request ends it without ceremony. */
function stopRequest(): Promise<void> {
  return new Promise((resolve) => {
    let firstAtMs: number | null = null;
    const onSignal = () => {
      if (firstAtMs === null) {
        firstAtMs = clock.steadyMs();
        resolve();
      } else if (clock.steadyMs() - firstAtMs > repeatMs) {
        say("stopping at once; the next start ends what is left");
        process.exit(1);
      }
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  });
}

interface Mode {
  /** Begin anew. */
  fresh: boolean;
  /** Three replicas of control and three members of etcd. */
  ha: boolean;
  /** Certificates of a CA on this machine. */
  acme: boolean;
}

/** Runs the platform in this process until asked to stop. */
async function runPlatform(settings: LocalSettings, { fresh, ha, acme }: Mode): Promise<void> {
  const stop = stopRequest();
  const giveUp = new AbortController();
  void stop.then(() => {
    say("stopping");
    giveUp.abort(new PlatformError("stopped before everything was up"));
  });
  const { info: infoFile } = layoutIn(settings.dir);
  await rm(infoFile, { force: true });
  await using platform = await startPlatform({
    clock,
    ...settings,
    networks: { containers: "10.213", nodes: "127.0.1" },
    fresh,
    ha,
    acme,
    durable: true,
    env: process.env,
    log: say,
    signal: giveUp.signal,
  });
  const info = await Promise.race([offerExamples(settings, platform), stop.then(() => null)]);
  if (info !== null) {
    console.log(`\nsvc is running.\n\n${renderInfo(info)}\n\nStop it with Ctrl-C or: npm stop\n`);
    await stop;
  }
  await rm(infoFile, { force: true });
}

async function offerExamples(settings: LocalSettings, platform: Platform): Promise<Info> {
  const { apiUrl, admin: account, docker, baseImage, registry } = platform;
  const examples = await deployExamples({
    clock,
    apiUrl,
    account,
    image: { docker, baseImage, registry },
    workDir: join(settings.dir, "examples"),
    env: process.env,
    log: say,
  });
  return writeInfo(platform, examples);
}

/** Starts a supervisor in the background and waits until everything serves. */
async function detach(settings: LocalSettings, { fresh, ha, acme }: Mode): Promise<Info> {
  const { info: infoFile, supervisor } = layoutIn(settings.dir);
  await rm(infoFile, { force: true });
  const logFile = `${settings.dir}.log`;
  const output = openSync(logFile, "w", 0o600);
  const flags = [...(fresh ? ["--fresh"] : []), ...(ha ? ["--ha"] : []), ...(acme ? ["--acme"] : [])];
  const child = spawnProgram([nodeBinary(), join(repositoryRoot, "deploy/src/main.ts"), "start", ...flags], {
    detached: true,
    stdio: ["ignore", output, output],
    env: process.env,
  });
  const id = identify(child.pid ?? 0);
  const stop = stopRequest();
  let stopped = false;
  void stop.then(() => {
    stopped = true;
    signalProcess(id, "SIGTERM");
  });
  const untilMs = clock.steadyMs() + startMs;
  for (;;) {
    const info = (await findSupervisor(supervisor)) === null ? null : await readInfo(infoFile);
    if (info !== null) {
      child.unref();
      return info;
    }
    if (!isAlive(id)) {
      const said = ((await readIfThere(logFile)) ?? "").trimEnd();
      throw new PlatformError(stopped ? "stopped" : `the platform did not start:\n${said.replaceAll(/^svc: /gm, "")}`);
    }
    if (clock.steadyMs() > untilMs) {
      await endProcess(clock, id, stopMs);
      throw new PlatformError(`the platform was not ready within ${startMs / 60_000} minutes; see ${logFile}`);
    }
    await sleep(clock, pollMs);
  }
}

async function start(args: string[]): Promise<void> {
  const flag = { type: "boolean" } as const;
  const { values } = parseArgs({ args, options: { detach: flag, fresh: flag, ha: flag, acme: flag } });
  const settings = readSettings(process.env, repositoryRoot);
  const mode: Mode = { fresh: values.fresh === true, ha: values.ha === true, acme: values.acme === true };
  const layout = layoutIn(settings.dir);
  if ((await findSupervisor(layout.supervisor)) !== null) {
    const info = await readInfo(layout.info);
    const hint = mode.fresh ? "; stop it first: npm stop" : "";
    throw new PlatformError(`svc is already running here${hint}${info === null ? "" : `\n\n${renderInfo(info)}`}`);
  }
  if (values.detach !== true) return runPlatform(settings, mode);
  const info = await detach(settings, mode);
  console.log(`\nsvc is running in the background.\n\n${renderInfo(info)}\n\nStop it with: npm stop\n`);
}

async function stop(): Promise<void> {
  const { dir, dockerSocket } = readSettings(process.env, repositoryRoot);
  const supervisor = await findSupervisor(layoutIn(dir).supervisor);
  if (supervisor !== null) await endProcess(clock, supervisor, stopMs);
  await cleanUp(clock, { dir, dockerSocket, env: process.env });
  say(supervisor === null ? "not running" : "stopped");
}

const commands: Record<string, (args: string[]) => Promise<void>> = { start, stop };

const [name = "start", ...args] = process.argv.slice(2);
try {
  const command = commands[name];
  if (command === undefined)
    throw new SettingsError("usage: main.ts start [--detach] [--fresh] [--ha] [--acme] | stop");
  await command(args);
} catch (error) {
  const forPeople = [PlatformError, ProgramError, SettingsError, CommandError, ApiRefused].some(
    (kind) => error instanceof kind,
  );
  console.error(forPeople && error instanceof Error ? `svc: ${error.message}` : error);
  process.exitCode = 1;
}
