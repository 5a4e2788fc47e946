import { randomBytes } from "node:crypto";
import { cacheRace, type Rewrite, removals } from "@svc/agent/build/testing/mount-attacks";
import { rewriteDockerfile } from "@svc/agent/build/user-dockerfile";
import { createDockerEngine } from "@svc/agent/engine/docker";
import { dockerfileProblem, leavesStubs } from "@svc/agent/engine/floors";
import { ensureBaseImage } from "@svc/deploy/base-image";
import { nodeBinary } from "@svc/deploy/paths";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { describe, expect, test } from "vitest";
import { type DebianEngine, startEngineOf } from "../support/debian-engine.ts";

// The attacks on the host that agent/src/build/mounts.system.test.ts runs against this machine's engine, on the newer one
// of Debian 13.

const baseImage = "node:24-slim";
const owner = { clusterId: "debian", nodeId: "n1" };

async function targetOf(own: DebianEngine) {
  const engine = createDockerEngine({ socketPath: own.socketPath, owner, clock: systemClock, random: systemRandom });
  await ensureBaseImage({
    clock: systemClock,
    docker: own.docker,
    image: baseImage,
    for: "apps",
    nodeBinary: nodeBinary(),
    log: () => {},
  });
  const versions = await engine.describe();
  const rewrite: Rewrite = (text) =>
    rewriteDockerfile(text, {
      cacheNamespace: owner.nodeId,
      hasCaBundle: false,
      hasDocuments: true,
      baseImageNames: new Map(),
      platform: `linux/${process.arch === "x64" ? "amd64" : process.arch}`,
      secretIds: new Map([["TOKEN", "TOKEN"]]),
      leavesStubs: leavesStubs(versions),
      kindInContext: (path) => (path === "Dockerfile" ? "file" : null),
    });
  return { versions, target: { engine, baseImage, root: own.dir }, rewrite };
}

describe.each([{ userns: true }, { userns: false }])(
  "Debian 13's engine, with remapped users: $userns",
  ({ userns }) => {
    test("removes and reads no file of the host for a Dockerfile, and builds those of users only when it remaps", async () => {
      await using own = await startEngineOf({ suite: "trixie", userns });
      const { versions, target, rewrite } = await targetOf(own);
      const mark = () => randomBytes(4).toString("hex");
      for (const attack of removals) {
        expect(await attack.run({ ...target, mark: mark() }), `${attack.name}, as written`).toBe("harmless");
        expect(await attack.run({ ...target, rewrite, mark: mark() }), attack.name).toBe("harmless");
      }
      expect(await cacheRace.run({ ...target, rewrite, mark: mark() })).toBe("refused");
      // Its runc lacks mends of 2025, or the distribution does not say that it has them.
      expect(dockerfileProblem(versions) === null).toBe(userns);
    });
  },
);
