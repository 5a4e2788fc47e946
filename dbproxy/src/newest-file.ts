import { readFile, stat } from "node:fs/promises";
import type { Log } from "./log.ts";

interface FileOptions<T> {
  path: string;
  /** A noun, such as "table". */
  what: string;
  bytesMax: number;
  /** Throws when the text is none, or not to be used. */
  parse(text: string): T;
  use(next: T): void;
  /** Called for each file that is not used. */
  refused?(): void;
  log: Log;
}

/**
 * A look at a file that the agent writes as a whole: hands what is there to `use` when it is another file than before. What
 * cannot be used leaves what is in force as it is.
 */
export function createFileReader<T>(options: FileOptions<T>): () => Promise<void> {
  const { path, what, bytesMax, parse, use, refused = () => {}, log } = options;
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
    if (!(next instanceof Error)) return use(next);
    refused();
    log.error({ what, err: next }, "a file of the agent cannot be used: what is in force stays");
  };
}

/**
 * Likewise of a file that has a higher generation each time: one that is older than what is in force is not used.
 *
 * @param options.inForce null: nothing is
 */
export function createNewestReader<T extends { generation: bigint }>(
  options: FileOptions<T> & { inForce(): bigint | null },
): () => Promise<void> {
  const { parse, inForce, use } = options;
  return createFileReader({
    ...options,
    parse(text) {
      const next = parse(text);
      const current = inForce();
      if (current !== null && next.generation < current)
        throw new Error(`its generation is ${next.generation}, and ${current} is in force`);
      return next;
    },
    use(next) {
      if (next.generation !== inForce()) use(next);
    },
  });
}

/** Changes with the file; null while there is none. */
async function markOf(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null);
  return found === null ? null : `${found.ino} ${found.size} ${found.mtimeNs}`;
}
