import { create } from "@bufbuild/protobuf";
import { clip, type FailureCode, utf8Length, withLastLines } from "@svc/proto";
import { limits } from "@svc/proto/limits";
import { type Failure, FailureSchema } from "@svc/proto/node";
import { fromLastError } from "../logs/last-error.ts";

const messageMaxBytes = limits.errorTextBytesMax;
/** So much of it is left to what the program said, whatever there is to say of it. */
const linesMinBytes = 1024;

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
    message: clip(failure.message, messageMaxBytes),
    ...(failure.exitCode !== undefined && failure.exitCode !== null && { exitCode: failure.exitCode }),
    oomKilled: failure.oomKilled ?? false,
  });
}

/** The reason of a failure, followed by what of the program's last lines tells why; both within what is sent. */
export function withLastError(reason: string, log: readonly string[]): string {
  const bare = clip(reason, messageMaxBytes - linesMinBytes);
  const roomBytes = messageMaxBytes - utf8Length(withLastLines(bare, [""]));
  return withLastLines(bare, fromLastError(log, roomBytes));
}
