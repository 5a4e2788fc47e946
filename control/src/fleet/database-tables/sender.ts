import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { DatabaseTableSchema, type SessionResponseSchema } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import { persist } from "../sessions/session.ts";
import type { BranchNews } from "./news.ts";
import type { LoadDatabaseTable } from "./tables.ts";

/** Tells one agent which databases its node may reach, and who comes in to it no more. */
export interface DatabaseTableSender {
  /** What runs on the node has changed, or some machine is gone. */
  wake(): void;
  /** Something about a branch has changed; null: about any. */
  hear(news: BranchNews | null): void;
  /** Resolves when the signal aborts. */
  run(): Promise<void>;
}

/** A notification may be lost, and plans change for many at once. */
const lookAgainMs = 30_000;
/** What changes together is told together. */
const restMs = 50;

/**
 * The whole table first, also when it is empty: the node may hold one of before. Then again whenever it is another. It is looked
 * at as soon as something is placed on the node, as the assignment is: a container that needs an entry waits for it there.
 *
 * @param options.uses whether containers of a project are on the node
 */
export function createDatabaseTableSender(options: {
  clock: Clock;
  random: Random;
  nodeId: string;
  load: LoadDatabaseTable;
  uses(projectId: string): boolean;
  send(message: MessageInitShape<typeof SessionResponseSchema>, sizeBytes: number): void;
  log: Log;
  signal: AbortSignal;
}): DatabaseTableSender {
  const { clock, random, nodeId, load, send, log, signal } = options;
  const wake = createWake(clock);
  let told: Buffer | null = null;
  let known: ReadonlySet<string> = new Set();

  async function tell(): Promise<void> {
    const what = "load a node's table of databases";
    const table = await persist(() => load(nodeId), { clock, random, signal, log, what });
    if (table === null) return;
    const value = create(DatabaseTableSchema, table);
    const bytes = Buffer.from(toBinary(DatabaseTableSchema, value));
    if (told !== null && bytes.equals(told)) return;
    send({ message: { case: "databaseTable", value } }, bytes.byteLength);
    told = bytes;
    known = new Set(table.entries.map(({ databaseId }) => databaseId));
    log.info({ nodeId, databases: table.entries.length, gone: table.goneIds.length }, "table of databases sent");
  }

  return {
    wake: wake.signal,
    hear(news) {
      if (news === null || news.nodeId === nodeId || known.has(news.databaseId) || options.uses(news.projectId)) {
        wake.signal();
      }
    },
    async run() {
      while (!signal.aborted) {
        await tell();
        await pause(clock, restMs, signal);
        await wake.wait(lookAgainMs, signal);
      }
    },
  };
}
