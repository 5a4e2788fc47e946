import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import type { DatabaseEngine } from "@svc/proto";
import { CliError } from "../errors.ts";
import { createDefinerFilter } from "./definers.ts";
import { createDumpGuard, DumpRefusal } from "./dump-guard.ts";
import { engineOfDump, isCutOff, isGzip } from "./restore-script.ts";
import { createStatementMeter } from "./statement-meter.ts";

/** A row of a table is a line, and no value is larger than a gigabyte. */
const lineBytesMax = 400 * 1024 * 1024;
const beginningBytes = 4096;
/** The last line of a dump comes with little after it. */
const endBytes = 1024;
/** Each piece of a compressed file goes to another thread and back: of the usual 16 KiB that takes a third more of the processor. */
const pieceBytes = 256 * 1024;

/** Bytes of the SQL in a file, which may be compressed with gzip. A damaged one fails with CLI_INVALID_USAGE. */
export async function* dumpBytes(path: string): AsyncGenerator<Buffer> {
  const file = createReadStream(path, { highWaterMark: pieceBytes });
  if (!(await beginsAsGzip(path))) {
    yield* file as AsyncIterable<Buffer>;
    return;
  }
  const gunzip = createGunzip({ chunkSize: pieceBytes });
  file.on("error", (error) => gunzip.destroy(error));
  try {
    yield* file.pipe(gunzip) as AsyncIterable<Buffer>;
  } catch (cause) {
    throw new CliError("CLI_INVALID_USAGE", `${path} is damaged: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
      hint: "Get it again with `svc db backup download <backupId>`",
    });
  } finally {
    file.destroy();
  }
}

async function beginsAsGzip(path: string): Promise<boolean> {
  await using file = await open(path, "r");
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
  return isGzip(buffer);
}

/** Which engine a dump was written for; null when its beginning does not say. */
export async function dumpEngine(path: string): Promise<DatabaseEngine | null> {
  let beginning = "";
  for await (const chunk of dumpBytes(path)) {
    beginning += chunk.toString("latin1");
    if (beginning.length >= beginningBytes) break;
  }
  return engineOfDump(beginning.slice(0, beginningBytes));
}

/**
 * The lines of a dump of Postgres that psql is given, with their line feeds and every byte as it is. What is no SQL is refused:
 * DATABASE_NOT_READY.
 */
async function* guardedLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const guard = createDumpGuard();
  try {
    for await (const lines of lineBatches(bytes))
      yield Buffer.from(
        lines
          .filter((line) => guard.pass(line))
          .map((line) => `${line}\n`)
          .join(""),
        byteByByte,
      );
    guard.end();
  } catch (thrown) {
    if (!(thrown instanceof DumpRefusal)) throw thrown;
    throw new CliError("DATABASE_NOT_READY", `The dump was not run: it ${thrown.message}`, {
      cause: thrown,
      hint: "Nothing was changed. Only plain SQL dumps are run: `pg_dump --no-owner --no-privileges --encoding=UTF8`",
    });
  }
}

/** Each byte a character: a dump is in the encoding that it names, and what psql takes for SQL is of ASCII. */
const byteByByte = "latin1";

async function* lineBatches(bytes: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  /** Pieces of a line that is yet to end: it is put together once. */
  let pieces: string[] = [];
  let length = 0;
  for await (const chunk of bytes) {
    const [first = "", ...more] = chunk.toString(byteByByte).split("\n");
    pieces.push(first);
    const rest = more.pop();
    if (rest !== undefined) {
      yield [pieces.join(""), ...more];
      pieces = [rest];
      length = 0;
    }
    length += (rest ?? first).length;
    if (length > lineBytesMax) throw new DumpRefusal("has a line that is too long");
  }
  if (length > 0) yield [pieces.join("")];
}

async function* withoutDefiners(path: string): AsyncGenerator<Buffer> {
  const filter = createDefinerFilter();
  for await (const chunk of dumpBytes(path)) yield filter.push(chunk);
  yield filter.end();
}

/**
 * Reads a dump to its end, to find what is wrong with it before anything is run; one that was cut off fails with CLI_INVALID_USAGE.
 * Returns how long its longest statement is on MariaDB.
 */
export async function checkDump(path: string, engine: DatabaseEngine): Promise<{ longestBytes: number }> {
  let beginning = Buffer.alloc(0);
  let end = Buffer.alloc(0);
  const statements = createStatementMeter();
  async function* watched(): AsyncGenerator<Buffer> {
    for await (const chunk of dumpBytes(path)) {
      if (beginning.length < beginningBytes) beginning = Buffer.concat([beginning, chunk.subarray(0, beginningBytes)]);
      end = Buffer.concat([end, chunk.subarray(-endBytes)]).subarray(-endBytes);
      statements.push(chunk);
      yield chunk;
    }
  }
  for await (const _part of engine === "postgres" ? guardedLines(watched()) : watched());
  const texts = { beginning: beginning.toString(byteByByte), end: end.toString(byteByByte) };
  if (isCutOff(engine, texts))
    throw new CliError("CLI_INVALID_USAGE", `${path} is not whole: the line with which a dump ends is not there`, {
      hint: "Nothing was changed. Make the dump again, or get it again with `svc db backup download <backupId>`",
    });
  return { longestBytes: statements.longestBytes() };
}

/** What a client is fed: `before`, and then the dump. */
export function dumpStream(path: string, engine: DatabaseEngine, before: string): Readable {
  async function* all(): AsyncGenerator<string | Buffer> {
    yield before;
    yield* engine === "postgres" ? guardedLines(dumpBytes(path)) : withoutDefiners(path);
  }
  return Readable.from(all(), { objectMode: false });
}
