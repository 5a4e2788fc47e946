import { readFile, stat } from "node:fs/promises";
import type { Log } from "./log.ts";

/** What a file says, and which of all that the agent has written it is. */
interface Numbered {
  generation: bigint;
}

/**
 * A look at a file that the agent writes, as a whole and each time with a higher generation: hands what is new there to `use`. What cannot
 * be read, and what is older than what is in force, leaves that as it is.
 *
 * @param options.what a noun, such as "table"
 * @param options.parse throws when the text is none
 * @param options.inForce null: nothing is
 * @param options.refused called for each file that is not used
 */
export function createNewestReader<T extends Numbered>(options: {
  path: string;
  what: string;
  bytesMax: number;
  parse(text: string): T;
  inForce(): bigint | null;
  use(next: T): void;
  refused?(): void;
  log: Log;
}): () => Promise<void> {
  const { path, what, bytesMax, parse, inForce, use, refused = () => {}, log } = options;
  let seen: string | null = null;

  async function read(): Promise<T | Error> {
    try {
      const bytes = await readFile(path);
      if (bytes.length > bytesMax) throw new Error(`it has more than ${bytesMax} bytes`);
      return parse(bytes.toString("utf8"));
    } catch (cause) {
      return cause instanceof Error ? cause : new Error(String(cause));
    }
  }

  return async () => {
    const mark = await markOf(path);
    if (mark === null || mark === seen) return;
    seen = mark;
    const next = await read();
    const current = inForce();
    const stays = { what, generation: current?.toString() };
    if (next instanceof Error) {
      refused();
      log.error({ ...stays, err: next }, "a file of the agent cannot be read: what is in force stays");
    } else if (current !== null && next.generation < current) {
      refused();
      log.error(
        { ...stays, refused: `${next.generation}` },
        "a file of the agent is an older one: what is in force stays",
      );
    } else if (next.generation !== current) use(next);
  };
}

/** Changes with the file; null while there is none. */
async function markOf(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null);
  return found === null ? null : `${found.ino} ${found.size} ${found.mtimeNs}`;
}
