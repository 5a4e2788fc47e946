import { limits } from "@svc/proto/limits";
import { Desired, type LogQuery, LogState } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import type { Container, Engine } from "../engine/engine.ts";
import type { PlacementRecord } from "../journal/records.ts";
import { explainEnd } from "../placements/exit.ts";
import { containerName } from "../placements/names.ts";
import { countLines, lastBytes, lastLines } from "./last-lines.ts";
import type { Exit, Tails } from "./tails.ts";

/** The answer to a question for the last lines of a container. `exit` only of one that ended by itself. */
export interface LogAnswer {
  requestId: string;
  text: string;
  lines: number;
  error: string;
  state: LogState;
  exit?: { code?: number; oomKilled: boolean; reason: string; at: string };
}

/** Never throws: trouble is an answer too. */
export type LogAnswers = (query: LogQuery, signal: AbortSignal) => Promise<LogAnswer>;

/** Each may take megabytes while it is read. */
const atOnce = 4;
/** Whoever asked has given up by then. */
const waitMaxMs = 15_000;

/** Reads the last lines of a placement's container: as the engine has them, or what was kept of one that is gone. */
export function createLogAnswers(options: {
  clock: Clock;
  engine: Engine;
  tails: Pick<Tails, "find">;
  find(placementId: string): PlacementRecord | null;
}): LogAnswers {
  const { clock, engine, tails } = options;
  const inTurn = createLimiter({ total: atOnce });

  const read = async ({ requestId, placementId, lines }: LogQuery): Promise<LogAnswer> => {
    const wanted = Math.min(Math.max(1, lines), limits.runtimeLogLinesMax);
    const answer = (state: LogState, text: string, exit: Exit | null): LogAnswer => {
      const whole = lastBytes(text, limits.logReplyBytesMax);
      const known = { requestId, state, text: whole, lines: countLines(whole), error: "" };
      return exit === null ? known : { ...known, exit: toWire(exit) };
    };
    const container = await engine.findContainer(containerName(placementId));
    if (container?.state === "running") {
      return answer(LogState.RUNNING, await engine.readLog(container.name, wanted), null);
    }
    const tail = await tails.find(placementId);
    if (container === null) {
      const nothing = { requestId, text: "", lines: 0, error: "There is no container to read from." };
      if (tail === null) return { ...nothing, state: LogState.ABSENT };
      return answer(LogState.EXITED, lastLines(tail.text, wanted, limits.logReplyBytesMax), tail.exit);
    }
    const exit = tail?.exit ?? unnoticed(container, options.find(placementId));
    return answer(LogState.EXITED, await engine.readLog(container.name, wanted), exit);
  };

  return async (query, signal) => {
    try {
      return await inTurn(() => read(query), { signal: AbortSignal.any([signal, clock.abortAfter(waitMaxMs)]) });
    } catch {
      const error = "The node could not read the log.";
      return { requestId: query.requestId, text: "", lines: 0, error, state: LogState.UNSPECIFIED };
    }
  };
}

/** The end of a container that nobody has looked at yet; null of one that was told to stop, or never ran. */
function unnoticed(
  { id, state, exitCode, oomKilled, oomScope, finishedAt }: Container,
  record: PlacementRecord | null,
): Exit | null {
  if (state !== "exited" || finishedAt === null || record === null) return null;
  const { desired, resources } = record.placement;
  const { overflowOf, overflowMb } = record.memory;
  if (desired !== Desired.RUNNING) return null;
  const when = record.memory.wasHealthy ? "restarting" : "before-answering";
  const { message } = explainEnd(
    { exitCode, oomKilled, oomScope, overflowMb: overflowOf === id ? overflowMb : 0 },
    resources?.memoryMb ?? 0,
    when,
  );
  return { code: exitCode, oomKilled, reason: message, at: finishedAt };
}

const toWire = ({ code, ...exit }: Exit): NonNullable<LogAnswer["exit"]> => (code === null ? exit : { ...exit, code });
