// @pure
import { create } from "@bufbuild/protobuf";
import { RunPhase, type RunStatus, RunStatusSchema } from "@svc/proto/node";
import type { Container } from "../engine/engine.ts";
import type { OomScope } from "../engine/oom-scope.ts";
import type { RunRecord } from "../journal/records.ts";
import { type Gate, heldBack } from "./gate.ts";
import type { RunEvent } from "./transitions.ts";

/** What a shell, and the engine's own first process, says of a command that it could not start. */
export const commandNotStarted = 127;

/** What is known for certain of an attempt; null while there is nothing to tell. */
export function toStatus({ offer, state, gate: _, startedIn: __, ...rest }: RunRecord): RunStatus | null {
  const phases = {
    offer: null,
    intent: null,
    // Not before the engine has confirmed it.
    "start-sent": rest.startedAt === "" ? null : RunPhase.STARTED,
    exit: RunPhase.EXITED,
    tombstone: RunPhase.NOT_STARTED,
    indeterminate: RunPhase.INDETERMINATE,
  } as const;
  const phase = phases[state];
  return phase === null ? null : create(RunStatusSchema, { attemptId: offer.attemptId, phase, ...rest });
}

const outOfMemory: Readonly<Record<OomScope, string>> = {
  limit: "The command was killed because it used more memory than the plan allows.",
  machine: "The command was killed for want of memory on the platform's machine. Try again, or tell the administrator.",
  unknown: "The command was killed for want of memory.",
};

const noShell = "The command could not be started: commands are run by /bin/sh, which the image does not have.";
const notClaimed = "The command was not run, since its container could not write to the disk.";

/** Why the engine would not start a container. Nothing in it has run. */
export function refusalOf(reason: string, at: string): RunEvent {
  const message = /\/bin\/sh.*no such file/.test(reason)
    ? noShell
    : `The command could not be started: ${reason.slice(0, 500)}`;
  return { kind: "ended", exitCode: commandNotStarted, at, message };
}

/** How an attempt ended whose container has. */
export function exitOf(
  { exitCode, oomKilled, oomScope, finishedAt }: Container,
  { overflowMb }: RunRecord,
  gate: Gate,
  now: Date,
): RunEvent {
  const message =
    overflowMb !== undefined && exitCode !== 0
      ? `The command was ended because it wrote more than the ${overflowMb} MB of disk that the plan allows.`
      : oomKilled
        ? outOfMemory[oomScope]
        : // Nobody came to the gate: what ended is not the command.
          gate !== "open"
          ? ""
          : exitCode === commandNotStarted
            ? noShell
            : exitCode === heldBack
              ? notClaimed
              : "";
  return { kind: "ended", exitCode, at: finishedAt ?? now.toISOString(), message };
}
