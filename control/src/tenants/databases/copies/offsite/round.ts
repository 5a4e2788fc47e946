import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { BucketError } from "../../../../stores/s3/errors.ts";
import { CannotOpen } from "../../../../stores/secrets.ts";
import { NodeFilesUnavailable, nodeFiles, type OpenCopyFiles } from "./node-files.ts";
import { manifestNameOf, objectName } from "./objects.ts";
import { type ShipDeps, shipCopy } from "./ship.ts";
import {
  findDueCopy,
  forgetObject,
  forgetOffsite,
  giveUpOffsite,
  listEmptyOffsite,
  listUselessObjects,
  provideOffsite,
  touch,
} from "./store.ts";

export interface OffsiteCopiesDeps extends ShipDeps {
  clock: Clock;
  openCopyFiles: OpenCopyFiles;
}

/** What brings copies into the bucket. */
export interface OffsiteCopies {
  /** Brings what is due there, one copy after the other, until none is. Several at once each take others. */
  ship(signal: AbortSignal): Promise<void>;
  /** Deletes there what is of no use any more. Returns how many objects. */
  tidy(signal: AbortSignal): Promise<number>;
}

/** What is expected of a bucket, a node, or what lies there; anything else is a mistake of ours. */
export const isExpected = (error: unknown): error is Error =>
  error instanceof BucketError || error instanceof NodeFilesUnavailable || error instanceof CannotOpen;

const removalsAtOnce = 8;

export function createOffsiteCopies(deps: OffsiteCopiesDeps): OffsiteCopies {
  const { db, bucket, log } = deps;
  const busy = new Set<string>();
  const takeTurns = createLimiter({ total: 1 });

  const claim = () =>
    takeTurns(async () => {
      const copy = await findDueCopy(db, bucket.place, [...busy]);
      if (copy !== null) busy.add(copy.id);
      return copy;
    });

  return {
    async ship(signal) {
      for (;;) {
        signal.throwIfAborted();
        const copy = await claim();
        if (copy === null) return;
        try {
          await shipCopy(deps, copy, nodeFiles(deps, { nodeId: copy.node_id, copyId: copy.id }), signal);
        } catch (error) {
          if (!isExpected(error)) throw error;
          const { offsite } = await provideOffsite(deps, copy, bucket.place);
          await touch(db, offsite.id, error.message);
          log.warn({ err: error, copyId: copy.id, databaseId: copy.database_id }, "a copy could not be put off-site");
        } finally {
          busy.delete(copy.id);
        }
      }
    },

    async tidy(signal) {
      await giveUpOffsite(db, bucket.place);
      const useless = await listUselessObjects(db, bucket.place);
      let removed = 0;
      for (let from = 0; from < useless.length; from += removalsAtOnce) {
        const some = useless.slice(from, from + removalsAtOnce);
        await Promise.all(
          some.map(async ({ id, offsite_copy_id }) => {
            try {
              await bucket.remove(objectName(offsite_copy_id, id), signal);
              await forgetObject(db, id);
              removed += 1;
            } catch (error) {
              if (!isExpected(error)) throw error;
              log.warn({ err: error, offsiteId: offsite_copy_id }, "an object of no use could not be deleted off-site");
            }
          }),
        );
      }
      for (const { id } of await listEmptyOffsite(db, bucket.place)) {
        await bucket.remove(manifestNameOf(id), signal);
        await forgetOffsite(db, id);
      }
      return removed;
    },
  };
}
