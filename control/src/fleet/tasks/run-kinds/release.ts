// @pure
import { isOciManifest } from "@svc/proto";
import { limitsOfPlan } from "../kinds/serve.ts";
import type { KindOfRun } from "./run-kind.ts";

/** The release command of a deployment, which runs in its new image before visitors see that. Unknown, it fails it. */
export const release: KindOfRun<"deployment"> = {
  owner: "deployment",
  called: { one: "release command", many: "release commands" },
  waitsFor: "release",
  forNode({ owner: { deployment, manifest, env, secretValues, databaseId }, plan, registryHost }) {
    if (isOciManifest(manifest) || manifest.release === undefined) return null;
    const { artifact_repository: repository, artifact_digest: digest } = deployment;
    if (repository === null || digest === null) return null;
    return {
      channel: deployment.channel,
      image: { reference: `${registryHost}/${repository}@${digest}`, maxSizeMb: plan.storage_mb },
      command: manifest.release.command,
      env,
      redact: [...secretValues],
      databaseId,
      resources: limitsOfPlan(plan),
      timeoutSeconds: manifest.release.timeoutSeconds,
    };
  },
};
