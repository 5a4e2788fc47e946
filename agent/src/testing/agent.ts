import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { type Config, readConfig } from "../config.ts";
import { createDockerEngine } from "../engine/docker.ts";
import type { Engine, Owner } from "../engine/engine.ts";

/** A place for an agent that has joined already, under names of its own, and the way to clean up after it. */
export type TestNode = AsyncDisposable & { config: Config; owner: Owner; engine: Engine };

export async function createTestNode(env: Record<string, string> = {}): Promise<TestNode> {
  const dir = await mkdtemp(join(tmpdir(), "svc-agent-"));
  const owner = { clusterId: randomUUID(), nodeId: randomUUID() };
  await writeFile(join(dir, "identity.json"), JSON.stringify(await createIdentity(dir, owner)));
  const config = readConfig({
    SVC_AGENT_DIR: dir,
    SVC_DBPROXY_DIR: join(dir, "dbproxy"),
    SVC_AGENT_ADDRESS: "127.0.9.1",
    SVC_AGENT_SUBNETS: "10.214.0.0/20",
    // This is somebody's machine.
    SVC_AGENT_EGRESS: "metadata",
    // What people are told of an error of the node is that its agent's log has the reason.
    SVC_LOG_LEVEL: process.env["SVC_LOG_LEVEL"] ?? "error",
    ...env,
  });
  const engine = createDockerEngine({
    socketPath: config.dockerSocket,
    owner,
    clock: systemClock,
    random: systemRandom,
  });
  return {
    config,
    owner,
    engine,
    async [Symbol.asyncDispose]() {
      for (const container of await engine.listContainers()) await engine.removeContainer(container.name);
      for (const network of await engine.listNetworks()) {
        if (network.labels["svc.cluster"] === owner.clusterId) await engine.removeNetwork(network.name);
      }
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function createIdentity(dir: string, { clusterId, nodeId }: Owner) {
  const key = join(dir, "key.pem");
  const certificate = join(dir, "certificate.pem");
  const name = `subjectAltName=URI:spiffe://${clusterId}/node/${nodeId}/1`;
  const request = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"];
  await run(["openssl", "req", ...request, "-subj", "/CN=test", "-addext", name, "-keyout", key, "-out", certificate]);
  const certificatePem = await readFile(certificate, "utf8");
  return {
    id: nodeId,
    name: nodeId,
    role: "node",
    clusterId,
    incarnation: "1",
    certificatePem,
    privateKeyPem: await readFile(key, "utf8"),
    caPem: certificatePem,
  };
}
