import { totalmem } from "node:os";
import type { Readable } from "node:stream";
import { databaseHost } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { isDatabaseVolume } from "./database-volume.ts";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import {
  type Container,
  type ContainerSample,
  type ContainerSpec,
  type ContainerState,
  type Engine,
  type Limits,
  labels,
  type Owner,
} from "./engine.ts";
import { asEngineError, EngineError } from "./errors.ts";
import { standardOutput } from "./frames.ts";
import { isGateMount, toGateMount } from "./gate-volume.ts";
import { readKernelLog } from "./kernel-log.ts";
import { isSizeRefusal, mayLimitLayers } from "./layer-size.ts";
import { type OomScope, oomScopeOf } from "./oom-scope.ts";
import { cpuShares, oomScore, type Reserved, reservedCpu } from "./pressure.ts";

export const logOptions = { type: "json-file", options: { "max-size": "10m", "max-file": "3" } };
const readLogMaxBytes = 4 * 1024 * 1024;
export const mebibyte = 1024 * 1024;
/** Less the engine does not take. */
const reservationMinMb = 6;
/** The engine counts processors in billionths, we in thousandths. */
const nanoPerMilli = 1_000_000;
/** No uid of ours, no setuid gain, no way out of the default profile; see the design's section on tenants' containers. */
const capabilities = ["NET_BIND_SERVICE"];

type ContainerCalls = Pick<
  Engine,
  | "listContainers"
  | "findContainer"
  | "createContainer"
  | "startContainer"
  | "limitContainer"
  | "stopContainer"
  | "killContainer"
  | "removeContainer"
  | "readLog"
  | "followLog"
  | "sample"
>;

