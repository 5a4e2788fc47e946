import { socketPathOf } from "@svc/agent/databases/socket-dir";
import { quickMs, slowMs, withDeadline } from "@svc/agent/engine/deadline";
import {
  type ContainerSpec,
  type DatabaseContainerSpec,
  type DumpContainerSpec,
  type Engine,
  type Container as EngineContainer,
  type KeeperContainerSpec,
  labels,
} from "@svc/agent/engine/engine";
import { EngineError } from "@svc/agent/engine/errors";
import { copyVolume, databaseVolume } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { Scope } from "../kernel/kernel.ts";
import { createAnswer } from "../kernel/ports.ts";
import type { Container, Docker, Made } from "./docker.ts";
import { heardDump } from "./dumps.ts";

export interface Owner {
  clusterId: string;
  nodeId: string;
}

/** Names of those that a container has. */
const volumesOf = ({ server, keeper }: Container): string[] => [
  ...(server === undefined ? [] : [server.volume]),
  ...(server?.restore == null ? [] : [copyVolume(server.restore)]),
  ...(keeper === undefined ? [] : [copyVolume(keeper.copyId)]),
];

/** The directory of a container's gate, by which the agent finds it. */
export const gateOf = ({ instance }: Container): string => `/gates/${instance}`;

/**
 * The agent's door to its machine's engine in the virtual world, for one life of the agent: what `createDockerEngine` is in the
 * real one. It has containers of apps, of runs and of databases' servers, their volumes, images and networks; of builds there are none.
 */
