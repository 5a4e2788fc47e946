import { isOciManifest } from "@svc/proto";
import { createWake } from "@svc/runtime/wake";
import type { Context } from "../context.ts";
import { treeOf } from "../deploy/source.ts";
import { CliError } from "../errors.ts";
import { formatDuration } from "../format.ts";
import { getManifest } from "../manifest-file.ts";
import { isPassing } from "../poll.ts";
import { begun, ended, firstState, nextStep, noted, type SyncEnd } from "./steps.ts";
import { deploysLeft, type Synced, syncOnce } from "./sync.ts";
import { moreWatches, type WatchDirectory, watchTree } from "./watch.ts";

/** Fewer deployments than these left in the hour are worth a word. */
const fewLeft = 10;
const hourMs = 3600_000;

/**
 * Deploys to the dev channel now, and again whenever something was saved, until the context's signal; one deployment at a time. What
 * goes wrong is told and ends nothing: the last deployment serves on. `context` is one that shares its terminal.
 */
export async function keepInSync(context: Context, synced: Synced, watch?: WatchDirectory): Promise<void> {
  const { clock, signal } = context;
  const wake = createWake(clock);
  let state = firstState(clock.steadyMs());
  /** Of the bytes that the platform has, or has refused. */
  let known: string | null = null;
  const onChange = () => {
    state = noted(state, clock.steadyMs());
    wake.signal();
  };
  const manifest = await getManifest(synced.place);
  if (isOciManifest(manifest)) return;
  await watchTree(treeOf(synced.place, manifest), {
    ...{ clock, signal, onChange, ...(watch && { watch }) },
    onScan: () => context.warn(moreWatches),
  });
  const api = await context.api();
  const attempt = async (): Promise<SyncEnd> => {
    const startedAtMs = clock.steadyMs();
    let advice: string | null = null;
    const watched: Context = {
      ...context,
      onInterrupt: (text) => {
        advice = text;
      },
    };
    let packed = known;
    try {
      const result = await syncOnce(watched, api, synced, known, (key) => {
        packed = key;
      });
      if (result === null) {
        context.terminal.verbose("sync: nothing has changed");
        return { is: "done" };
      }
      known = result.key;
      advice = null;
      const took = formatDuration(clock.steadyMs() - startedAtMs);
      context.terminal.step(`${result.payload.url} has what was saved, after ${took}`, "done");
      const quota = await deploysLeft(api);
      if (quota !== null && quota.left < fewLeft)
        context.terminal.step(`${quota.left} of ${quota.max} deployments are left for this hour`);
      return { is: "done" };
    } catch (thrown) {
      if (signal.aborted && advice !== null) context.terminal.step(advice);
      if (signal.aborted || !(thrown instanceof CliError)) throw thrown;
      return tell(context, thrown, () => {
        known = packed;
      });
    }
  };
  while (!signal.aborted) {
    const step = nextStep(state, clock.steadyMs());
    if (step.do === "wait") {
      await wake.wait(step.ms ?? hourMs, signal);
      continue;
    }
    state = begun(state);
    const end = await attempt();
    state = ended(state, end, clock.steadyMs());
  }
}

/** Says what went wrong with a sync, and whether it is tried again. `refused` is called when it would only go wrong again. */
function tell({ terminal }: Context, error: CliError, refused: () => void): SyncEnd {
  const { code, message, hint, server } = error;
  if (server?.status === 429) {
    const waitMs = (server.retryAfterSeconds ?? 60) * 1000;
    terminal.step(`${message} The next one begins in ${formatDuration(waitMs)}`, "failed");
    return { is: "busy", retryAfterMs: waitMs };
  }
  if (isPassing(error)) {
    terminal.step(`${message}; trying again`, "failed");
    return { is: "away" };
  }
  terminal.step(`${code}: ${message}`, "failed");
  if (hint !== undefined) terminal.step(hint);
  // What was packed was heard of by the platform; a tree that could not be packed is another one after the next save.
  refused();
  return { is: "done" };
}
