import type { BuildTrace } from "../engine/engine.ts";
import { createSafeLines, LINE_LENGTH_MAX, type SafeLines, safeLine } from "../logs/lines.ts";
import { redact } from "../logs/redactor.ts";
import { WITH_ENV } from "./build-env.ts";

/** Follows one build: turns its trace into log text and remembers what failed. */
export type BuildProgress = {
  /** The text to append to the log for one message of the trace. */
  add(trace: BuildTrace): string;
  /** The step that failed and the last lines it wrote; null while none has. */
  failed(): FailedStep | null;
  /** The step that runs, the latest of several, and the last lines it wrote; null when none does. */
  running(): Omit<FailedStep, "error"> | null;
};

export type FailedStep = { step: string; error: string; lastLines: readonly string[] };

/** Steps of the tool's own making. */
const INTERNAL = /^(?:\[internal\]|copy \/context \/$)/;
const LAST_LINES = 20;
const TITLE_LENGTH_MAX = 300;

type Step = {
  number: number;
  title: string;
  done: boolean;
  output: SafeLines;
  lastLines: readonly string[];
  error: string;
};

/**
 * Text of the build as people know it from the plain progress of the tool: every line begins with its step.
 *
 * @param secrets values that must not show anywhere
 * @param basesPrefix what names of base images begin with in the build, and not for people
 */
export function createBuildProgress(secrets: readonly string[], basesPrefix = ""): BuildProgress {
  const steps = new Map<string, Step>();
  let visible = 0;
  let failedStep: Step | null = null;

  const show = (step: Step, lines: readonly string[]): string[] => {
    const filled = lines.filter((line) => line !== "");
    step.lastLines = [...step.lastLines, ...filled].slice(-LAST_LINES);
    return filled.map((line) => `#${step.number} ${line}`);
  };
  const forPeople = (text: string): string => (basesPrefix === "" ? text : text.replaceAll(basesPrefix, ""));
  const clean = (text: string): string => redact(forPeople(safeLine(text)), secrets).slice(0, LINE_LENGTH_MAX);

  return {
    add(trace) {
      const out: string[] = [];
      for (const vertex of trace.vertexes) {
        let step = steps.get(vertex.digest);
        if (step === undefined) {
          if (!vertex.started && vertex.error === "") continue;
          const isHidden = INTERNAL.test(vertex.name);
          if (!isHidden) visible += 1;
          step = {
            number: isHidden ? 0 : visible,
            title: clean(stepTitle(vertex.name)).slice(0, TITLE_LENGTH_MAX),
            done: false,
            output: createSafeLines(secrets),
            lastLines: [],
            error: "",
          };
          steps.set(vertex.digest, step);
          if (!isHidden) out.push(`#${step.number} ${step.title}`);
        }
        if (vertex.error !== "" && step.error === "") {
          step.error = clean(withoutHostPaths(vertex.error));
          out.push(...show(step, step.output.end()), `#${step.number} ERROR: ${step.error}`);
          // What is cancelled because another step failed is no cause.
          if (failedStep === null && !/context canceled/.test(vertex.error)) failedStep = step;
        } else if (vertex.completed && !step.done) {
          out.push(...show(step, step.output.end()));
          if (step.number > 0) out.push(`#${step.number} ${vertex.cached ? "cached" : "done"}`);
        }
        step.done ||= vertex.completed;
      }
      for (const log of trace.logs) {
        const step = steps.get(log.vertex);
        if (step !== undefined) out.push(...show(step, step.output.push(log.text)));
      }
      return out.length === 0 ? "" : `${out.join("\n")}\n`;
    },
    failed() {
      if (failedStep === null) return null;
      return { step: failedStep.title, error: failedStep.error, lastLines: failedStep.lastLines };
    },
    running() {
      const step = [...steps.values()].findLast(({ done, number }) => !done && number > 0);
      return step === undefined ? null : { step: step.title, lastLines: step.lastLines };
    },
  };
}

/** What is around a command; the engine tells it without the backslashes that a JSON text has before quotes. */
const BEFORE_COMMAND = ['RUN ["/bin/sh","-c","', `RUN ["/bin/sh","-c","${WITH_ENV}","`] as const;
const AFTER_COMMAND = '"]';

/** `[build 4/8] RUN --mount=… ["/bin/sh","-c","npm ci"]` as a person would say it: `RUN npm ci`. */
function stepTitle(name: string): string {
  const title = name.replace(/^\[[^\]]*\d+\/\d+\]\s*/, "").replaceAll(/--mount=\S+\s+/g, "");
  const before = BEFORE_COMMAND.findLast((text) => title.startsWith(text));
  if (before === undefined || !title.endsWith(AFTER_COMMAND)) return title;
  return `RUN ${unescaped(title.slice(before.length, -AFTER_COMMAND.length))}`;
}

function unescaped(text: string): string {
  try {
    const value: unknown = JSON.parse(`"${text}"`);
    return typeof value === "string" ? value : text;
  } catch {
    return text;
  }
}

/** Where the engine keeps a stage's files says nothing to the person who deployed. */
const withoutHostPaths = (text: string): string =>
  text.replaceAll(
    /\/\S*\/(?:overlay2|snapshots|executor|buildkit-mount\d*)(?:\/[^/\s]+)*?\/(?:merged|fs|diff|rootfs)(?=\/)/g,
    "",
  );
