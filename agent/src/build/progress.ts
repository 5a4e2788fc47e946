import { stripVTControlCharacters } from "node:util";
import type { BuildTrace } from "../engine/engine.ts";

/** Follows one build: turns its trace into log text and remembers what failed. */
export type BuildProgress = {
  /** The text to append to the log for one message of the trace. */
  add(trace: BuildTrace): string;
  /** The step that failed and the last lines it wrote; null while none has. */
  failed(): { step: string; error: string; lastLines: string[] } | null;
};

/** Steps of the tool's own making. */
const INTERNAL = /^(?:\[internal\]|copy \/context \/$)/;
const LAST_LINES = 20;
const LINE_MAX_LENGTH = 4_000;

type Step = { number: number; title: string; done: boolean; rest: string; lastLines: string[]; error: string };

/** Text of the build as people know it from the plain progress of the tool: every line begins with its step. */
export function createBuildProgress(): BuildProgress {
  const steps = new Map<string, Step>();
  let visible = 0;
  let failedStep: Step | null = null;

  const flush = (step: Step, withRest: boolean): string[] => {
    // A carriage return redraws a line; each state of it is a line here.
    const parts = step.rest.split(/\r\n|\r|\n/);
    step.rest = withRest ? "" : (parts.pop() ?? "");
    const lines = parts.map(cleanLine).filter((line) => line !== "");
    step.lastLines = [...step.lastLines, ...lines].slice(-LAST_LINES);
    return lines.map((line) => `#${step.number} ${line}`);
  };

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
            title: stepTitle(vertex.name),
            done: false,
            rest: "",
            lastLines: [],
            error: "",
          };
          steps.set(vertex.digest, step);
          if (!isHidden) out.push(`#${step.number} ${step.title}`);
        }
        if (vertex.error !== "" && step.error === "") {
          step.error = vertex.error;
          out.push(...flush(step, true), `#${step.number} ERROR: ${cleanLine(vertex.error)}`);
          // What is cancelled because another step failed is no cause.
          if (failedStep === null && !/context canceled/.test(vertex.error)) failedStep = step;
        } else if (vertex.completed && !step.done) {
          out.push(...flush(step, true));
          if (step.number > 0) out.push(`#${step.number} ${vertex.cached ? "cached" : "done"}`);
        }
        step.done ||= vertex.completed;
      }
      for (const log of trace.logs) {
        const step = steps.get(log.vertex);
        if (step === undefined) continue;
        step.rest = (step.rest + log.text.toString("utf8")).slice(-16 * LINE_MAX_LENGTH);
        out.push(...flush(step, false));
      }
      return out.length === 0 ? "" : `${out.join("\n")}\n`;
    },
    failed() {
      if (failedStep === null) return null;
      return { step: failedStep.title, error: cleanLine(failedStep.error), lastLines: failedStep.lastLines };
    },
  };
}

/** `[build 4/8] RUN --mount=… ["/bin/sh","-c","npm ci"]` as a person would say it: `RUN npm ci`. */
function stepTitle(name: string): string {
  const title = name.replace(/^\[[^\]]*\d+\/\d+\]\s*/, "").replaceAll(/--mount=\S+\s+/g, "");
  const match = /^RUN (\["\/bin\/sh","-c",".*"\])$/s.exec(title);
  const command = match === null ? null : lastOf(match[1] ?? "");
  return cleanLine(command === null ? title : `RUN ${command}`).slice(0, 300);
}

function lastOf(json: string): string | null {
  try {
    const parts: unknown = JSON.parse(json);
    const last: unknown = Array.isArray(parts) ? parts.at(-1) : null;
    return typeof last === "string" ? last : null;
  } catch {
    return null;
  }
}

/** One line without terminal codes or other control characters. */
function cleanLine(line: string): string {
  return stripVTControlCharacters(line)
    .replaceAll(/(?!\t)\p{Cc}/gu, " ")
    .trimEnd()
    .slice(0, LINE_MAX_LENGTH);
}
