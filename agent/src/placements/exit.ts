// @pure
import type { FailureCode } from "@svc/proto";
import type { OomScope } from "../engine/oom-scope.ts";

/** How a process ended. */
export interface ProcessEnd {
  exitCode: number;
  oomKilled: boolean;
  oomScope: OomScope;
  /** How much it might write to the disk, when it was ended because it wrote more; 0 otherwise. */
  overflowMb?: number;
}

/**
 * When it ended: before it ever answered, as one of several ends after which it is started again, or as the last of
 * these.
 */
export type EndedWhen = "before-answering" | "restarting" | "given-up";

const signals: Readonly<Record<number, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  3: "SIGQUIT",
  4: "SIGILL",
  5: "SIGTRAP",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  14: "SIGALRM",
  15: "SIGTERM",
};

/** What a shell adds to the number of a signal that ended its child, and an engine to that of its process. */
const signalBase = 128;
const notExecutable = 126;
const notFound = 127;

/** What happened, as the end of a sentence that begins with "it", and what to do about it (may be empty). */
interface Tale {
  how: string;
  hint: string;
}

/** What somebody is told who was killed for want of memory. */
const oomTales: Readonly<Record<OomScope, (memoryMb: number) => Tale>> = {
  limit: (memoryMb) => ({
    how: `was killed because it used more than its ${memoryMb} MB of memory`,
    hint: "Make it use less, or move to a plan with more memory.",
  }),
  machine: (memoryMb) => ({
    how: "was killed for want of memory on the platform's machine",
    hint: `It was within its own ${memoryMb} MB. Tell the administrator if that happens again.`,
  }),
  unknown: (memoryMb) => ({
    how: "was killed for want of memory",
    hint: `It may use ${memoryMb} MB. Make it use less, or move to a plan with more memory.`,
  }),
};

function tell({ exitCode, oomKilled, oomScope, overflowMb = 0 }: ProcessEnd, memoryMb: number): Tale {
  if (overflowMb > 0) {
    return {
      how: `was ended because it wrote more than its ${overflowMb} MB of disk`,
      hint: "What it wrote is gone. Make it write less, keep data elsewhere, or move to a plan with more storage.",
    };
  }
  // A child that was killed for want of memory does not end an app that then ends well.
  if (oomKilled && exitCode !== 0) return oomTales[oomScope](memoryMb);
  if (exitCode === notFound) {
    return {
      how: "ended because a command was not found (exit code 127)",
      hint: "Check start.command in the manifest, or the command of the image.",
    };
  }
  if (exitCode === notExecutable) {
    return {
      how: "ended because it may not execute its command (exit code 126)",
      hint: "Make the file executable (chmod +x), or start it with its interpreter.",
    };
  }
  const signal = signals[exitCode - signalBase];
  if (signal !== undefined) return { how: `was ended by the signal ${signal} (exit code ${exitCode})`, hint: "" };
  if (exitCode !== 0) return { how: `exited with code ${exitCode}`, hint: "" };
  return { how: "exited with code 0", hint: "A web app has to go on running: check start.command in the manifest." };
}

/** Code and message of a process that ended by itself, for the person who deployed. */
export function explainEnd(end: ProcessEnd, memoryMb: number, when: EndedWhen): { code: FailureCode; message: string } {
  const { how, hint } = tell(end, memoryMb);
  const sentence = {
    "before-answering": `The app ${how} before it answered.`,
    restarting: `The app ${how} and is started again.`,
    "given-up": `The app kept ending and is not started any more. The last time it ${how}.`,
  }[when];
  const isMemory = end.oomKilled && end.exitCode !== 0;
  return {
    code: isMemory ? "OUT_OF_MEMORY" : when === "before-answering" ? "START_FAILED" : "CRASH_LOOP",
    message: hint === "" ? sentence : `${sentence} ${hint}`,
  };
}
