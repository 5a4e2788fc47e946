import type { BuildTrace } from "../engine/engine.ts";
import { cleanLine, createSafeLines, type SafeLines } from "../logs/lines.ts";
import { withEnv } from "./build-env.ts";
import { type ClipReader, createClipReader } from "./clipped.ts";

/** Follows one build: turns its trace into log text and remembers what failed. */
export interface BuildProgress {
  /** Leaves these steps, by their titles, out of the log text from now on, unless they fail. */
  leaveOut(isLeftOut: (title: string) => boolean): void;
  /** The text to append to the log for one message of the trace. */
  add(trace: BuildTrace): string;
  /** The step that failed and the last lines it wrote; null while none has. */
  failed(): FailedStep | null;
  /** The step that runs, the latest of several, and the last lines it wrote; null when none does. */
  running(): Omit<FailedStep, "error"> | null;
}

export interface FailedStep {
  step: string;
  error: string;
  lastLines: readonly string[];
}

/** Steps of the tool's own making. */
const internal = /^(?:\[internal\]|copy \/context \/$)/;
/** Of a step that runs: npm alone explains the use of a command on a hundred. */
const lastLines = 300;
const titleLengthMax = 300;

interface Step {
  /** 0: not in the log text, or not yet. */
  number: number;
  /** Of the tool's own making: nobody needs to hear of it. */
  isInternal: boolean;
  title: string;
  done: boolean;
  clips: ClipReader;
  output: SafeLines;
  lastLines: readonly string[];
  error: string;
}

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
  let isLeftOut = (_title: string): boolean => false;

  const numbered = ({ number }: Step, lines: readonly string[]): string[] =>
    number === 0 ? [] : lines.map((line) => `#${number} ${line}`);
  const show = (step: Step, lines: readonly string[]): string[] => {
    const filled = lines.filter((line) => line !== "");
    step.lastLines = [...step.lastLines, ...filled].slice(-lastLines);
    return numbered(step, filled);
  };
  /** Gives a step its place in the log text, with what it has said so far. */
  const open = (step: Step): string[] => {
    if (step.number > 0 || step.isInternal) return [];
    visible += 1;
    step.number = visible;
    return numbered(step, [step.title, ...step.lastLines]);
  };
  const forPeople = (text: string): string => (basesPrefix === "" ? text : text.replaceAll(basesPrefix, ""));
  const clean = (text: string): string => cleanLine(forPeople(text), secrets);

  return {
    leaveOut(unwanted) {
      isLeftOut = unwanted;
    },
    add(trace) {
      const out: string[] = [];
      for (const vertex of trace.vertexes) {
        let step = steps.get(vertex.digest);
        if (step === undefined) {
          if (!vertex.started && vertex.error === "") continue;
          const title = stepTitle(vertex.name);
          step = {
            number: 0,
            isInternal: internal.test(vertex.name),
            title: clean(title).slice(0, titleLengthMax),
            done: false,
            clips: createClipReader(),
            output: createSafeLines(secrets),
            lastLines: [],
            error: "",
          };
          steps.set(vertex.digest, step);
          if (!isLeftOut(title)) out.push(...open(step));
        }
        if (vertex.error !== "" && step.error === "") {
          step.error = clean(withoutHostPaths(vertex.error));
          out.push(...show(step, step.output.end()), ...open(step), ...numbered(step, [`ERROR: ${step.error}`]));
          // What is cancelled because another step failed is no cause.
          if (failedStep === null && !/context canceled/.test(vertex.error)) failedStep = step;
        } else if (vertex.completed && !step.done) {
          out.push(...show(step, step.output.end()));
          out.push(...numbered(step, [vertex.cached ? "cached" : "done"]));
        }
        step.done ||= vertex.completed;
        // Nobody asks for what a step said that went well.
        if (step.done && step.error === "") step.lastLines = [];
      }
      for (const log of trace.logs) {
        const step = steps.get(log.vertex);
        if (step !== undefined) out.push(...show(step, step.output.push(step.clips.take(log.text))));
      }
      return out.length === 0 ? "" : `${out.join("\n")}\n`;
    },
    failed() {
      if (failedStep === null) return null;
      return { step: failedStep.title, error: failedStep.error, lastLines: failedStep.lastLines };
    },
    running() {
      const step = [...steps.values()].findLast(({ done, isInternal }) => !done && !isInternal);
      return step === undefined ? null : { step: step.title, lastLines: step.lastLines };
    },
  };
}

const nameLengthMax = 8_192;

/** What is around a command; the engine tells it without the backslashes that a JSON text has before quotes. */
const beforeCommand = ['RUN ["/bin/sh","-c","', `RUN ["/bin/sh","-c","${withEnv}","`] as const;
const afterCommand = '"]';

/** `[build 4/8] RUN --mount=… ["/bin/sh","-c","npm ci"]` as a person would say it: `RUN npm ci`. */
function stepTitle(name: string): string {
  // Of a command that is longer than this nobody reads the title to its end.
  const title = name
    .slice(0, nameLengthMax)
    .replace(/^\[[^\]]*\d+\/\d+\]\s*/, "")
    .replaceAll(/--mount=\S+\s+/g, "");
  const before = beforeCommand.findLast((text) => title.startsWith(text));
  if (before === undefined || !title.endsWith(afterCommand)) return title;
  return `RUN ${unescaped(title.slice(before.length, -afterCommand.length))}`;
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
const withoutHostPaths = (text: string): string => text.replaceAll(/\/\S+/g, withoutStage);

const keptAt = /^(?:overlay2|snapshots|executor|buildkit-mount\d*)$/;
const stages = new Set(["merged", "fs", "diff", "rootfs"]);

/** `/var/lib/…/overlay2/…/merged/app/a` as `/app/a`. Part by part: the text is a stranger's command, and may be full of such parts. */
function withoutStage(path: string): string {
  const parts = path.split("/");
  /** The first directory of a stage behind the part that is looked at, without an empty part between. */
  let stage: number | null = null;
  for (let at = parts.length - 2; at > 0; at -= 1) {
    const part = parts[at] ?? "";
    if (stage !== null && at > 1 && keptAt.test(part)) return `/${parts.slice(stage + 1).join("/")}`;
    if (stages.has(part)) stage = at;
    else if (part === "") stage = null;
  }
  return path;
}
