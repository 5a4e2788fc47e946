import { totalmem } from "node:os";
import { copyVolume, type DatabaseEngine, databaseVolume } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { copyDoorOf } from "../databases/copy-door.ts";
import { socketDirOf } from "../databases/socket-dir.ts";
import { isSame, logOptions, mebibyte, toResources } from "./containers.ts";
import type { DatabaseVolumes, VolumeOf } from "./database-volumes.ts";
import { slowMs, withDeadline } from "./deadline.ts";
import { type DatabaseContainerSpec, type Engine, type KeeperContainerSpec, labels, type Owner } from "./engine.ts";
import { EngineError } from "./errors.ts";
import { databaseOomScore } from "./pressure.ts";

/** Ends sessions and stops at once: at SIGTERM Postgres would wait for whoever is connected. */
const stopSignals = { postgres: "SIGINT", mariadb: "SIGTERM" } as const satisfies Record<DatabaseEngine, string>;
export const memoryDirs = {
  "/tmp": "rw,noexec,nosuid,nodev,size=16m,mode=1777",
  "/run": "rw,noexec,nosuid,nodev,size=1m",
};

/** The part of the engine that databases need: containers without a network, over the volumes of their data. */
export function databaseCalls(
  clock: Clock,
  docker: Docker,
  owner: Owner,
  volumes: DatabaseVolumes,
  findContainer: Engine["findContainer"],
): Pick<Engine, "createDatabaseContainer" | "createKeeperContainer"> {
  const create = async (
    spec: { name: string; labels: Readonly<Record<string, string>> },
    options: Docker.ContainerCreateOptions,
  ): Promise<void> => {
    try {
      await withDeadline(clock, "create container", slowMs, () => docker.createContainer(options));
    } catch (cause) {
      const isTaken = cause instanceof EngineError && cause.kind === "conflict";
      // An earlier attempt whose answer was lost: its container is as good as a new one.
      if (isTaken && isSame(await findContainer(spec.name), spec)) return;
      throw cause;
    }
  };

  return {
    async createDatabaseContainer(spec) {
      const { databaseId, generation, restore } = spec;
      // The engine would make an empty volume of that name.
      if (restore !== null) await volumes.requireVolume(copyOf(restore.copyId));
      await volumes.provide({ of: "database", id: databaseId, name: databaseVolume(databaseId, generation) });
      await create(spec, toOptions(spec, owner));
    },

    async createKeeperContainer(spec) {
      await volumes.provide(copyOf(spec.copyId));
      await create(spec, toKeeperOptions(spec, owner));
    },
  };
}

export const copyOf = (copyId: string): VolumeOf => ({ of: "copy", id: copyId, name: copyVolume(copyId) });

/** What a container has that runs programs of a database image: no network, no right, and no file of its own to write to. */
export const closedOff = {
  CapDrop: ["ALL"],
  SecurityOpt: ["no-new-privileges"],
  Init: true,
  NetworkMode: "none",
  ReadonlyRootfs: true,
  Tmpfs: memoryDirs,
  RestartPolicy: { Name: "no" },
  AutoRemove: false,
} as const satisfies Docker.HostConfig;

function toOptions(spec: DatabaseContainerSpec, owner: Owner): Docker.ContainerCreateOptions {
  const { databaseId, generation, init, restore, readOnly } = spec;
  return {
    name: spec.name,
    Image: spec.image,
    Cmd: [...spec.settings],
    Env: [
      ...(restore !== null ? restoreEnv(restore) : init !== null ? initEnv(init) : []),
      ...(readOnly ? ["SVC_DB_READ_ONLY=1"] : []),
    ],
    Labels: {
      ...spec.labels,
      [labels.cluster]: owner.clusterId,
      [labels.node]: owner.nodeId,
      [labels.kind]: "database",
      [labels.database]: databaseId,
    },
    Healthcheck: { Test: ["NONE"] },
    StopSignal: stopSignals[spec.engine],
    HostConfig: {
      ...closedOff,
      ...toResources(spec, spec.reserved),
      OomScoreAdj: databaseOomScore(spec.reserved, totalmem() / mebibyte),
      Mounts: [
        { Type: "volume", Source: databaseVolume(databaseId, generation), Target: "/data" },
        { Type: "bind", Source: socketDirOf(owner, databaseId), Target: "/socket" },
        ...(restore === null ? [] : [copyMount(restore.copyId)]),
      ],
      LogConfig: { Type: logOptions.type, Config: logOptions.options },
    },
  };
}

const initEnv = ({ verifier }: { verifier: string }): string[] => ["SVC_DB_INIT=1", `SVC_DB_VERIFIER=${verifier}`];

const restoreEnv = ({ verifier, until }: NonNullable<DatabaseContainerSpec["restore"]>): string[] => [
  ...["SVC_DB_RESTORE=1", `SVC_DB_VERIFIER=${verifier}`],
  ...(until === null ? [] : [`SVC_DB_UNTIL=${until}`]),
];

/** A copy as whoever restores it has it. */
export const copyMount = (copyId: string): Docker.MountSettings => ({
  ...{ Type: "volume", Source: copyVolume(copyId), Target: "/copy", ReadOnly: true },
});

function toKeeperOptions(spec: KeeperContainerSpec, owner: Owner): Docker.ContainerCreateOptions {
  const { copyId, databaseId, engine, baseEverySeconds, keepSeconds, sizeMb, lookEveryMs } = spec;
  return {
    name: spec.name,
    Image: spec.image,
    Cmd: ["keep", copyName(copyId), `${baseEverySeconds}`, `${keepSeconds}`, `${sizeMb}`],
    Env: [
      // Where no list of processes shows it.
      `${engine === "postgres" ? "PGPASSWORD" : "MYSQL_PWD"}=${spec.password}`,
      ...(lookEveryMs === null ? [] : [`SVC_DB_LOOK_MS=${lookEveryMs}`]),
    ],
    Labels: {
      ...spec.labels,
      [labels.cluster]: owner.clusterId,
      [labels.node]: owner.nodeId,
      [labels.kind]: "keeper",
      [labels.database]: databaseId,
      [labels.copy]: copyId,
    },
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      ...closedOff,
      ...toResources(spec, spec.reserved),
      Mounts: [
        { Type: "volume", Source: copyVolume(copyId), Target: "/copy" },
        { Type: "bind", Source: copyDoorOf(owner, copyId, engine).dir, Target: "/socket", ReadOnly: true },
      ],
      LogConfig: { Type: logOptions.type, Config: logOptions.options },
    },
  };
}

/** What servers and files of a copy's own know it by. */
const copyName = (copyId: string): string => copyVolume(copyId).slice("svc-dbcopy-".length);
