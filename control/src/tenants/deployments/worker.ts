import { failureMessage, isFailureCode } from "@svc/proto";
import { type Clock, every } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { NotYet } from "./build.ts";
import type { DeployWorkerDeps, Effects, Fail } from "./effects.ts";
import { type DeploymentFacts, readDeployFacts } from "./facts.ts";
import { ociFailure } from "./oci/oci.ts";
import { releaseEffects } from "./release.ts";
import type { DeployRow, DeployRows, ReleaseOutcome } from "./rows.ts";
import { type DeployFacts, type DeployStep, nextDeployStep } from "./steps.ts";

const notYetMs = 1_000;

/** Errors are for people: bounded. They may end with the last lines of a program, which `view.ts` shows to some only. */
const errorLengthMax = 4096;

/**
 * Work of kind `deploy`: carries a deployment from `queued` to its end. It holds its work item all the
 * while; a killed worker's item is taken over by another one, which reads the facts and goes on.
 */
export function deployWorker<Found extends DeployRow>(deps: DeployWorkerDeps<Found>): WorkHandler {
  const effects = deployEffects(deps);
  const { clock, rows, fleet } = deps;
  const carryOn: WorkHandler = async (item, signal) => {
    const { deploymentId } = item.payload as { deploymentId: string };
    const wake = createWake(clock);
    // Many deployments are under way at once, and each look is several queries: only what leads further wakes one.
    let own = nothing;
    type Changes = readonly { key: string }[] | undefined;
    const concerns = (changes: Changes, isOwn: (id: string) => boolean) =>
      changes === undefined || changes.some(({ key }) => isOwn(key.slice(key.lastIndexOf("/") + 1)));
    const wakeIfFurther = () => {
      if (own.isFurther()) wake.signal();
    };
    using _placements = fleet.onChange("placements", (changes) => {
      if (concerns(changes, (taskId) => own.taskIds.has(taskId))) wakeIfFurther();
    });
    using _runs = fleet.onChange("runs", (changes) => {
      if (concerns(changes, (attemptId) => attemptId === own.attemptId)) wake.signal();
    });
    const wakeIfRouted = () => {
      if (own.hasRoute) wakeIfFurther();
    };
    using _routes = fleet.onChange("routes", wakeIfRouted);
    using _edges = fleet.onChange("edges", wakeIfRouted);
    // What was read within the last second, with what the fleet says since: every effect looks again at what it changes.
    let known: DeploymentFacts<Found> | null = null;
    while (!signal.aborted) {
      const at: DeploymentFacts<Found> | null = known ?? (await readDeployFacts(deps, deploymentId, deps.fleet.now()));
      if (at === null) return { state: "done" };
      const isFresh = known === null;
      known = null;
      const step = nextDeployStep(at.facts);
      // Whatever else is to be done, a look follows it.
      own = step.do === "wait" ? ownOf(at) : { ...ownOf(at), isFurther: () => false };
      if (step.do === "end") return { state: "done" };
      if (step.do === "wait") {
        const timeoutMs = Math.max(step.deadline.getTime() - at.facts.now.getTime(), 0);
        // The fleet may have gone on while Postgres was read; its rows change without a signal: a placement refused, a
        // project deleted.
        if (own.isFurther() || (await wake.wait(Math.min(timeoutMs, 1_000), signal)))
          if (isFresh && own.isFurther()) known = { ...at, facts: at.factsNow() };
        continue;
      }
      type Effect = (step: DeployStep, at: DeploymentFacts<Found>, signal: AbortSignal) => Promise<void>;
      const effect = effects[step.do] as Effect;
      await whileWanted({ clock, rows }, deploymentId, signal, (wanted) => effect(step, at, wanted));
    }
    return { retryAfterMs: 0, refund: true };
  };
  return async (item, signal) => {
    try {
      return await carryOn(item, signal);
    } catch (error) {
      if (error instanceof NotYet) return { retryAfterMs: notYetMs, refund: true };
      if (signal.aborted || item.attempt < item.maxAttempts) throw error;
      // Nobody will try again, so whoever waits for the deployment has to hear of it.
      const { deploymentId } = item.payload as { deploymentId: string };
      const at = await readDeployFacts(deps, deploymentId, deps.fleet.now());
      if (at !== null) await effects.fail({ do: "fail", code: "DEPLOY_FAILED", message: "" }, at, signal);
      throw error;
    }
  };
}

