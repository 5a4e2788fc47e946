import { type FileHandle, open } from "node:fs/promises";

/** One file for all simulated daemons of a process. */
export interface Journal extends AsyncDisposable {
  /** On disk when it resolves. */
  write(record: Uint8Array): Promise<void>;
}

/**
 * A real agent has a disk of its own and syncs each assignment. Thousands of them on one disk would measure that disk, so
 * what arrives while a sync is under way shares the next one; nothing is answered before it is synced.
 */
export async function openJournal(path: string): Promise<Journal> {
  const file: FileHandle = await open(path, "a", 0o600);
  let waiting: { record: Uint8Array; done: () => void; failed: (cause: unknown) => void }[] = [];
  let syncing: Promise<void> | null = null;

  async function syncAll(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      try {
        await file.write(Buffer.concat(batch.map(({ record }) => record)));
        await file.datasync();
        for (const { done } of batch) done();
      } catch (cause) {
        for (const { failed } of batch) failed(cause);
      }
    }
    syncing = null;
  }

  return {
    write: (record) =>
      new Promise((done, failed) => {
        waiting.push({ record, done, failed });
        syncing ??= syncAll();
      }),
    async [Symbol.asyncDispose]() {
      await syncing;
      await file.close();
    },
  };
}
