import type { Clock, Timer } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Log } from "../log.ts";
import type { Db } from "../stores/db/pool.ts";
import { lastUsedEverySeconds } from "./caller.ts";

/** Notes when keys were last used, soon and together, never in the way of a request. */
export interface LastUsed extends AsyncDisposable {
  /** Has the use of the key written down, unless too many wait already: then its next use is. */
  note(tokenId: string): void;
}

const writeAfterMs = 1_000;
const waitingMax = 10_000;

/** What waits when the process is killed is lost, and noted with the key's next use. */
export function createLastUsed({ clock, db, log }: { clock: Clock; db: Db; log: Log }): LastUsed {
  let waiting = new Set<string>();
  let timer: Timer | null = null;
  let writing: Promise<void> = Promise.resolve();

  async function write(): Promise<void> {
    timer = null;
    const ids = [...waiting];
    waiting = new Set();
    try {
      await writeLastUsed(db, ids);
    } catch (error) {
      log.warn({ err: error, keys: ids.length }, "the last use of keys was not noted");
    }
    if (waiting.size > 0) later();
  }
  function later(): void {
    timer = clock
      .after(writeAfterMs, () => {
        writing = write();
      })
      .unref();
  }

  return {
    note(tokenId) {
      if (waiting.size >= waitingMax) return;
      waiting.add(tokenId);
      if (waiting.size === 1 && timer === null) later();
    },
    async [Symbol.asyncDispose]() {
      await writing;
      if (timer === null) return;
      timer[Symbol.dispose]();
      await write();
    },
  };
}

/** Waits for nobody: a key that is just being revoked, or that another replica notes, is left to them. */
async function writeLastUsed(db: Db, ids: readonly string[]): Promise<void> {
  await sql`update api_token set last_used_at = now() where id in (
      select id from api_token where id = any(${ids}::uuid[])
        and (last_used_at is null or last_used_at < now() - ${lastUsedEverySeconds} * interval '1 second')
      for no key update skip locked)`.execute(db);
}
