// @pure
import { isOciManifest } from "@svc/proto";
import { limitsOfPlan } from "../kinds/serve.ts";
import { commandWork, type KindOfRun } from "./run-kind.ts";

/** An attempt at a run of a scheduled job, beside what serves. Unknown, it fails the run, and nobody repeats it. */
export const job: KindOfRun<"job"> = {
  owner: "job",
  called: { one: "job", many: "jobs" },
  waitsFor: "job",
  forNode({ owner: { manifest, env, run, jobName, attempt, ...of }, plan, registryHost }) {
    const definition = isOciManifest(manifest) ? undefined : manifest.jobs.find(({ name }) => name === jobName);
    if (definition === undefined) return null;
    return commandWork({
      ...{ ...of, registryHost, command: definition.command, resources: limitsOfPlan(plan), plan },
      timeoutSeconds: definition.timeoutSeconds,
      env: {
        ...env,
        SVC_JOB_NAME: jobName,
        // Of all attempts: what an application keeps from doing twice, it keeps by this.
        SVC_RUN_ID: run.id,
        SVC_RUN_ATTEMPT: String(attempt),
        SVC_SCHEDULED_AT: (run.fire_at ?? run.created_at).toISOString(),
      },
    });
  },
};
