import type { MessageInitShape } from "@bufbuild/protobuf";
import { Desired, Observed, type PlacementStatus, type PriorBuildSchema } from "@svc/proto/node";
import { createRegistry } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { start } from "../start.ts";
import { createTestNode, type TestNode } from "./agent.ts";
import { createTestControl, type TestControl } from "./control.ts";
import { createKillableAgent, type KillableAgent } from "./killable.ts";
import { startRegistry } from "./registry.ts";
import { packSource, pushSource } from "./source.ts";

export const baseImage = "node:24-slim";

export type TestRecipe =
  | { case: "static"; value: { command: string; output: string } }
  | { case: "image"; value: { dockerfile?: string; buildCommand?: string; startCommand?: string; port: number } };

/** What a test may say of a build besides its files and recipe. */
export interface TestBuild {
  projectId?: string;
  maxImageMb?: number;
  timeoutSeconds?: number;
  caBundle?: string;
  redact?: string[];
  env?: Record<string, string>;
  builderImage?: string;
  envDigest?: string;
  priorBuilds?: MessageInitShape<typeof PriorBuildSchema>[];
  noCache?: boolean;
  rootDirectory?: string;
  resources?: { memoryMb: number; cpuMillicores: number; pidsLimit: number; storageMb?: number };
}

/** An agent with a registry and a control of its own, for tests that build. */
export type BuildBench = AsyncDisposable & {
  node: TestNode;
  control: TestControl;
  registryHost: string;
  /** Assigns a build of `files` and returns its id. */
  build(files: Readonly<Record<string, string>>, recipe: TestRecipe, spec?: TestBuild): Promise<string>;
  /** The same for a Dockerfile. */
  buildDockerfile(text: string, files?: Readonly<Record<string, string>>, spec?: TestBuild): Promise<string>;
  outcome(placementId: string): Promise<PlacementStatus>;
  log(placementId: string): string;
  stop(placementId: string): Promise<void>;
  /** Removes the image that a build made. */
  removeImage(status: PlacementStatus): Promise<void>;
};

const isOver = (status: PlacementStatus): boolean => status.observed >= Observed.COMPLETED;

/** @param env settings of the agent */
export async function createBuildBench(env: Record<string, string> = {}): Promise<BuildBench> {
  return openBench(async (node, control) => {
    const agent = await start(node.config, { openLink: control.openLink, lookEveryMs: 200 });
    await agent.ready;
    return agent;
  }, env);
}

/** The same with an agent that may be killed. It is running already. */
export async function createKillableBench(): Promise<BuildBench & { agent: KillableAgent }> {
  const { promise, resolve } = Promise.withResolvers<KillableAgent>();
  const bench = await openBench(async (node, control) => {
    const agent = await createKillableAgent(node, control);
    await agent.start();
    resolve(agent);
    return agent;
  });
  return { ...bench, agent: await promise };
}

async function openBench(
  startAgent: (node: TestNode, control: TestControl) => Promise<AsyncDisposable>,
  env: Record<string, string> = {},
): Promise<BuildBench> {
  const registry = await startRegistry();
  const node = await createTestNode(env);
  const control = createTestControl({ registryHost: registry.host });
  const agent = await startAgent(node, control);
  let count = 0;

  const build: BuildBench["build"] = async (files, recipe, spec = {}) => {
    count += 1;
    const placementId = `build-${count}`;
    const { projectId = "p1", resources, ...rest } = spec;
    const sourceDigest = await pushSource(registry.host, `svc/${projectId}/source`, await packSource(files));
    await control.assign({
      upserts: [
        {
          placementId,
          epoch: 1n,
          desired: Desired.RUNNING,
          specHash: "h",
          projectId,
          channel: "production",
          resources: resources ?? { memoryMb: 1024, cpuMillicores: 2000, pidsLimit: 512 },
          spec: {
            case: "build",
            value: {
              sourceRepository: `svc/${projectId}/source`,
              sourceDigest,
              targetRepository: `svc/${projectId}/${recipe.case === "static" ? "bundle" : "app"}`,
              rootDirectory: ".",
              recipe,
              baseImage: baseImage,
              timeoutSeconds: 600,
              maxImageMb: 1_000,
              maxUnpackedMb: 50,
              // Steps of an earlier run of these tests must not come from the cache.
              cacheNamespace: `${node.owner.nodeId}-${projectId}`,
              ...rest,
            },
          },
        },
      ],
    });
    return placementId;
  };

  return {
    node,
    control,
    registryHost: registry.host,
    build,
    buildDockerfile: (text, files = {}, spec = {}) =>
      build({ ...files, Dockerfile: text }, { case: "image", value: { dockerfile: "Dockerfile", port: 3000 } }, spec),
    outcome: (placementId) => control.status(placementId, isOver, 600_000),
    log: (placementId) => control.logs.get(placementId) ?? "",
    stop: (placementId) =>
      control.assign({ upserts: [{ placementId, epoch: 1n, desired: Desired.STOPPED, specHash: "h" }] }),
    async removeImage(status) {
      const projects = ["p1", "p2"];
      for (const project of projects) {
        const image = await node.engine.findImage(`${registry.host}/svc/${project}/app@${status.build?.digest}`);
        if (image !== null) await node.engine.removeImage(image.id);
      }
    },
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]();
      await node[Symbol.asyncDispose]();
      await registry[Symbol.asyncDispose]();
    },
  };
}

/** The files of a stored bundle or image layer are read through this. */
export const openRegistry = (host: string) => createRegistry(systemClock, { url: `http://${host}` });
