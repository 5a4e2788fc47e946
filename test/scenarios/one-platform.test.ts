import { afterAll, beforeAll, describe } from "vitest";
import { lendCluster, startCluster } from "../cluster.ts";

/**
 * Scenarios that need nothing of a platform but that it is there, one after the other on the same one: to start and to stop one
 * takes longer than most of them. What a scenario kills it starts again.
 */
const scenarios = {
  analytics: () => import("./one-platform/analytics.scenario.ts"),
  "device login": () => import("./one-platform/device-login.scenario.ts"),
  "an image of one's own": () => import("./one-platform/own-image.scenario.ts"),
  "the packed command line": () => import("./one-platform/packed-cli.scenario.ts"),
  passwords: () => import("./one-platform/password.scenario.ts"),
  renames: () => import("./one-platform/rename.scenario.ts"),
  "apps that do not behave": () => import("./one-platform/runtime.scenario.ts"),
  "a machine that was stolen": () => import("./one-platform/stolen-machine.scenario.ts"),
  "stop and start": () => import("./one-platform/stop-start.scenario.ts"),
  streams: () => import("./one-platform/streams.scenario.ts"),
  suspension: () => import("./one-platform/suspension.scenario.ts"),
  "a source that did not change": () => import("./one-platform/unchanged.scenario.ts"),
  // It changes the plan that everybody has.
  "limits of a plan": () => import("./one-platform/plan-limits.scenario.ts"),
};

const platform = new AsyncDisposableStack();
beforeAll(async () => {
  platform.use(lendCluster(platform.use(await startCluster({ agents: 1 }))));
});
afterAll(() => platform.disposeAsync());

for (const [what, load] of Object.entries(scenarios)) {
  describe(what, async () => {
    await load();
  });
}
