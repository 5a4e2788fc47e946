import type { Duplex } from "node:stream";
import type { DatabaseEngine } from "@svc/proto";
import { limits } from "@svc/proto/limits";
import type { Clock } from "@svc/runtime/clock";
import { within } from "@svc/runtime/deadline";
import { createLimiter, LimiterFull } from "@svc/runtime/limiter";
import type { Log } from "../../../log.ts";
import { Refused } from "../../../stores/refused.ts";
import { AnswerTooLarge, type Child, type ChildAnswer, ChildLost, type ChildUse } from "./child.ts";
import { createPool } from "./pool.ts";
import { type Asked, type Given, isAdminRequest, type Login, type RequestName, requestShapes } from "./requests.ts";

/** Children at once, each of some 80 MB; those of one owner; and how many requests wait. */
const bounds = { total: 8, perKey: 3 };
const waiters = { total: 1_024, perKey: 128 };
/** The same of the platform's own requests, of which one branch may have several. Workers bound how many wait. */
const ownBounds = { total: 6, perKey: 3 };
/** Statements that are being ended at once. They never wait for those that they end. */
const endingsAtOnce = 4;
const spareChildrenMax = 4;
/** Of children that are lost before the server heard of a request: all that wait may have ended, and nobody has noticed. */
const triesMax = spareChildrenMax + 1;

/** Until a server has let us in. */
const connectMs = 5_000;
/** From calling a statement off to ending its session, and from there to giving the line up. */
const graceMs = 500;
const giveUpMs = 1_000;
/** The platform's own requests: a server flushes files to make a database, or waits for sessions that end. */
const adminMs = 60_000;

const bytesMax = { query: 8 * 1024 * 1024, schema: 16 * 1024 * 1024 };
const bytesMaxOf = (name: RequestName): number => (name === "schema" ? bytesMax.schema : bytesMax.query);

/** Whose server is asked, and as whom. */
export interface SqlTarget {
  projectId: string;
  /** On whose behalf: requests about all of an owner's projects share the room of one. Null: the platform's own. */
  ownerId: string | null;
  engine: DatabaseEngine;
  /** Opens a byte stream to the server. */
  openLine(signal: AbortSignal): Promise<Duplex>;
  /** Of the tenant's role; null where only the platform's own requests are made. */
  tenant: Login | null;
  /** Of the platform's own user. */
  admin: Login;
}

export interface SqlRunner extends AsyncDisposable {
  /**
   * Does one request on a connection of its own. Throws `Refused`: QUERY_ERROR with the engine's own words, or when it took
   * longer than 10 s, sent too much or broke off; DATABASE_NOT_READY when nobody is let in, as `KeptOut` when the server says so;
   * RATE_LIMITED when too many wait; and what the request's own rules say. With `signal` whoever asked is gone: what waits for its
   * turn is not done any more, and rejects with its reason.
   */
  ask<N extends RequestName>(
    target: SqlTarget,
    name: N,
    asked: Asked<N>,
    signal?: AbortSignal,
  ): Promise<Timed<Given<N>>>;
}

/** The server is there, and refuses the login itself. */
export class KeptOut extends Refused {}

export interface Timed<T> {
  given: T;
  /** What the server took. */
  durationMs: number;
}

const tooSlow = (longestMs: number) =>
  new Refused(
    "QUERY_ERROR",
    `It took longer than ${longestMs / 1_000} s and was ended. What it had committed by then stands.`,
  );
const tooLarge = (name: RequestName) =>
  new Refused(
    "QUERY_ERROR",
    `The answer is larger than ${bytesMaxOf(name) / 1024 ** 2} MiB. Ask for fewer columns or rows, such as with LIMIT, or for parts of long values.`,
  );
const brokeOff = (cause: unknown) =>
  new Refused("QUERY_ERROR", "The connection to the database broke off before it had answered.", { cause });

