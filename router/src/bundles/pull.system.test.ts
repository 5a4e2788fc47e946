import { randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { create } from "@bufbuild/protobuf";
import { StaticTargetSchema } from "@svc/proto/edge";
import { RegistryAccessSchema } from "@svc/proto/node";
import { createRegistry, createTokenSigner } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { startDockerRegistry } from "../../../registry/src/testing/docker-registry.ts";
import { aTokenKey } from "../../../registry/src/testing/token-key.ts";
import { createRegistryPull } from "./pull.ts";

test("a bundle is pulled with the token that control gives for its repository, and not without", async () => {
  const key = await aTokenKey();
  const sign = createTokenSigner(systemRandom, key, new Date());
  await using server = await startDockerRegistry({ tokenCertificate: key.certificate });
  await using control = createRegistry(systemClock, {
    url: server.url,
    tokens: async (access) => sign("control", access, new Date()),
  });
  const content = randomBytes(1000);
  const repository = "svc/p1/bundle";
  const { digest } = await control.pushArtifact(repository, { kind: "bundle", stream: content });
  const target = create(StaticTargetSchema, { repository, digest });
  const never = new AbortController().signal;

  await using edge = createRegistryPull(systemClock);
  const unavailable = { code: "ARTIFACT_REGISTRY_UNAVAILABLE", temporary: true };
  await expect(edge.pull(target, never)).rejects.toMatchObject(unavailable);
  edge.setAccess(create(RegistryAccessSchema, { host: new URL(server.url).host, insecure: true }));
  await expect(edge.pull(target, never)).rejects.toMatchObject(unavailable);
  edge.setTokens(() => Promise.reject(new Error("refused")));
  await expect(edge.pull(target, never)).rejects.toMatchObject(unavailable);

  const asked: string[] = [];
  edge.setTokens(async (name) => {
    asked.push(name);
    return sign("edge/e1", [{ type: "repository", name, actions: ["pull"] }], new Date());
  });
  expect((await buffer(await edge.pull(target, never))).equals(content)).toBe(true);
  expect(asked).toEqual([repository]);
});