/** The container half of the engine. Objects without `owner`'s labels are as good as absent. */
export function containerCalls(clock: Clock, docker: Docker, owner: Owner): ContainerCalls {
  /** Null until the engine was asked: a restarted one may have other storage, and refuses then, once. */
  let limitsLayers: boolean | null = null;
  const lastCpu = new Map<string, { usage: number; system: number }>();
  /** What the kernel said of the last end of each container that it killed: its log is long, and forgets. */
  const lastOom = new Map<string, { end: string; scope: OomScope }>();

  const findOomScope = async ({ Id, Name, State }: Docker.ContainerInspectInfo): Promise<OomScope> => {
    if (!State.OOMKilled) return "unknown";
    const [name, end] = [Name.replace(/^\//, ""), `${Id}@${State.FinishedAt}`];
    const known = lastOom.get(name);
    if (known?.end === end) return known.scope;
    const scope = oomScopeOf(await readKernelLog(), Id);
    lastOom.set(name, { end, scope });
    return scope;
  };

  const findContainer = async (name: string): Promise<Container | null> => {
    try {
      const info = await withDeadline(clock, "inspect container", quickMs, () => docker.getContainer(name).inspect());
      if (!isOwn(info.Config.Labels, owner)) {
        throw new EngineError("foreign", `the container ${name} belongs to somebody else`);
      }
      return toContainer(info, await findOomScope(info));
    } catch (cause) {
      if (cause instanceof EngineError && cause.kind === "not-found") return null;
      throw cause;
    }
  };

  /** The handle of a container that was just seen to be ours; null when it is gone. */
  const own = async (name: string): Promise<Docker.Container | null> => {
    const found = await findContainer(name);
    return found === null ? null : docker.getContainer(found.id);
  };

  const create = (spec: ContainerSpec, layerMb: number): Promise<unknown> =>
    withDeadline(clock, "create container", slowMs, () =>
      docker.createContainer(toCreateOptions(spec, owner, layerMb)),
    );

  /** With a size for its layer if the engine's storage gives one, and without for good once that was refused. */
  const createInSize = async (spec: ContainerSpec): Promise<void> => {
    if (limitsLayers === null) {
      const info = await withDeadline(clock, "describe engine", quickMs, () => docker.info());
      limitsLayers = mayLimitLayers(String(info.Driver), info.DriverStatus ?? []);
    }
    try {
      await create(spec, limitsLayers ? (spec.storageMb ?? 0) : 0);
    } catch (cause) {
      if (!limitsLayers || !isSizeRefusal(cause)) throw cause;
      limitsLayers = false;
      await create(spec, 0);
    }
  };

  return {
    findContainer,

    async listContainers() {
      const filters = { label: [`${labels.cluster}=${owner.clusterId}`, `${labels.node}=${owner.nodeId}`] };
      const list = await withDeadline(clock, "list containers", quickMs, () =>
        docker.listContainers({ all: true, filters }),
      );
      const names = list.map((item) => (item.Names[0] ?? item.Id).replace(/^\//, ""));
      // Listing says too little of an exit; one that is gone meanwhile drops out.
      const found = await Promise.all(names.map(findContainer));
      return found.filter((container) => container !== null);
    },

    async createContainer(spec) {
      try {
        await createInSize(spec);
      } catch (cause) {
        const isTaken = cause instanceof EngineError && cause.kind === "conflict";
        // An earlier attempt whose answer was lost: its container is as good as a new one.
        if (isTaken && isSame(await findContainer(spec.name), spec)) return;
        throw cause;
      }
    },

    async startContainer(name) {
      // 304: it runs already.
      await tolerating([304], () =>
        withDeadline(clock, "start container", slowMs, () => docker.getContainer(name).start()),
      );
    },

    async limitContainer(name, limits, reserved) {
      const container = await own(name);
      if (container === null) return;
      await tolerating([404], () =>
        withDeadline(clock, "limit container", quickMs, () => container.update(toResources(limits, reserved))),
      );
    },

    async stopContainer(name, graceSeconds) {
      const container = await own(name);
      if (container === null) return;
      const timeoutMs = graceSeconds * 1000 + quickMs;
      await tolerating([304, 404], () =>
        withDeadline(clock, "stop container", timeoutMs, () => container.stop({ t: graceSeconds })),
      );
    },

    async killContainer(name, signal) {
      const container = await own(name);
      if (container === null) return;
      await tolerating([404, 409], () =>
        withDeadline(clock, "kill container", quickMs, () => container.kill({ signal })),
      );
    },

    async removeContainer(name) {
      const container = await own(name);
      if (container === null) return;
      lastCpu.delete(name);
      lastOom.delete(name);
      await tolerating([404, 409], () =>
        withDeadline(clock, "remove container", slowMs, () => container.remove({ force: true, v: true })),
      );
    },

    async readLog(name, lines) {
      const container = await own(name);
      if (container === null) return "";
      const options = { stdout: true, stderr: true, timestamps: true, tail: lines, follow: false as const };
      const raw = await withDeadline(clock, "read log", quickMs, () => container.logs(options));
      return demultiplex(raw).subarray(-readLogMaxBytes).toString("utf8");
    },

    async followLog(name, onData, signal) {
      const container = await own(name);
      if (container === null) return;
      const stream = await withDeadline(clock, "follow log", quickMs, () =>
        container.logs({ stdout: true, stderr: true, follow: true }),
      );
      await drain(stream as Readable, onData, signal);
    },

    async sample(name) {
      const container = await own(name);
      if (container === null) return null;
      const stats = await withDeadline(clock, "read statistics", quickMs, () =>
        container.stats({ stream: false, "one-shot": true }),
      );
      // A container that does not run answers with empty counters.
      if (stats.memory_stats.usage === undefined) return null;
      const now = { usage: stats.cpu_stats.cpu_usage.total_usage, system: stats.cpu_stats.system_cpu_usage };
      const before = lastCpu.get(name);
      lastCpu.set(name, now);
      return toSample(stats, now, before);
    },
  };
}

function toCreateOptions(spec: ContainerSpec, owner: Owner, layerMb: number): Docker.ContainerCreateOptions {
  const port = spec.publish === null ? null : `${spec.publish.containerPort}/tcp`;
  const binding = spec.publish && [{ HostIp: spec.publish.address, HostPort: String(spec.publish.hostPort) }];
  return {
    name: spec.name,
    Image: spec.image,
    // An entrypoint of the image would take the command as its arguments.
    ...(spec.command.length > 0 && { Entrypoint: [...spec.command], Cmd: [] }),
    Env: Object.entries(spec.env).map(([key, value]) => `${key}=${value}`),
    Labels: {
      ...spec.labels,
      [labels.cluster]: owner.clusterId,
      [labels.node]: owner.nodeId,
      [labels.kind]: spec.kind,
    },
    ...(port !== null && { ExposedPorts: { [port]: {} } }),
    // The platform probes over HTTP; a command of the image would only burn the tenant's CPU.
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      ...toResources(spec, spec.reserved),
      OomScoreAdj: oomScore(spec.reserved, totalmem() / mebibyte),
      CapDrop: ["ALL"],
      CapAdd: capabilities,
      SecurityOpt: ["no-new-privileges"],
      Init: true,
      NetworkMode: spec.network,
      ...(spec.databaseAt !== null && { ExtraHosts: [`${databaseHost}:${spec.databaseAt}`] }),
      RestartPolicy: { Name: "no" },
      AutoRemove: false,
      ...(spec.hasGate === true && { Mounts: [toGateMount(spec.labels, owner)] }),
      ...(layerMb > 0 && { StorageOpt: { size: `${layerMb}M` } }),
      LogConfig: { Type: logOptions.type, Config: logOptions.options },
      ...(port !== null && binding !== null && { PortBindings: { [port]: binding } }),
    },
  };
}

/** Swap counts: the limit of both together is that of memory alone. What was not said stays as it is. */
export function toResources({ memoryMb, cpuMillicores, pidsLimit }: Limits, reserved: Reserved) {
  const memoryBytes = memoryMb * mebibyte;
  return {
    Memory: memoryBytes,
    MemorySwap: memoryBytes,
    ...(reserved.memoryMb > 0 && { MemoryReservation: Math.max(reserved.memoryMb, reservationMinMb) * mebibyte }),
    NanoCpus: cpuMillicores * nanoPerMilli,
    ...(reserved.cpuMillicores > 0 && { CpuShares: cpuShares(reserved) }),
    PidsLimit: pidsLimit,
  };
}

function toContainer(info: Docker.ContainerInspectInfo, oomScope: OomScope): Container {
  const bindings = Object.values(info.HostConfig.PortBindings ?? {}).flatMap((list: unknown) =>
    Array.isArray(list) ? list : [],
  );
  const [binding] = bindings as { HostIp: string; HostPort: string }[];
  return {
    id: info.Id,
    name: info.Name.replace(/^\//, ""),
    labels: info.Config.Labels,
    state: toState(info.State.Status),
    exitCode: info.State.ExitCode,
    oomKilled: info.State.OOMKilled,
    oomScope,
    error: info.State.Error,
    startedAt: toTime(info.State.StartedAt),
    finishedAt: toTime(info.State.FinishedAt),
    pid: info.State.Pid === 0 ? null : info.State.Pid,
    upstream: binding === undefined ? null : `${binding.HostIp}:${binding.HostPort}`,
    limits: {
      memoryMb: Math.floor((info.HostConfig.Memory ?? 0) / mebibyte),
      cpuMillicores: Math.floor((info.HostConfig.NanoCpus ?? 0) / nanoPerMilli),
      pidsLimit: Math.max(0, info.HostConfig.PidsLimit ?? 0),
    },
    reserved: {
      memoryMb: Math.floor((info.HostConfig.MemoryReservation ?? 0) / mebibyte),
      cpuMillicores: reservedCpu(info.HostConfig.CpuShares ?? 0),
    },
    gate: info.Mounts.find(isGateMount)?.Source ?? null,
    volumes: info.Mounts.filter(({ Type, Name }) => Type === "volume" && !isDatabaseVolume(Name)).map(
      ({ Source }) => Source,
    ),
  };
}

function toState(status: string): ContainerState {
  if (status === "created" || status === "running" || status === "exited") return status;
  return "other";
}

/** The engine writes the year 1 for "never". */
const toTime = (text: string): string | null => (text.startsWith("0001-") ? null : text);

export function isOwn(found: Readonly<Record<string, string>> | null, owner: Owner): boolean {
  return found?.[labels.cluster] === owner.clusterId && found[labels.node] === owner.nodeId;
}

/** Whether a container found under the name is the very one that `spec` describes. */
export function isSame(found: Container | null, spec: Pick<ContainerSpec, "labels">): boolean {
  return found !== null && Object.entries(spec.labels).every(([key, value]) => found.labels[key] === value);
}

export async function tolerating(statuses: number[], call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (cause) {
    if (cause instanceof EngineError && statuses.includes(cause.status)) return;
    throw cause;
  }
}

/** Strips the eight-byte frame headers that the engine puts before each chunk of stdout and stderr. */
export function demultiplex(raw: Buffer): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  while (at + 8 <= raw.length) {
    const size = raw.readUInt32BE(at + 4);
    parts.push(raw.subarray(at + 8, at + 8 + size));
    at += 8 + size;
  }
  return Buffer.concat(parts);
}

/** Hands over both outputs in their order. An abort ends it early and is no error. */
async function drain(stream: Readable, onData: (chunk: Buffer) => void, signal: AbortSignal): Promise<void> {
  const stop = (): void => void stream.destroy();
  if (signal.aborted) return stop();
  signal.addEventListener("abort", stop, { once: true });
  try {
    for await (const piece of standardOutput(stream, onData)) onData(piece);
  } catch (cause) {
    if (!signal.aborted) throw asEngineError("follow log", cause);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Waits until a streamed answer is over. An abort ends it early and is no error. */
export function ended(what: string, stream: Readable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      stream.destroy();
      resolve();
    };
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    stream.once("end", resolve);
    stream.once("close", resolve);
    stream.once("error", (cause) => reject(asEngineError(what, cause)));
  });
}

function toSample(
  stats: Docker.ContainerStats,
  now: { usage: number; system: number },
  before: { usage: number; system: number } | undefined,
): ContainerSample {
  const systemDelta = before === undefined ? 0 : now.system - before.system;
  const usageDelta = before === undefined ? 0 : now.usage - before.usage;
  const cpus = stats.cpu_stats.online_cpus;
  // A restart takes the counters back to zero.
  const cpuPercent = systemDelta > 0 && usageDelta > 0 ? (usageDelta / systemDelta) * cpus * 100 : 0;
  // The page cache is given back under pressure, so it is not what the process holds.
  const detail: Readonly<Record<string, number>> = { ...stats.memory_stats.stats };
  const cache = detail["total_inactive_file"] ?? detail["inactive_file"] ?? 0;
  const memoryBytes = Math.max(0, stats.memory_stats.usage - cache);
  return { cpuPercent, memoryBytes, pids: stats.pids_stats?.current ?? 0 };
}
