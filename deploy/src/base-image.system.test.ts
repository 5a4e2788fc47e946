import { randomBytes } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterAll, expect, test } from "vitest";
import { ensureBaseImage } from "./base-image.ts";
import { nodeBinary } from "./paths.ts";
import { readSettings } from "./settings.ts";

const docker = new Docker({ socketPath: readSettings(process.env, ".").dockerSocket });
// A name that no registry has, so that the image is built here wherever this test runs.
const image = `svc-test-base-${randomBytes(6).toString("hex")}:1`;
const ensure = () =>
  ensureBaseImage({ clock: systemClock, docker, image, for: "apps", nodeBinary: nodeBinary(), log: () => {} });

afterAll(async () => {
  await docker.getImage(image).remove({ force: true });
});

test("of two that want the image at once one builds it, and afterwards it is there", { timeout: 300_000 }, async () => {
  expect((await Promise.all([ensure(), ensure()])).toSorted()).toEqual(["built", "present"]);
  expect(await ensure()).toBe("present");
});

test("the image runs node, npm and npx as an ordinary user", async () => {
  const container = await docker.createContainer({
    Image: image,
    User: "node",
    Cmd: ["sh", "-c", "id -u && node --version && npm --version && npx --version"],
    Labels: { "svc.test": image },
  });
  try {
    await container.start();
    const { StatusCode } = await container.wait();
    const said = (await container.logs({ stdout: true, stderr: true })).toString("utf8");
    expect(StatusCode, said).toBe(0);
    expect(said).toContain("1000");
    expect(said).toContain("v24.");
  } finally {
    await container.remove({ force: true });
  }
});
