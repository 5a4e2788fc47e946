import { packTar } from "@svc/agent/build/tar";
import { createDockerEngine } from "@svc/agent/engine/docker";
import { ensureBaseImage } from "@svc/deploy/base-image";
import { nodeBinary } from "@svc/deploy/paths";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { startEngineOf } from "../support/debian-engine.ts";

const signal = AbortSignal.timeout(600_000);
const owner = { clusterId: "debian", nodeId: "n1" };

async function* contextOf(dockerfile: string) {
  yield { kind: "bytes" as const, name: "Dockerfile", executable: false, content: Buffer.from(dockerfile) };
}

test.each([{ userns: true }, { userns: false }])(
  "the engine of Debian 13 builds and runs, with remapped users: $userns",
  async ({ userns }) => {
    await using own = await startEngineOf({ suite: "trixie", userns });
    const engine = createDockerEngine({ socketPath: own.socketPath, owner, clock: systemClock, random: systemRandom });
    const { version } = await engine.describe();
    expect(Number(version.split(".")[0])).toBeGreaterThanOrEqual(26);
    const { SecurityOptions: security } = await own.docker.info();
    expect(security.includes("name=userns")).toBe(userns);
    await ensureBaseImage({
      clock: systemClock,
      docker: own.docker,
      image: "node:24-slim",
      for: "apps",
      nodeBinary: nodeBinary(),
      log: () => {},
    });
    const built = { tag: "built:here", dockerfile: "Dockerfile", buildArgs: {} };
    const steps =
      "FROM node:24-slim\nRUN node -e 'console.log(6 * 7)' > /answer && cat /proc/self/uid_map >> /answer\n";
    await engine.buildImage(
      (owner) => packTar(contextOf(steps), owner),
      built,
      () => {},
      signal,
    );
    const container = await own.docker.createContainer({ Image: "built:here", Cmd: ["cat", "/answer"], Tty: true });
    await container.start();
    await container.wait();
    const [answer, users = ""] = (await container.logs({ stdout: true })).toString().trim().split("\r\n");
    expect(answer).toBe("42");
    // Which user of the machine root of a step was.
    expect(users.trim().split(/\s+/)[1] !== "0").toBe(userns);
    await container.remove();
  },
);
