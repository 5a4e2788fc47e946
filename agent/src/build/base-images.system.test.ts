import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { Code, ConnectError } from "@connectrpc/connect";
import Docker from "dockerode";
import { extract } from "tar-stream";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench } from "../testing/builds.ts";
import { type EngineProxy, startEngineProxy } from "../testing/engine-proxy.ts";
import { waitFor } from "../testing/wait.ts";
import { packTar } from "./tar.ts";

// Where base images come from: nothing that a Dockerfile says makes the engine dial anybody but the cluster's registry.

describe("a name that is not for builds", () => {
  let proxy: EngineProxy;
  let bench: BuildBench;
  beforeAll(async () => {
    proxy = await startEngineProxy();
    bench = await createBuildBench({ SVC_DOCKER_SOCKET: proxy.socketPath });
  });
  afterAll(async () => {
    await bench?.[Symbol.asyncDispose]();
    await proxy?.[Symbol.asyncDispose]();
  });

  /** A port of loopback that counts who dials it. */
  async function listener() {
    let dialled = 0;
    const server = createServer((socket) => {
      dialled += 1;
      socket.destroy();
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    return {
      port: String((server.address() as AddressInfo).port),
      dialled: () => dialled,
      async [Symbol.asyncDispose]() {
        await once(server.close(), "close");
      },
    };
  }

  test.each([
    { text: "FROM 0x7f.1:PORT/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "FROM 127.0.0.1:PORT/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "FROM 127.1:PORT/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "FROM 2130706433:PORT/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "FROM LOCALHOST:PORT/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "FROM localhost.:PORT/x", code: "BUILD_FAILED" },
    { text: "FROM [::1]:PORT/x", code: "BUILD_FAILED" },
    { text: "FROM scratch\nCOPY --from=localhost:PORT/x / /", code: "OCI_REGISTRY_BLOCKED" },
    // Its name is public, and where it leads only control finds out.
    { text: "FROM registry.example.test/x", code: "OCI_REGISTRY_BLOCKED" },
    { text: "FROM scratch\nCOPY --from=registry.example.test/x / /", code: "OCI_REGISTRY_BLOCKED" },
  ])("$text ends with $code, and nobody was dialled", async ({ text, code }) => {
    await using host = await listener();
    const pulls = () => proxy.count("POST", /^\/(?:images\/create|build)$/);
    const before = pulls();
    const id = await bench.buildDockerfile(`${text.replaceAll("PORT", host.port)}\nCMD ["x"]\n`);
    const { failure } = await bench.outcome(id);
    expect(failure?.code).toBe(code);
    expect(host.dialled()).toBe(0);
    // The engine was asked neither for the image nor for a build that would look for it.
    expect(pulls()).toBe(before);
  });
});

describe("a base image", () => {
  const docker = new Docker();
  let bench: BuildBench;
  beforeAll(async () => {
    bench = await createBuildBench();
  });
  afterAll(async () => {
    for (const name of ["svc-test-base:1", "svc-test-base:2", "svc-test-base:3"]) {
      await docker
        .getImage(name)
        .remove()
        .catch(() => {});
    }
    await bench?.[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    bench.control.baseImages.clear();
    bench.control.baseImagesAsked.length = 0;
  });

  /** An image that only this engine has. */
  async function onEngine(name: string, changes: readonly string[]): Promise<void> {
    async function* files() {
      yield { kind: "bytes", name: "base.txt", executable: false, content: Buffer.from(name) } as const;
    }
    const [repo, tag] = name.split(":");
    const progress = await docker.importImage(packTar(files()), { repo, tag, changes });
    await new Promise<void>((resolve, reject) =>
      docker.modem.followProgress(progress, (error) => (error === null ? resolve() : reject(error))),
    );
  }

  /** Text of a file of what was built. */
  async function fileOf(reference: string, path: string): Promise<string> {
    let text = "";
    const read = async (tar: Readable): Promise<void> => {
      for await (const entry of tar.pipe(extract())) text = (await buffer(entry)).toString();
    };
    await bench.node.engine.exportFiles(reference, path, read, AbortSignal.timeout(30_000));
    return text;
  }

  test("comes by digest from the cluster's registry, however long control takes to copy it", async () => {
    const { control, registryHost } = bench;
    const made = await bench.outcome(
      await bench.buildDockerfile('FROM scratch\nCOPY base.txt /\nCMD ["x"]\n', { "base.txt": "copied" }),
    );
    await bench.removeImage(made);
    const name = "registry.example.test/team/base:latest";
    control.baseImages.set(name, { case: undefined });
    const text =
      "FROM registry.example.test/team/base\nCOPY --from=registry.example.test/team/base base.txt /twice.txt\n";
    const id = await bench.buildDockerfile(text);
    await waitFor("a second question", () => control.baseImagesAsked.length >= 2);
    const copy = `${registryHost}/svc/p1/app@${made.build?.digest}`;
    control.baseImages.set(name, { case: "reference", value: copy });
    const status = await bench.outcome(id);
    expect(status.failure).toBeUndefined();
    expect(await fileOf(`${registryHost}/svc/p1/app@${status.build?.digest}`, "/twice.txt")).toBe("copied");
    expect(new Set(control.baseImagesAsked)).toEqual(new Set([name]));
    // The next one asks again: what a tag stands for may have changed.
    await bench.outcome(await bench.buildDockerfile(text));
    expect(control.baseImagesAsked.length).toBeGreaterThan(2);
    await bench.removeImage(status);
  });

  test("is waited for while control is older than its nodes", async () => {
    const { control } = bench;
    const name = "registry.example.test/team/base:1";
    control.baseImages.set(name, new ConnectError("no such call", Code.Unimplemented));
    const id = await bench.buildDockerfile("FROM registry.example.test/team/base:1\n");
    await waitFor("a second question", () => control.baseImagesAsked.length >= 2);
    // Another replica answers.
    control.baseImages.delete(name);
    expect((await bench.outcome(id)).failure?.code).toBe("OCI_REGISTRY_BLOCKED");
  });

  test("of the operator is taken as it is", async () => {
    await onEngine("svc-test-base:1", ["LABEL svc.base-image=local", 'CMD ["x"]']);
    for (const name of [baseImage, "svc-test-base:1", "docker.io/library/svc-test-base:1"]) {
      const status = await bench.outcome(await bench.buildDockerfile(`FROM ${name}\nLABEL x=y\n`));
      expect(status.failure, name).toBeUndefined();
      await bench.removeImage(status);
    }
    expect(bench.control.baseImagesAsked).toEqual([]);
  });

  test("that the engine happens to have counts for nothing", async () => {
    await onEngine("svc-test-base:2", ['CMD ["x"]']);
    const { failure } = await bench.outcome(await bench.buildDockerfile("FROM svc-test-base:2\n"));
    expect(failure?.code).toBe("OCI_REGISTRY_BLOCKED");
    expect(bench.control.baseImagesAsked).toEqual(["docker.io/library/svc-test-base:2"]);
  });

  test("is no other project's image, whatever its labels say", async () => {
    const labelled = 'FROM scratch\nCOPY a.txt /\nLABEL svc.base-image=local\nCMD ["x"]\n';
    const made = await bench.outcome(await bench.buildDockerfile(labelled, { "a.txt": "secret" }, { projectId: "p2" }));
    const name = `${bench.registryHost}/svc/p2/app@${made.build?.digest}`;
    const { failure } = await bench.outcome(await bench.buildDockerfile(`FROM ${name}\n`));
    expect(failure?.code).toBe("OCI_REGISTRY_BLOCKED");
    await bench.removeImage(made);
  });

  test("that brings instructions along is not built upon", async () => {
    await onEngine("svc-test-base:3", ["LABEL svc.base-image=local", "ONBUILD RUN touch /x"]);
    const { failure } = await bench.outcome(await bench.buildDockerfile("FROM svc-test-base:3\n"));
    expect(failure).toMatchObject({ code: "BUILD_FAILED", message: expect.stringContaining("ONBUILD") });
  });
});
