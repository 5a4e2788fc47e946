import type { BuildTrace } from "../engine/engine.ts";
import { saidTooMuch } from "./failures.ts";
import type { BuildProgress } from "./progress.ts";

/** What the engine keeps in memory while a build lasts: several times what its log can hold. */
const outputMaxMb = 64;

/** Ends a build whose steps write more than an engine should have to remember. */
export function boundOutput(
  progress: BuildProgress,
  maxMb = outputMaxMb,
): { ended: AbortSignal; add(trace: BuildTrace): void } {
  const ended = new AbortController();
  let bytes = 0;
  return {
    ended: ended.signal,
    add({ logs }) {
      bytes += logs.reduce((sum, { text }) => sum + text.length, 0);
      if (bytes > maxMb * 1024 * 1024) ended.abort(saidTooMuch(maxMb, progress));
    },
  };
}