/** Runs SQL on branches' servers in child processes, so that nothing that a server sends is ever read in this one. */
export function createSqlRunner({ clock, log }: { clock: Clock; log: Log }): SqlRunner {
  const pool = createPool(clock, spareChildrenMax);
  const ofOwners = createLimiter(bounds, waiters);
  const ownTurns = createLimiter(ownBounds, { total: waiters.total });
  const endings = createLimiter({ total: endingsAtOnce }, { total: waiters.total });
  const closing = new AbortController();

  async function openLine(target: SqlTarget): Promise<Duplex> {
    const signal = AbortSignal.any([clock.abortAfter(connectMs), closing.signal]);
    try {
      return await target.openLine(signal);
    } catch (cause) {
      throw new Refused("DATABASE_NOT_READY", "The database does not answer at the moment. Try again shortly.", {
        cause,
      });
    }
  }

  /** Ends a session by the platform's own user. What fails here fails for the statement, too, whose line is given up next. */
  async function endSession(target: SqlTarget, role: string, sessionId: number): Promise<void> {
    const asked = { role, sessionId, graceMs };
    try {
      const said = await endings(() => converse(target, "endSession", asked));
      if (said.says === "refused") throw new Error(said.message);
    } catch (error) {
      log.warn({ err: error, projectId: target.projectId }, "a session of a database could not be ended");
    }
  }

  /** One request, by another child when one was lost before the server heard of it. */
  async function converse<N extends RequestName>(target: SqlTarget, name: N, asked: Asked<N>): Promise<ChildAnswer> {
    for (let tried = 1; ; tried += 1) {
      try {
        return await converseOnce(target, name, asked);
      } catch (error) {
        if (!(error instanceof ChildLost && error.isUnheard) || tried >= triesMax) throw error;
      }
    }
  }

  /** Within its time, with a child that is not used again unless it answered. */
  async function converseOnce<N extends RequestName>(
    target: SqlTarget,
    name: N,
    asked: Asked<N>,
  ): Promise<ChildAnswer> {
    const login = isAdminRequest(name) ? target.admin : target.tenant;
    if (login === null) throw new Error(`${name} needs the tenant's login`);
    return await pool.withChild(async (child) => {
      // Only now: a server does not wait long for a login.
      const line = await openLine(target);
      line.on("error", () => {});
      try {
        const task = { engine: target.engine, login, name, asked };
        return await answerOf(child, target, { task, line, bytesMax: bytesMaxOf(name) });
      } finally {
        line.destroy();
      }
    });
  }

  async function answerOf(child: Child, target: SqlTarget, use: Omit<ChildUse, "onConnected">): Promise<ChildAnswer> {
    const connected = Promise.withResolvers<number | null>();
    const answer = child.use({ ...use, onConnected: connected.resolve }).finally(() => connected.resolve(null));
    answer.catch(() => {});
    const sessionId = await within(clock, connectMs, connected.promise, () => {
      throw new Refused("DATABASE_NOT_READY", "The database did not let us in in time. Try again shortly.");
    });
    const { name, login } = use.task;
    if (sessionId === null || isAdminRequest(name)) {
      return await within(clock, adminMs, answer, () => {
        throw tooSlow(adminMs);
      });
    }
    const ending = new AbortController();
    using _ = clock.after(limits.studioStatementMs, () => {
      ending.abort();
      void endSession(target, login.user, sessionId);
    });
    const said = await within(clock, limits.studioStatementMs + graceMs + giveUpMs, answer, () => {
      throw tooSlow(limits.studioStatementMs);
    }).catch((error: unknown) => {
      // The end of a session may take its child along.
      throw ending.signal.aborted ? tooSlow(limits.studioStatementMs) : error;
    });
    // However it ended then: some statements answer as if nothing had been when they are called off.
    if (ending.signal.aborted) throw tooSlow(limits.studioStatementMs);
    return said;
  }

  return {
    async ask(target, name, asked, gone) {
      try {
        const { ownerId, projectId } = target;
        const inTurn = ownerId === null ? ownTurns : ofOwners;
        const signal = gone === undefined ? closing.signal : AbortSignal.any([closing.signal, gone]);
        const turn = { key: ownerId ?? projectId, signal };
        const said = await inTurn(() => converse(target, name, asked), turn);
        if (said.says === "refused") {
          throw new (said.code === "DATABASE_NOT_READY" ? KeptOut : Refused)(said.code, said.message);
        }
        const given = requestShapes[name].gives.safeParse(said.given);
        if (!given.success) throw new ChildLost("a child gave what was not asked for", { cause: given.error });
        return { given: given.data as Given<typeof name>, durationMs: said.durationMs };
      } catch (error) {
        if (error instanceof AnswerTooLarge) throw tooLarge(name);
        if (error instanceof LimiterFull) {
          throw new Refused("RATE_LIMITED", "Too many statements for databases wait now. Try again in a moment.");
        }
        if (!(error instanceof ChildLost)) throw error;
        log.warn({ err: error, projectId: target.projectId, request: name }, "a child of the database runner was lost");
        throw brokeOff(error);
      }
    },
    async [Symbol.asyncDispose]() {
      closing.abort(new Error("control stops"));
      await pool[Symbol.asyncDispose]();
    },
  };
}
