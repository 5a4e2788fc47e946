import { limits } from "@svc/proto/limits";
import type { LogQuery } from "@svc/proto/node";
import type { Engine } from "../engine/engine.ts";
import { containerName } from "../placements/runner.ts";

/** The answer to a question for the last lines of a container. */
export type LogAnswer = { requestId: string; text: string; lines: number; error: string };

/** Reads the last lines of a placement's container, running or exited. Never throws: trouble is an answer too. */
export async function answerLogQuery(engine: Engine, query: LogQuery): Promise<LogAnswer> {
  const { requestId, placementId } = query;
  try {
    if ((await engine.findContainer(containerName(placementId))) === null) {
      return { requestId, text: "", lines: 0, error: "There is no container to read from." };
    }
    const wanted = Math.min(Math.max(1, query.lines), limits.runtimeLogLinesMax);
    const text = lastBytes(await engine.readLog(containerName(placementId), wanted), limits.logReplyBytesMax);
    return { requestId, text, lines: countLines(text), error: "" };
  } catch {
    return { requestId, text: "", lines: 0, error: "The node could not read the log." };
  }
}

/** Whole lines from the end, within a size. */
export function lastBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= maxBytes) return text;
  const tail = bytes.subarray(bytes.length - maxBytes);
  return tail.subarray(tail.indexOf(0x0a) + 1).toString("utf8");
}

const countLines = (text: string): number => text.split("\n").filter((line) => line !== "").length;