/** What of the cluster a deployment on its way waits for. */
interface Own {
  taskIds: ReadonlySet<string>;
  /** The newest attempt at its release command. */
  attemptId: string | null;
  /** Its channel leads to it, so routes and what edges have of them concern it. */
  hasRoute: boolean;
  /** By what the fleet says now there is something to do. */
  isFurther: () => boolean;
}

const nothing: Own = { taskIds: new Set(), attemptId: null, hasRoute: false, isFurther: () => false };

const ownOf = <Found extends DeployRow>({
  facts: { build, serve, active },
  of: { attempt },
  factsNow,
}: DeploymentFacts<Found>): Own => ({
  taskIds: new Set([...(build ? [build.id] : []), ...serve.map(({ id }) => id)]),
  attemptId: attempt?.id ?? null,
  hasRoute: active,
  isFurther: () => nextDeployStep(factsNow()).do !== "wait",
});

/** Runs an effect; its signal is aborted as soon as somebody asks for the end of the deployment. */
async function whileWanted(
  { clock, rows }: { clock: Clock; rows: Pick<DeployRows, "isEndAskedFor"> },
  deploymentId: string,
  signal: AbortSignal,
  effect: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const unwanted = new AbortController();
  const look = () =>
    rows.isEndAskedFor(deploymentId).then(
      (asked) => asked && unwanted.abort(new Error("the deployment is not wanted any more")),
      () => {},
    );
  using _looking = every(clock, 1_000, () => void look());
  try {
    await effect(AbortSignal.any([signal, unwanted.signal]));
  } catch (error) {
    // What is read next says that it is to end, and why.
    if (!unwanted.signal.aborted) throw error;
  }
}

function deployEffects<Found extends DeployRow>(deps: DeployWorkerDeps<Found>): Effects<DeployStep["do"], Found> {
  const { clock, rows, log } = deps;

  const fail: Fail<Found> = async (
    { of, facts },
    code,
    message,
    release = releaseCutShort(facts.release, "the deployment failed"),
    outcome,
  ) => {
    const ours = of.type === "ociimage" ? ociFailure(code) : code;
    const text = (message === "" ? failureMessage(ours) : message).slice(0, errorLengthMax);
    const errorCode = isFailureCode(ours) ? ours : "DEPLOY_FAILED";
    await rows.fail(of, { code: ours, text, errorCode, release, outcome: outcome ?? null }, clock.now());
    log.info({ deploymentId: of.id, from: of.status, to: "failed", why: ours }, "deployment");
  };

  return {
    ...deps.builds(fail),
    ...releaseEffects(deps, fail),
    end: async () => {},
    wait: async () => {},

    async cancel({ detail }, { of, facts }) {
      await rows.cancel(of, detail, releaseCutShort(facts.release, "the deployment was canceled"), clock.now());
      log.info({ deploymentId: of.id, from: of.status, to: "canceled", why: detail }, "deployment");
    },

    claim: (_, { of }) => rows.claim(of, clock.now()),
    beginDeploying: (_, { of }) => rows.beginDeploying(of),
    createServe: (step, { of }) => rows.createServe(of, step),
    endDrains: (_, { of }) => rows.endDrains(of),

    async hold(_, { of }) {
      await rows.hold(of, clock.now());
      log.info({ deploymentId: of.id, from: "deploying", to: "stopped" }, "deployment");
    },

    activate: (_, { of }) => rows.activate(of),

    async finish({ detail }, { of }) {
      await rows.finish(of, detail, clock.now());
      log.info({ deploymentId: of.id, from: "deploying", to: "running" }, "deployment");
    },

    revert: ({ message }, at) => fail(at, "ROUTE_DIVERGED", message),
    fail: ({ code, message }, at) => fail(at, code, message),
  };
}

/** Of one that the end of its deployment kept from starting, or from being waited for. */
function releaseCutShort({ status, run }: DeployFacts["release"], why: string): ReleaseOutcome {
  const mayHaveRun = run !== null && !["offered", "accepted", "refused", "not_started"].includes(run.state);
  if (status === "running" || (status === "pending" && mayHaveRun))
    return { release_status: "failed", release_error: `${why} while it ran` };
  if (status === "pending") return { release_status: "skipped", release_skipped_reason: `${why} before it` };
  return { release_status: status };
}
