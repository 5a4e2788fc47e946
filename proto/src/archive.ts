import { type ArchiveEntry, type ArchiveOptions, createArchiveRules } from "./archive-entries.ts";
import { RefusedArchiveError, show } from "./archive-refusal.ts";
import { createTarReader } from "./tar.ts";

/** One step through an archive: an entry that passed the rules, or a piece of the content of the last one, a file. */
export type ArchivePart = { entry: ArchiveEntry } | { content: Uint8Array };

export interface ArchiveReader {
  /** The parts that `chunk` completes, in their order. Throws RefusedArchiveError. */
  read(chunk: Uint8Array): Generator<ArchivePart>;
  /** To be called when there is no more: throws RefusedArchiveError unless the archive was complete. */
  end(): void;
}

/**
 * Reads an untrusted tar piece by piece and holds every entry against the rules. Who lets an archive in and who
 * unpacks it later both read it with this, so they see the same entries and refuse the same ones.
 *
 * @param maxBytes what all files together may hold
 */
export function createArchiveReader(maxBytes: number, options: ArchiveOptions = {}): ArchiveReader {
  const tar = createTarReader();
  const rules = createArchiveRules(maxBytes, options);
  return {
    *read(chunk) {
      for (const part of tar.read(chunk)) {
        if ("content" in part) {
          yield part;
          continue;
        }
        const verdict = rules(part.header);
        if ("refuse" in verdict) {
          const reason = verdict.tooLarge === true ? "too-large" : "invalid";
          throw new RefusedArchiveError(reason, `${show(part.header.name)} ${verdict.refuse}`);
        }
        if ("keep" in verdict) yield { entry: verdict.keep };
      }
    },
    end: () => tar.end(),
  };
}
