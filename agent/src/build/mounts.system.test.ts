import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";
import { cacheRace, packFiles, type Rewrite, removals } from "./testing/mount-attacks.ts";
import { rewriteDockerfile } from "./user-dockerfile.ts";

// What a step finds mounted, and that it gets no further through that. The attacks themselves, without what the
// platform does about them: `testing/attack-engine.ts`.

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

const mark = (): string => randomBytes(4).toString("hex");
const rewrite: Rewrite = (text) =>
  rewriteDockerfile(text, {
    cacheNamespace: bench.node.owner.nodeId,
    hasCaBundle: false,
    hasDocuments: false,
    baseImageNames: new Map(),
    platform: `linux/${process.arch === "x64" ? "amd64" : process.arch}`,
    secretIds: new Map([["TOKEN", "TOKEN"]]),
    leavesStubs: true,
    kindInContext: (path) => (path === "Dockerfile" ? "file" : null),
  });

test.each(removals)("the engine removes no file of the host: $name", async (attack) => {
  const outcome = await attack.run({ engine: bench.node.engine, baseImage: baseImage, rewrite, mark: mark() });
  expect(outcome).toBe("harmless");
});

test("no part of a cache is mounted", async () => {
  const outcome = await cacheRace.run({ engine: bench.node.engine, baseImage: baseImage, rewrite, mark: mark() });
  expect(outcome).toBe("refused");
  const id = await bench.buildDockerfile(`FROM ${baseImage}\nRUN --mount=type=cache,source=s,target=/t cat /t/x\n`);
  expect((await bench.outcome(id)).failure).toMatchObject({
    code: "BUILD_FAILED",
    message: expect.stringMatching(/^Line 2 of the Dockerfile: RUN --mount=type=cache takes no source here\./),
  });
});

test("a build command of a generated Dockerfile cannot have a file of the host removed, either", async () => {
  const host = await mkdtemp(join(tmpdir(), "svc-attack-"));
  const victim = join(host, ".cache");
  await writeFile(victim, "");
  const bend = `mv node_modules /elsewhere && ln -s ${host} node_modules; mv /app /gone; true`;
  const files = { "package.json": JSON.stringify({ scripts: { build: bend, start: "node x" } }) };
  const recipe = { case: "image", value: { startCommand: "node x", port: 3000 } } as const;
  // It may fail for whatever reason: what matters is what is left.
  const status = await bench.outcome(await bench.build(files, recipe));
  if (status.failure === undefined) await bench.removeImage(status);
  expect(bench.log(status.placementId)).toContain("RUN ");
  expect(await readFile(victim, "utf8")).toBe("");
  await rm(host, { recursive: true });
});

test("caches, directories in memory, secrets and files of the project are where a Dockerfile mounts them", async () => {
  const dockerfile = [
    `FROM ${baseImage} AS first`,
    "RUN echo of the first > /first.txt",
    `FROM ${baseImage}`,
    "COPY --from=0 /first.txt /",
    "WORKDIR /app",
    "RUN --mount=type=cache,target=/home/node/.npm,uid=1000,gid=1000 --mount=type=tmpfs,target=/tmp \\",
    "  --mount=source=package.json,target=package.json --mount=source=web,target=web \\",
    "  --mount=type=secret,id=TOKEN \\",
    "  cat /first.txt package.json web/page.html /run/secrets/TOKEN && touch /home/node/.npm/kept /tmp/gone",
    "RUN --mount=type=cache,target=/home/node/.npm,uid=1000,gid=1000 ls /home/node/.npm",
    "RUN echo left: $(ls /tmp web | wc -l) $(stat -c %a /tmp /root | tr '\\n' ' ') $(stat -c %U /home/node/.npm)",
    "",
  ].join("\n");
  const files = { "package.json": "the manifest\n", "web/page.html": "a page\n" };
  const id = await bench.buildDockerfile(dockerfile, files, { env: { TOKEN: "a-token-of-this-project" } });
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  await waitFor("the log", () => bench.log(id).includes("Stored sha256:"));
  const log = bench.log(id);
  for (const text of ["of the first", "the manifest", "a page", "a-token-of-this-project", "kept"]) {
    expect(log).toMatch(new RegExp(`^#\\d+ ${text}$`, "m"));
  }
  // Headings of `ls` and the line between them: nothing but empty directories.
  expect(log).toMatch(/^#\d+ left: 3 1777 700 node$/m);
  await bench.removeImage(status);
});

test("an image that brings instructions along is not copied from, either", async () => {
  const image = `svc-triggers:${mark()}`;
  await bench.node.engine.buildImage(
    packFiles({ Dockerfile: `FROM ${baseImage}\nONBUILD RUN echo unseen\n` }),
    { tag: image, dockerfile: "Dockerfile", buildArgs: {} },
    () => {},
    AbortSignal.timeout(60_000),
  );
  const id = await bench.buildDockerfile(`FROM ${baseImage}\nCOPY --from=${image} /etc/hostname /x\n`);
  const { failure } = await bench.outcome(id);
  await bench.node.engine.removeImage(image);
  expect(failure).toMatchObject({ code: "BUILD_FAILED", message: expect.stringContaining("ONBUILD") });
});
