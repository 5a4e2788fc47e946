import type { ChildProcess } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { nodeBinary } from "@svc/deploy/paths";
import { spawnProgram } from "@svc/runtime/programs";
import type { Command, DaemonsConfig, DaemonsEvents, DaemonsState } from "./daemons/messages.ts";

const script = join(import.meta.dirname, "daemons", "main.ts");
const readyMs = 240_000;
const answerMs = 60_000;
const stopMs = 20_000;

/** A process of simulated daemons. Disposing ends it. */
export interface Daemons extends AsyncDisposable {
  readonly pid: number;
  readonly count: number;
  /** Those from `from` up to `to`, evenly over `overMs`; resolves at once. */
  start(options?: { from?: number; to?: number; overMs?: number }): Promise<void>;
  state(): Promise<DaemonsState>;
  take(): Promise<DaemonsEvents>;
  /** SIGSTOP and SIGCONT: a process that stands still, and whose connections nobody closes. */
  freeze(): void;
  thaw(): void;
}

interface Answer {
  id: number;
  reply?: unknown;
  error?: string;
}

export async function startDaemons(
  name: string,
  dir: string,
  config: Omit<DaemonsConfig, "dir">,
  options: { gid?: number } = {},
): Promise<Daemons> {
  const own = join(dir, name);
  await mkdir(own, { recursive: true, mode: 0o700 });
  const configFile = join(own, "config.json");
  await writeFile(configFile, JSON.stringify({ ...config, dir: own } satisfies DaemonsConfig), { mode: 0o600 });
  const child = spawnProgram([nodeBinary(), "--max-semi-space-size=8", script, configFile], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    ...(options.gid !== undefined && { gid: options.gid }),
  });
  const waiting = new Map<number, { resolve: (reply: unknown) => void; reject: (cause: Error) => void }>();
  let asked = 0;
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const ready = new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${name} did not start`)), readyMs);
    child.once("message", () => {
      clearTimeout(timer);
      resolve();
    });
    child.once("exit", () => reject(new Error(`${name} ended`)));
  });
  child.on("message", (message: Answer) => {
    const call = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error === undefined) call?.resolve(message.reply);
    else call?.reject(new Error(message.error));
  });
  child.once("exit", () => {
    for (const { reject } of waiting.values()) reject(new Error(`${name} ended`));
    waiting.clear();
  });
  try {
    await ready;
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }

  function ask<T>(command: Command, withinMs = answerMs): Promise<T> {
    asked += 1;
    const id = asked;
    return new Promise<T>((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.delete(id);
        reject(new Error(`${name} did not answer ${command.do}`));
      }, withinMs);
      waiting.set(id, {
        resolve: (reply) => {
          clearTimeout(timer);
          resolve(reply as T);
        },
        reject: (cause) => {
          clearTimeout(timer);
          reject(cause);
        },
      });
      child.send({ id, command });
    });
  }

  return {
    pid: child.pid ?? 0,
    count: config.identities.length,
    start: ({ from = 0, to = config.identities.length, overMs = 0 } = {}) => ask({ do: "start", from, to, overMs }),
    state: () => ask<DaemonsState>({ do: "state" }),
    take: () => ask<DaemonsEvents>({ do: "take" }),
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    [Symbol.asyncDispose]: () => end(child, exited, () => ask({ do: "stop" }, stopMs)),
  };
}

/** Gently first: sessions that are told of need no lease to run out. */
async function end(child: ChildProcess, exited: Promise<void>, stop: () => Promise<unknown>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGCONT");
  await stop().catch(() => {});
  if (child.connected) child.disconnect();
  await Promise.race([exited, delay(2_000)]);
  child.kill("SIGKILL");
  await exited;
}

/** Several processes as one fleet. */
export interface Fleet extends AsyncDisposable {
  readonly parts: readonly Daemons[];
  state(): Promise<DaemonsState>;
  take(): Promise<DaemonsEvents>;
}

export function joinFleet(parts: readonly Daemons[]): Fleet {
  return {
    parts,
    async state() {
      const states = await Promise.all(parts.map((part) => part.state()));
      const sum = (of: keyof DaemonsState) => states.reduce((total, state) => total + state[of], 0);
      return {
        open: sum("open"),
        welcomes: sum("welcomes"),
        running: sum("running"),
        starts: sum("starts"),
        stops: sum("stops"),
        runStarts: sum("runStarts"),
        runStartsMax: Math.max(0, ...states.map(({ runStartsMax }) => runStartsMax)),
        refusals: sum("refusals"),
        assigned: sum("assigned"),
        rssMb: sum("rssMb"),
      };
    },
    async take() {
      const taken = await Promise.all(parts.map((part) => part.take()));
      return {
        assigned: taken.flatMap(({ assigned }) => assigned),
        runs: taken.flatMap(({ runs }) => runs),
        tables: taken.flatMap(({ tables }) => tables),
      };
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(parts.map((part) => part[Symbol.asyncDispose]()));
    },
  };
}
