import { RegistryError } from "@svc/registry";
import { isEngineTrouble } from "../engine/errors.ts";
import type { OomScope } from "../engine/oom-scope.ts";
import { TaskFailure, withLastError } from "../placements/failure.ts";
import { hitFileLimit } from "./file-limit.ts";
import type { BuildProgress, FailedStep } from "./progress.ts";
import type { StepLimits } from "./step-limits.ts";

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

/** What is known of a build that failed, besides what its steps said. */
export interface BuildCircumstances {
  /** Directory of a site that the build was to make; null for an image. */
  output: string | null;
  /** The user's line for each line of the Dockerfile that was built; null when it was generated. */
  lines: readonly number[] | null;
  limits: StepLimits;
  /** What the kernel had to do to keep the limits. */
  pressure: { outOfMemory: OomScope | null; outOfProcesses: boolean };
}

/** What a failed build says to the person who deployed: the step, why, what to do, and its last lines. */
export function fromBuild(cause: unknown, progress: BuildProgress, known: BuildCircumstances): unknown {
  if (isEngineTrouble(cause)) return cause;
  const failed = progress.failed();
  const text = failed?.error ?? (cause instanceof Error ? cause.message : String(cause));
  const fail = (
    message: string,
    code: "BUILD_FAILED" | "OUT_OF_MEMORY" = "BUILD_FAILED",
    exitCode: number | null = null,
  ) => new TaskFailure(code, withLastError(message, failed?.lastLines ?? []), { exitCode, cause });

  if (/no space left on device/.test(text)) {
    return new TaskFailure(
      "NODE_TASK_FAILED",
      "The disk of the platform's machine is full. Try again later, or tell the administrator.",
      {
        cause,
      },
    );
  }
  const missing = missingFile(text);
  if (missing !== null && known.output !== null && `/${missing}`.endsWith(`/${known.output}`)) {
    return new TaskFailure(
      "BUILD_OUTPUT_MISSING",
      `The build made no directory "${known.output}". Check build.output in the manifest.`,
      { cause },
    );
  }
  if (failed === null) return fail(explainParser(text, known.lines) ?? `The build failed: ${text.slice(0, 500)}`);
  const where = `The step "${failed.step}" failed`;
  if (missing !== null) return fail(`${where}: there is no "${missing}" ${whereFrom(failed)}`);
  const exitCode = exitCodeOf(text);
  if (exitCode === null) return fail(`${where}: ${text.slice(0, 500)}.`);
  const { storageMb } = known.limits;
  if (storageMb > 0 && hitFileLimit(exitCode, failed.lastLines)) return wroteTooMuch(storageMb, progress);
  if (known.pressure.outOfMemory === "machine") {
    const message = `${where}: the platform's machine was out of memory. Try again later, or tell the administrator.`;
    return fail(message, "OUT_OF_MEMORY", exitCode);
  }
  if (known.pressure.outOfMemory !== null) {
    return fail(
      `${where}: out of memory. A build may use ${known.limits.memoryMb} MB; make this step need less, or build elsewhere and deploy the result.`,
      "OUT_OF_MEMORY",
      exitCode,
    );
  }
  if (known.pressure.outOfProcesses) {
    return fail(
      `${where}: exit code ${exitCode}. The build reached its limit of ${known.limits.pidsLimit} processes and threads; let it do less at once.`,
      "BUILD_FAILED",
      exitCode,
    );
  }
  return fail(
    `${where}: ${exitCode === 137 ? "it was killed (exit code 137)" : `exit code ${exitCode}`}.`,
    "BUILD_FAILED",
    exitCode,
  );
}

/** What a build says that ran out of time. */
export function timedOut(timeoutSeconds: number, progress: BuildProgress): TaskFailure {
  const limit = timeoutSeconds < 60 ? `${timeoutSeconds} seconds` : `${Math.round(timeoutSeconds / 60)} minutes`;
  const running = progress.running();
  const message = `The build took longer than ${limit}${running === null ? "." : ` and was stopped in the step "${running.step}".`}`;
  return new TaskFailure("BUILD_TIMEOUT", withLastError(message, running?.lastLines ?? []));
}

/** What a build says whose steps wrote too much to their output. */
export function saidTooMuch(outputMb: number, progress: BuildProgress): TaskFailure {
  const step = progress.failed() ?? progress.running();
  const where = step === null ? "" : ` and was stopped in the step "${step.step}"`;
  const message = `The steps of the build wrote more than ${outputMb} MB of output${where}. Let them say less.`;
  return new TaskFailure("BUILD_FAILED", withLastError(message, step?.lastLines ?? []));
}

/** What a build says that wrote too much to the disk. */
export function wroteTooMuch(storageMb: number, progress: BuildProgress): TaskFailure {
  const step = progress.failed() ?? progress.running();
  const where = step === null ? "" : ` and was stopped in the step "${step.step}"`;
  const message = `The build wrote more than ${storageMb} MB to the disk${where}. A build may write what its source may unpack to and twice the plan's storage: make it write less, or move to a plan with more storage.`;
  return new TaskFailure("BUILD_FAILED", withLastError(message, step?.lastLines ?? []));
}

/** What the Dockerfile's parser found, with the line as the user counts it; null when it was not the parser. */
function explainParser(text: string, lines: readonly number[] | null): string | null {
  const match = /dockerfile parse error (?:on )?line (\d+): (.+)/is.exec(text);
  if (match === null) return null;
  const line = lines?.[Number(match[1]) - 1] ?? match[1];
  const reason = (match[2] ?? "").trim().replace(/\.$/, "").slice(0, 500);
  const hint = /unknown flag/i.test(reason) ? " The container engine of this platform does not know that option." : "";
  return `Line ${line} of the Dockerfile is wrong: ${reason}.${hint}`;
}

/** The path that a COPY looked for and did not find, without the slash in front; null when that is not the trouble. */
function missingFile(text: string): string | null {
  const match =
    /"\/?([^"]+)":? not found/.exec(text) ?? /(?:lstat|stat) \/?(\S+): no such file or directory/.exec(text);
  return match === null ? null : (match[1] ?? "").replace(/\/$/, "");
}

function whereFrom({ step }: FailedStep): string {
  const from = /--from=(\S+)/.exec(step)?.[1];
  if (from !== undefined) return `in ${JSON.stringify(from)}. Check the path, and that an earlier step makes it.`;
  return "in the upload. Check the path, source.rootDirectory in the manifest, and .dockerignore.";
}

function exitCodeOf(text: string): number | null {
  const match = /exit code: (\d{1,3})/.exec(text);
  return match === null ? null : Number(match[1]);
}
