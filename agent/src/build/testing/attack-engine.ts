import { randomBytes } from "node:crypto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createDockerEngine } from "../../engine/docker.ts";
import { rewriteDockerfile } from "../user-dockerfile.ts";
import { cacheRace, removals } from "./mount-attacks.ts";

// Runs every attack against an engine, first as it is written and then as the platform builds it, and prints what came
// of each. Takes some minutes: `node agent/src/build/testing/attack-engine.ts [socket] [base image]`. Needs root and a
// base image that the engine has and that has perl.

const [, , socketPath = "/var/run/docker.sock", baseImage = "node:24-slim"] = process.argv;
const engine = createDockerEngine({
  socketPath,
  owner: { clusterId: "attack", nodeId: "attack" },
  clock: systemClock,
  random: systemRandom,
});
const { version } = await engine.describe();
console.log(`engine ${version} at ${socketPath}`);

const rewrite = (text: string) =>
  rewriteDockerfile(text, {
    cacheNamespace: "attack",
    hasCaBundle: false,
    hasDocuments: false,
    baseImageNames: new Map(),
    platform: "linux/amd64",
    secretIds: new Map([["TOKEN", "TOKEN"]]),
    leavesStubs: true,
    kindInContext: (path) => (path === "Dockerfile" ? "file" : null),
  });

for (const attack of [...removals, cacheRace]) {
  const mark = () => randomBytes(4).toString("hex");
  const raw = await attack.run({ engine, baseImage, mark: mark() });
  const ours = await attack.run({ engine, baseImage, rewrite, mark: mark() });
  console.log(`${attack.name}: as written ${raw}; as the platform builds it ${ours}`);
}
