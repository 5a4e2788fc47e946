import { RegistryError } from "@svc/registry";
import { isEngineTrouble } from "../engine/errors.ts";
import { TaskFailure, withLastLines } from "../placements/failure.ts";
import type { BuildProgress } from "./progress.ts";

/** Turns what a registry call threw into a failure of the task. */
export function fromRegistry(cause: unknown): unknown {
  if (!(cause instanceof RegistryError)) return cause;
  switch (cause.code) {
    case "ARTIFACT_NOT_FOUND":
      return new TaskFailure(
        "ARTIFACT_NOT_FOUND",
        "The uploaded source is not in the registry any more. Deploy again.",
        { cause },
      );
    case "ARTIFACT_DIGEST_MISMATCH":
      return new TaskFailure("ARTIFACT_DIGEST_MISMATCH", "The artifact does not match its digest. Deploy again.", {
        cause,
      });
    case "ARTIFACT_TOO_LARGE":
      return new TaskFailure("ARTIFACT_TOO_LARGE", "The artifact is larger than is allowed.", { cause });
    default:
      return new TaskFailure(
        "ARTIFACT_REGISTRY_UNAVAILABLE",
        "The artifact registry does not answer. Try again when it is back.",
        {
          isTransient: true,
          cause,
        },
      );
  }
}

/** What a failed build says to the person who deployed: the step, why, and its last lines. */
export function fromBuild(cause: unknown, progress: BuildProgress, output: string | null): unknown {
  if (isEngineTrouble(cause)) return cause;
  const failed = progress.failed();
  const text = failed?.error ?? (cause instanceof Error ? cause.message : String(cause));
  if (output !== null && /not found/.test(text) && text.includes(`/${output}"`)) {
    return new TaskFailure(
      "BUILD_OUTPUT_MISSING",
      `The build made no directory "${output}". Check build.output in the manifest.`,
      { cause },
    );
  }
  const exitCode = /exit code: (\d{1,3})/.exec(text)?.[1];
  const why = exitCode === undefined ? text.slice(0, 500) : describeExit(Number(exitCode));
  const message = failed === null ? `The build failed: ${why}` : `The step "${failed.step}" failed: ${why}.`;
  return new TaskFailure("BUILD_FAILED", withLastLines(message, failed?.lastLines.join("\n") ?? ""), {
    exitCode: exitCode === undefined ? null : Number(exitCode),
    cause,
  });
}

const describeExit = (exitCode: number): string =>
  exitCode === 137 ? "it was killed, perhaps for want of memory (exit code 137)" : `exit code ${exitCode}`;
