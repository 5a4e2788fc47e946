import { type Duplex, Readable } from "node:stream";
import { limits } from "@svc/proto/limits";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { createLimiter } from "@svc/runtime/limiter";
import type { Log } from "../../../log.ts";
import { Refused } from "../../../stores/refused.ts";
import { type Child, ChildLost, startChild } from "./child.ts";
import { createFrameReader, endFrame, frameBytesMax, frameOf } from "./frames.ts";
import { type Asked, requestShapes } from "./requests.ts";
import type { SqlTarget, Timed } from "./runner.ts";

/** At once, each with a child of its own of some 80 MB; those of one owner. */
const places = { total: 6, perKey: 2 };
/** How many wait for a place, and for how long: one that ends takes a moment to give its place back. */
const waiters = { total: 16, perKey: 4 };
const placeMs = 5_000;
const startMs = 30_000;
const connectMs = 5_000;
/** What a server says to an import. */
const importAnswerBytesMax = 8 * 1024 * 1024;

export interface Transfers {
  /**
   * The rows of a table, as they come. It errors where they break off: what was read until then is not all. Throws TABLE_NOT_FOUND,
   * RATE_LIMITED, DATABASE_NOT_READY and QUERY_ERROR. `signal`: nobody waits for it any more, which ends it at any point.
   */
  exportTable(target: SqlTarget, asked: Asked<"export">, signal: AbortSignal): Promise<Readable>;
  /**
   * Inserts all rows of a CSV or none: none also when `csv` throws, with what it throws. Otherwise throws as `exportTable`, and
   * COLUMN_NOT_FOUND and INVALID_BODY for its first line.
   */
  importTable(
    target: SqlTarget,
    asked: Asked<"import">,
    csv: AsyncIterable<Buffer>,
  ): Promise<Timed<{ rowCount: number }>>;
}

const tooLong = () =>
  new Refused("QUERY_ERROR", `It took longer than ${limits.tableTransferMs / 60_000} minutes and was ended.`);

/** Of an import: whether its client is there is told by the body. */
const never = AbortSignal.any([]);

