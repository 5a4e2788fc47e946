import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Gate, GatesSchema, type Route, type SessionResponseSchema } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import type { TableFeed } from "./table-feed.ts";

/** Tells one router the secrets of the password-protected sites in its table. */
export interface GateSender {
  wake(): void;
  /** Resolves when the signal aborts. */
  run(): Promise<void>;
}

const projectsPerMessage = 500;
const idleMs = 60_000;
/** A route may name a password that was just changed: the next table does not. */
const againMs = 2_000;

const nameOf = ({ projectId, revision }: Pick<Gate, "projectId" | "revision">): string => `${projectId} ${revision}`;

/**
 * All of them first, then what comes in addition. They travel beside the table and not in it, because tables come from
 * etcd, where no secret may be.
 *
 * @param options.load the present gates of projects
 */
export function createGateSender(options: {
  clock: Clock;
  random: Random;
  edgeId: string;
  feed: Pick<TableFeed, "current">;
  load: (projectIds: readonly string[]) => Promise<Gate[]>;
  send: (message: MessageInitShape<typeof SessionResponseSchema>, sizeBytes: number) => void;
  log: Log;
  signal: AbortSignal;
}): GateSender {
  const { clock, random, edgeId, feed, load, send, log, signal } = options;
  const wake = createWake(clock);
  let told: ReadonlySet<string> = new Set();

  /** Returns whether there is nothing more to tell. */
  async function tell(): Promise<boolean> {
    const routes: Iterable<Route> = feed.current()?.routes.values() ?? [];
    const wanted = new Map<string, string>();
    for (const { projectId, gate } of routes)
      if (gate !== "") wanted.set(nameOf({ projectId, revision: gate }), projectId);
    told = new Set([...told].filter((name) => wanted.has(name)));
    const missing = new Set([...wanted].flatMap(([name, projectId]) => (told.has(name) ? [] : [projectId])));
    const projectIds = [...missing].slice(0, projectsPerMessage);
    if (projectIds.length === 0) return true;
    const loaded = await persist(() => load(projectIds), {
      clock,
      random,
      signal,
      log,
      what: "load the passwords of sites",
    });
    const gates = (loaded ?? []).filter((gate) => wanted.has(nameOf(gate)));
    if (gates.length === 0) return false;
    const value = create(GatesSchema, { gates });
    send({ message: { case: "gates", value } }, toBinary(GatesSchema, value).byteLength);
    told = new Set([...told, ...gates.map(nameOf)]);
    log.info({ edgeId, gates: gates.length }, "passwords of sites sent");
    return gates.length === missing.size;
  }

  return {
    wake: wake.signal,
    async run() {
      while (!signal.aborted) {
        const before = told.size;
        const done = await tell();
        if (done || told.size === before) await wake.wait(done ? idleMs : againMs, signal);
      }
    },
  };
}
