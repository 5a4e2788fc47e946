import type { Readable } from "node:stream";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import Docker from "dockerode";
import { browserCalls } from "./browsers.ts";
import { buildCalls } from "./builds.ts";
import { containerCalls, ended } from "./containers.ts";
import { databaseVolumes } from "./database-volumes.ts";
import { copyOf, databaseCalls } from "./databases.ts";
import { quickMs, withDeadline } from "./deadline.ts";
import { dumpCalls } from "./dumps.ts";
import { type Engine, type EngineDescription, type EngineEvent, labels, type Owner } from "./engine.ts";
import { gateCalls } from "./gate-volume.ts";
import { imageCalls } from "./images.ts";
import { createLineSplitter } from "./lines.ts";
import { networkCalls } from "./networks.ts";

const actions = ["die", "oom", "destroy", "start", "stop"];

/** The Docker engine behind a socket, as far as `owner` may touch it. Connects with each call. */
export function createDockerEngine(options: {
  socketPath: string;
  owner: Owner;
  /** Nodes that this machine was before: the volumes of databases that they left are this one's as well. */
  formerNodeIds?: readonly string[];
  clock: Clock;
  random: Random;
}): Engine {
  const { socketPath, owner, formerNodeIds = [], clock } = options;
  const docker = new Docker({ socketPath });
  const describe = async (): Promise<EngineDescription> => {
    const [info, versions] = await withDeadline(clock, "describe engine", quickMs, () =>
      Promise.all([docker.info(), docker.version()]),
    );
    const of = (name: string): string =>
      versions.Components?.find((component) => component.Name === name)?.Version ?? "";
    const security: readonly string[] = info.SecurityOptions ?? [];
    return {
      id: String(info.ID),
      rootDir: String(info.DockerRootDir),
      version: String(info.ServerVersion),
      containerd: of("containerd"),
      runc: of("runc"),
      // One that runs without root has its containers in a user namespace, too.
      isRemapped: security.some((option) => /^name=(?:userns|rootless)(?:,|$)/.test(option)),
    };
  };
  const containers = containerCalls(clock, docker, owner);
  const volumes = databaseVolumes(clock, docker, { owner, formerNodeIds });
  return {
    describe,

    async followEvents(onEvent, onOpen, signal) {
      const filters: Docker.GetEventsOptions["filters"] = {
        type: ["container"],
        event: actions,
        label: [`${labels.cluster}=${owner.clusterId}`, `${labels.node}=${owner.nodeId}`],
      };
      const stream = await withDeadline(clock, "follow events", quickMs, () => docker.getEvents({ filters }));
      const split = createLineSplitter((line) => {
        const event = toEvent(line);
        if (event !== null) onEvent(event);
      });
      stream.on("data", split);
      onOpen();
      await ended("follow events", stream as Readable, signal);
    },

    ...containers,
    ...gateCalls(clock, docker, owner),
    listDatabaseVolumes: volumes.listDatabaseVolumes,
    removeDatabaseVolume: volumes.removeDatabaseVolume,
    provideCopyVolume: (copyId) => volumes.provide(copyOf(copyId)),
    ...databaseCalls(clock, docker, owner, volumes, containers.findContainer),
    ...browserCalls(clock, docker, owner),
    ...dumpCalls(clock, docker, owner, volumes),
    ...imageCalls(clock, docker),
    ...buildCalls({ ...options, docker, describe }),
    ...networkCalls(clock, docker, owner),
  };
}

function toEvent(line: string): EngineEvent | null {
  try {
    const { Action, Actor }: { Action?: unknown; Actor?: { ID?: unknown; Attributes?: { name?: unknown } } } =
      JSON.parse(line);
    const name = Actor?.Attributes?.name;
    if (typeof Action !== "string" || typeof Actor?.ID !== "string" || typeof name !== "string") return null;
    return { containerId: Actor.ID, name, action: Action };
  } catch {
    return null;
  }
}