/** Exports and imports of tables. Each has a child process of its own, which ends with it. */
export function createTransfers({ clock, log }: { clock: Clock; log: Log }): Transfers {
  const limiter = createLimiter(places, waiters);

  /** A place until it is disposed. */
  async function takePlace(key: string, signal: AbortSignal): Promise<Disposable> {
    const taken = Promise.withResolvers<void>();
    const given = Promise.withResolvers<void>();
    const hold = async () => {
      taken.resolve();
      await given.promise;
    };
    limiter(hold, { key, signal: AbortSignal.any([clock.abortAfter(placeMs), signal]) }).catch(taken.reject);
    await taken.promise.catch((cause: unknown) => {
      throw new Refused("RATE_LIMITED", "Too many tables are exported or imported now. Try again later.", { cause });
    });
    return { [Symbol.dispose]: given.resolve };
  }

  /** A child that is connected to the server, and the end of both in the hands of whoever asked. */
  async function begin(target: SqlTarget, name: "export" | "import", asked: unknown, signal: AbortSignal) {
    const { tenant, projectId, ownerId } = target;
    if (tenant === null || ownerId === null) throw new Error(`${name} needs a tenant`);
    await using stack = new AsyncDisposableStack();
    stack.use(await takePlace(ownerId, signal));
    const child = startChild({ transfers: true });
    stack.defer(() => child.kill());
    // Whatever is waited for below is refused once there is no child.
    const abort = (): void => void child.kill();
    signal.addEventListener("abort", abort, { once: true });
    stack.defer(() => signal.removeEventListener("abort", abort));
    if (signal.aborted) abort();
    if (!(await within(clock, startMs, child.idle(), () => false))) throw notNow();
    const line = await target
      .openLine(AbortSignal.any([clock.abortAfter(connectMs), signal]))
      .catch((cause: unknown) => {
        throw notNow(cause);
      });
    line.on("error", () => {});
    stack.defer(() => void line.destroy());
    const connected = Promise.withResolvers<void>();
    const task = { engine: target.engine, login: tenant, name, asked };
    const bytesMax = name === "export" ? Number.POSITIVE_INFINITY : importAnswerBytesMax;
    const answer = child.use({ task, line, bytesMax, onConnected: () => connected.resolve() });
    answer.catch(() => {}).finally(connected.resolve);
    await within(clock, connectMs, connected.promise, () => {
      throw notNow();
    });
    return { child, answer: answer.catch((error) => brokeOff(error, projectId)), held: stack.move() };
  }

  function brokeOff(error: unknown, projectId: string): never {
    if (!(error instanceof ChildLost)) throw error;
    log.warn({ err: error, projectId }, "a child of a transfer was lost");
    throw new Refused("QUERY_ERROR", "The connection to the database broke off.", { cause: error });
  }

  return {
    async exportTable(target, asked, signal) {
      const { child, answer, held } = await begin(target, "export", asked, signal);
      const began = Promise.withResolvers<void>();
      const stream = readFrames(transferOf(child), {
        onFirst: began.resolve,
        onClose: () => void held.disposeAsync(),
      });
      const late = clock.after(limits.tableTransferMs, () => stream.destroy(tooLong()));
      stream.once("close", () => late[Symbol.dispose]());
      const outcome = answer.then((said) => {
        if (said.says === "refused") throw new Refused(said.code, said.message);
      });
      outcome.then(
        () => stream.push(null),
        (error: Error) => stream.destroy(error),
      );
      stream.on("error", () => {});
      // A refusal is told as one as long as nothing was written.
      await Promise.race([outcome, began.promise]);
      return stream;
    },

    async importTable(target, asked, csv) {
      const { child, answer, held } = await begin(target, "import", asked, never);
      await using _held = held;
      answer.catch(() => {});
      // A refusal may come before all of it was sent.
      const sent = writeFrames(transferOf(child), csv).then(() => answer);
      const said = await within(clock, limits.tableTransferMs, Promise.race([answer, sent]), () => {
        throw tooLong();
      });
      if (said.says === "refused") throw new Refused(said.code, said.message);
      const { rowCount } = requestShapes.import.gives.parse(said.given);
      return { given: { rowCount }, durationMs: said.durationMs };
    },
  };
}

const notNow = (cause?: unknown) =>
  new Refused("DATABASE_NOT_READY", "The database does not answer at the moment. Try again shortly.", { cause });

function transferOf({ transfer }: Child): Duplex {
  if (transfer === null) throw new Error("a child was not started for a transfer");
  return transfer;
}

/** What a child writes, no faster than it is read. Its end is whoever asked's to tell. `onClose`: nobody reads it any more. */
function readFrames(pipe: Duplex, { onFirst, onClose }: { onFirst(): void; onClose(): void }): Readable {
  const stream = new Readable({
    read: () => void pipe.resume(),
    destroy(error, done) {
      onClose();
      done(error);
    },
  });
  const read = createFrameReader({
    bytes(chunk) {
      onFirst();
      if (!stream.destroyed && !stream.push(chunk)) pipe.pause();
    },
    // The child waits for this side, and then answers.
    end: () => void pipe.write(endFrame),
  });
  pipe.on("data", (chunk: Buffer) => {
    try {
      read(chunk);
    } catch (error) {
      stream.destroy(error as Error);
    }
  });
  return stream;
}

/** Sends what `bytes` brings, and its end only once it has ended by itself: the child takes nothing else for one. */
async function writeFrames(pipe: Duplex, bytes: AsyncIterable<Buffer>): Promise<void> {
  // It has nothing to say, but that it is done.
  pipe.resume();
  for await (const chunk of bytes) {
    for (let at = 0; at < chunk.length; at += frameBytesMax) {
      const [header, payload] = frameOf(chunk.subarray(at, at + frameBytesMax));
      pipe.write(header);
      // Also once there is nobody to take it.
      await new Promise<void>((resolve) => pipe.write(payload, () => resolve()));
    }
    if (pipe.destroyed) return;
  }
  if (!pipe.destroyed) pipe.write(endFrame);
}
