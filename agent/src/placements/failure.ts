import { create } from "@bufbuild/protobuf";
import type { FailureCode } from "@svc/proto";
import { type Failure, FailureSchema } from "@svc/proto/node";

const MESSAGE_MAX_BYTES = 4096;

/** Why a placement cannot go on, in words for the person who deployed. */
export class TaskFailure extends Error {
  override name = "TaskFailure";
  readonly code: FailureCode;
  /** Another try may help. */
  readonly isTransient: boolean;
  /** Null when no process ended by itself. */
  readonly exitCode: number | null;

  constructor(
    code: FailureCode,
    message: string,
    options: { isTransient?: boolean; exitCode?: number | null; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.isTransient = options.isTransient ?? false;
    this.exitCode = options.exitCode ?? null;
  }
}

/** The wire form of a failure, its message cut to 4 KiB. */
export function toFailure(failure: {
  code: FailureCode;
  message: string;
  exitCode?: number | null;
  oomKilled?: boolean;
}): Failure {
  return create(FailureSchema, {
    code: failure.code,
    message: cutText(failure.message, MESSAGE_MAX_BYTES),
    ...(failure.exitCode !== undefined && failure.exitCode !== null && { exitCode: failure.exitCode }),
    oomKilled: failure.oomKilled ?? false,
  });
}

/** At most `maxBytes` of UTF-8 from the front, never half a character. */
export function cutText(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= maxBytes) return text;
  let end = maxBytes - 3;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${bytes.subarray(0, end).toString("utf8")}…`;
}

/** `text` followed by the last lines of a log, for messages that should explain themselves. */
export function withLastLines(text: string, log: string, lines = 15): string {
  const last = log
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .slice(-lines);
  if (last.length === 0) return text;
  // The end of a log says more than its beginning, so the cut is made in front.
  const tail = Buffer.from(last.join("\n"), "utf8")
    .subarray(-(MESSAGE_MAX_BYTES - 600))
    .toString("utf8");
  return `${text} Last lines:\n${tail.replace(/^\uFFFD+/, "")}`;
}
