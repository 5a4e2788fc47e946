// @pure
import { isOciManifest } from "@svc/proto";
import { limitsOfPlan } from "../kinds/serve.ts";
import { commandWork, type KindOfRun } from "./run-kind.ts";

/** The release command of a deployment, which runs in its new image before visitors see that. Unknown, it fails it. */
export const release: KindOfRun<"deployment"> = {
  owner: "deployment",
  called: { one: "release command", many: "release commands" },
  waitsFor: "release",
  forNode({ owner: { manifest, ...of }, plan, registryHost }) {
    if (isOciManifest(manifest) || manifest.release === undefined) return null;
    return commandWork({ ...of, plan, registryHost, resources: limitsOfPlan(plan), ...manifest.release });
  },
};