export function virtualEngine(clock: Clock, scope: Scope, docker: Docker, owner: Owner, address: string): Engine {
  const { process } = docker;
  const order = <T>(what: string, timeoutMs: number, effect: () => T, takesMs: number): Promise<T> =>
    withDeadline(clock, what, timeoutMs, () => docker.order(scope, `docker ${what}`, effect, takesMs));
  const marks = { [labels.cluster]: owner.clusterId, [labels.node]: owner.nodeId };

  const seen = (container: Container): EngineContainer => {
    const { instance, name, kind, state, exitCode, startedAt, finishedAt, limits, reserved } = container;
    return {
      ...{ id: instance, name, labels: { ...container.labels }, state, exitCode, startedAt, finishedAt },
      ...{
        oomKilled: false,
        oomScope: "unknown",
        error: "",
        limits: { ...limits },
        reserved: { ...reserved },
        volumes: [],
      },
      pid: state === "running" ? container.pid : null,
      upstream: kind === "serve" ? `${address}:${container.port}` : null,
      gate: kind === "run" ? gateOf(container) : null,
    };
  };
  const findContainer: Engine["findContainer"] = (name) =>
    order(
      "inspect",
      quickMs,
      () => {
        const found = docker.containers.get(name);
        return found === undefined ? null : seen(found);
      },
      2,
    );
  const made = (spec: ContainerSpec): Made => ({
    ...{ name: spec.name, kind: spec.kind === "run" ? "run" : "serve", id: spec.labels[labels.placement] ?? "" },
    labels: { ...spec.labels, ...marks, [labels.kind]: spec.kind },
    ...{ image: spec.image, network: spec.network, command: spec.command?.at(-1) ?? "" },
    ...{ port: spec.publish?.hostPort ?? 0, reserved: spec.reserved },
    limits: { memoryMb: spec.memoryMb, cpuMillicores: spec.cpuMillicores, pidsLimit: spec.pidsLimit },
  });

  const madeServer = (spec: DatabaseContainerSpec): Made => ({
    ...{ name: spec.name, kind: "database", id: spec.labels[labels.placement] ?? "", image: spec.image },
    labels: { ...spec.labels, ...marks, [labels.kind]: "database", [labels.database]: spec.databaseId },
    ...{ network: "", port: 0, command: "", reserved: spec.reserved },
    limits: { memoryMb: spec.memoryMb, cpuMillicores: spec.cpuMillicores, pidsLimit: spec.pidsLimit },
    server: {
      ...{ databaseId: spec.databaseId, engine: spec.engine, generation: spec.generation, readOnly: spec.readOnly },
      volume: databaseVolume(spec.databaseId, spec.generation),
      socketPath: socketPathOf(owner, spec.databaseId, spec.engine),
      ...{ init: spec.init !== null, restore: spec.restore?.copyId ?? null },
      epoch: BigInt(spec.labels[labels.epoch] ?? "0"),
    },
  });
  const madeDump = ({ databaseId, env, ...spec }: DumpContainerSpec): Made => ({
    ...{ name: spec.name, kind: "dump", id: spec.labels[labels.placement] ?? "", image: spec.image },
    labels: { ...spec.labels, ...marks, [labels.kind]: "backup", [labels.database]: databaseId },
    ...{ network: "", port: 0, command: "", reserved: spec.reserved },
    limits: { memoryMb: spec.memoryMb, cpuMillicores: spec.cpuMillicores, pidsLimit: spec.pidsLimit },
    dump: { databaseId, password: Object.values(env)[0] ?? "", said: [], waiting: new Set() },
  });
  const madeKeeper = ({ copyId, databaseId, engine, password, ...spec }: KeeperContainerSpec): Made => ({
    ...{ name: spec.name, kind: "keeper", id: spec.labels[labels.placement] ?? "", image: spec.image },
    labels: { ...spec.labels, ...marks, [labels.kind]: "keeper", [labels.database]: databaseId },
    ...{ network: "", port: 0, command: "", reserved: spec.reserved },
    limits: { memoryMb: spec.memoryMb, cpuMillicores: spec.cpuMillicores, pidsLimit: spec.pidsLimit },
    keeper: { copyId, databaseId, engine, password },
  });
  const create = async (spec: Made): Promise<void> => {
    try {
      await withDeadline(clock, "create container", slowMs, () => docker.create(scope, spec));
    } catch (cause) {
      if (!(cause instanceof EngineError) || cause.kind !== "conflict") throw cause;
      // An earlier attempt whose answer was lost: its container is as good as a new one.
      const known = await findContainer(spec.name);
      if (known?.labels[labels.placement] !== spec.labels[labels.placement]) throw cause;
      if (known?.labels[labels.specHash] !== spec.labels[labels.specHash]) throw cause;
    }
  };
  /** What operators put on each node. */
  const isLocal = (reference: string): boolean => reference.startsWith("svc/");

  return {
    ...absent,
    findContainer,
    describe: () =>
      order(
        "describe",
        quickMs,
        () => ({
          ...{ id: docker.engineId, rootDir: "/var/lib/docker", version: "29.0.0" },
          containerd: "2.2.0",
          runc: "1.4.0",
          isRemapped: true,
        }),
        2,
      ),
    listContainers: () => order("list", quickMs, () => [...docker.containers.values()].map(seen), 5),
    createContainer: (spec) => create(made(spec)),
    async startDump(spec) {
      const own = madeDump(spec);
      await withDeadline(clock, "create container", slowMs, () => docker.create(scope, own));
      await withDeadline(clock, "start container", slowMs, () => docker.start(scope, spec.name));
      const container = docker.only(({ dump }) => dump !== undefined && dump === own.dump);
      if (container?.dump === undefined) throw new EngineError("not-found", "no such container");
      return heardDump(docker, scope, container, container.dump);
    },
    async createDatabaseContainer(spec) {
      const { restore } = spec;
      if (restore !== null && !docker.databases.copies.has(restore.copyId))
        throw new EngineError("not-found", "there is no such volume");
      await create(madeServer(spec));
    },
    createKeeperContainer: (spec) => create(madeKeeper(spec)),
    startContainer: (name) => withDeadline(clock, "start container", slowMs, () => docker.start(scope, name)),
    limitContainer: (name, limits, reserved) =>
      order(
        "update",
        quickMs,
        () => {
          const found = docker.containers.get(name);
          if (found !== undefined) Object.assign(found, { limits: { ...limits }, reserved: { ...reserved } });
        },
        20,
      ),
    stopContainer: (name, graceSeconds) =>
      withDeadline(clock, "stop container", graceSeconds * 1000 + quickMs, () => docker.stop(scope, name)),
    killContainer: (name) => withDeadline(clock, "kill container", quickMs, () => docker.kill(scope, name)),
    removeContainer: (name) => withDeadline(clock, "remove container", slowMs, () => docker.remove(scope, name)),
    // Gates go with their containers here.
    removeStrayGates: () => order("list volumes", quickMs, () => {}, 3),
    readLog: (name) => order("logs", quickMs, () => (docker.containers.has(name) ? "a last line\n" : ""), 5),
    async followLog(name, onData, signal) {
      await order("follow logs", quickMs, () => {}, 2);
      // What it writes comes at once, and the rest is waiting for its end.
      if (!signal.aborted && docker.containers.get(name)?.startedAt) onData(Buffer.from("it says something\n"));
      const ended = createAnswer<void>(scope);
      const look = (): void => {
        if (docker.containers.get(name)?.state === "running") docker.kernel.at(200, "log goes on", look, scope.process);
        else ended.resolve(undefined, 1, "log ends");
      };
      look();
      await unless(signal, ended.promise);
    },
    sample: (name) =>
      order(
        "stats",
        quickMs,
        () => (docker.containers.has(name) ? { cpuPercent: 1, memoryBytes: 1, pids: 1 } : null),
        5,
      ),
    async followEvents(onEvent, onOpen, signal) {
      await order("follow events", quickMs, () => {}, 2);
      const ended = createAnswer<void>(scope);
      const stop = docker.listen(scope, {
        event: (name) => void (!signal.aborted && onEvent({ containerId: name, name, action: "some" })),
        ended: () => ended.reject(new EngineError("unreachable", "the events broke off"), 0, "engine gone"),
      });
      onOpen();
      await unless(signal, ended.promise).finally(stop);
    },

    findImage: (reference) =>
      order(
        "inspect image",
        quickMs,
        () =>
          docker.images.has(reference) || isLocal(reference)
            ? {
                ...{
                  id: reference,
                  sizeBytes: 1,
                  repoDigests: [reference],
                  repoTags: [],
                  os: "linux",
                  volumes: [],
                  layers: [],
                },
                architecture: globalThis.process.arch === "x64" ? "amd64" : globalThis.process.arch,
                ...{ hasCommand: true, hasTriggers: false, isLocalBase: false },
              }
            : null,
        2,
      ),
    async pullImage(reference, _auth, _onProgress, signal) {
      const pulled = docker.order(
        scope,
        "docker pull",
        () => void docker.images.add(reference),
        process.random.between(25, 1_250),
      );
      await unless(signal, pulled);
      signal.throwIfAborted();
    },
    removeImage: (reference) =>
      order(
        "remove image",
        slowMs,
        () => {
          if (docker.only(({ image }) => image === reference) !== undefined) return false;
          docker.images.delete(reference);
          return true;
        },
        20,
      ),
    pruneBuildCache: () => order("prune", slowMs, () => 0, 20),

    listDatabaseVolumes: () =>
      order(
        "list volumes",
        quickMs,
        () => [
          ...[...docker.databases.volumes.values()].map(({ databaseId: id, name }) => ({
            ...{ of: "database" as const, id, name, path: `/volumes/${name}` },
          })),
          ...[...docker.databases.copies.keys()].map((id) => ({
            ...{ of: "copy" as const, id, name: copyVolume(id), path: `/volumes/${copyVolume(id)}` },
          })),
        ],
        3,
      ),
    removeDatabaseVolume: (name) =>
      order(
        "remove volume",
        slowMs,
        () => {
          if (docker.only((container) => volumesOf(container).includes(name)) !== undefined) return false;
          docker.databases.remove(name);
          return true;
        },
        20,
      ),
    listNetworks: () =>
      order(
        "list networks",
        quickMs,
        () =>
          [...docker.networks].map(([name, { subnet, gateway, ...network }]) => ({
            ...{ id: name, name, subnets: [subnet], addresses: [gateway], labels: network.labels },
          })),
        2,
      ),
    createNetwork: ({ name, subnet, gateway, labels: own }) =>
      order(
        "create network",
        slowMs,
        () => {
          if (docker.networks.has(name)) throw new EngineError("conflict", "the network is there");
          docker.networks.set(name, { subnet, gateway, labels: { ...own, ...marks } });
        },
        30,
      ),
    removeNetwork: (name) =>
      order(
        "remove network",
        slowMs,
        () => {
          if (docker.only(({ network, state }) => network === name && state === "running") !== undefined) return false;
          docker.networks.delete(name);
          return true;
        },
        20,
      ),
  };
}

/** Settles with the work, or when the signal aborts. */
function unless(signal: AbortSignal, work: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = (): void => resolve();
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  work.catch(() => {});
  return Promise.race([work, promise]).finally(() => signal.removeEventListener("abort", stop));
}

const nothing = (): never => {
  throw new Error("of builds and proofs there are none here");
};

/** Whatever is of builds, proofs and pictures. */
const absent = {
  startProof: nothing,
  startBrowser: nothing,
  provideCopyVolume: nothing,
  listImageNames: nothing,
  importImage: nothing,
  pushImage: nothing,
  buildImage: nothing,
  exportFiles: nothing,
} satisfies Partial<Engine>;
