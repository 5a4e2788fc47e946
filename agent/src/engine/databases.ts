import { totalmem } from "node:os";
import { type DatabaseEngine, databaseNames } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { socketDirOf } from "../databases/socket-dir.ts";
import { isOwn, isSame, logOptions, mebibyte, toResources } from "./containers.ts";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import { type DatabaseContainerSpec, type Engine, labels, type Owner } from "./engine.ts";
import { EngineError } from "./errors.ts";
import { databaseOomScore } from "./pressure.ts";

/** Ends sessions and stops at once: at SIGTERM Postgres would wait for whoever is connected. */
const stopSignals = { postgres: "SIGINT", mariadb: "SIGTERM" } as const satisfies Record<DatabaseEngine, string>;
export const memoryDirs = {
  "/tmp": "rw,noexec,nosuid,nodev,size=16m,mode=1777",
  "/run": "rw,noexec,nosuid,nodev,size=1m",
};

/** The part of the engine that databases need: containers without a network, and the volumes of their data. */
export function databaseCalls(
  clock: Clock,
  docker: Docker,
  owner: Owner,
  findContainer: Engine["findContainer"],
): Pick<Engine, "createDatabaseContainer" | "listDatabaseVolumes" | "removeDatabaseVolume"> {
  const ownLabels = { [labels.cluster]: owner.clusterId, [labels.node]: owner.nodeId };

  /** Makes it, or finds the one that is there: the engine gives back an existing volume as it is. */
  const provideVolume = async (databaseId: string): Promise<void> => {
    const { volume } = databaseNames(databaseId);
    const found = await withDeadline(clock, "create volume", slowMs, async () => {
      await docker.createVolume({ Name: volume, Labels: { ...ownLabels, [labels.database]: databaseId } });
      return docker.getVolume(volume).inspect();
    });
    if (!isOwn(found.Labels, owner) || found.Labels[labels.database] !== databaseId) {
      throw new EngineError("foreign", `the volume ${volume} belongs to somebody else`);
    }
  };

  return {
    async createDatabaseContainer(spec) {
      await provideVolume(spec.databaseId);
      try {
        await withDeadline(clock, "create container", slowMs, () => docker.createContainer(toOptions(spec, owner)));
      } catch (cause) {
        const isTaken = cause instanceof EngineError && cause.kind === "conflict";
        // An earlier attempt whose answer was lost: its container is as good as a new one.
        if (isTaken && isSame(await findContainer(spec.name), spec)) return;
        throw cause;
      }
    },

    async listDatabaseVolumes() {
      const filters = JSON.stringify({ label: Object.entries(ownLabels).map(([name, value]) => `${name}=${value}`) });
      const { Volumes } = await withDeadline(clock, "list volumes", quickMs, () => docker.listVolumes({ filters }));
      return (Volumes ?? []).flatMap(({ Name, Labels, Mountpoint }) => {
        const databaseId = Labels?.[labels.database];
        return databaseId === undefined ? [] : [{ databaseId, name: Name, path: Mountpoint }];
      });
    },

    async removeDatabaseVolume(databaseId) {
      const volume = docker.getVolume(databaseNames(databaseId).volume);
      try {
        const found = await withDeadline(clock, "inspect volume", quickMs, () => volume.inspect());
        if (!isOwn(found.Labels, owner) || found.Labels[labels.database] !== databaseId) {
          throw new EngineError("foreign", `the volume ${found.Name} belongs to somebody else`);
        }
        await withDeadline(clock, "remove volume", slowMs, () => volume.remove());
        return true;
      } catch (cause) {
        if (!(cause instanceof EngineError)) throw cause;
        if (cause.kind === "not-found") return true;
        if (cause.kind === "conflict") return false;
        throw cause;
      }
    },
  };
}

function toOptions(spec: DatabaseContainerSpec, owner: Owner): Docker.ContainerCreateOptions {
  const { databaseId, init, readOnly } = spec;
  return {
    name: spec.name,
    Image: spec.image,
    Cmd: [...spec.settings],
    Env: [
      ...(init === null ? [] : ["SVC_DB_INIT=1", `SVC_DB_VERIFIER=${init.verifier}`]),
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
      ...toResources(spec, spec.reserved),
      OomScoreAdj: databaseOomScore(spec.reserved, totalmem() / mebibyte),
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Init: true,
      NetworkMode: "none",
      ReadonlyRootfs: true,
      Tmpfs: memoryDirs,
      Mounts: [
        { Type: "volume", Source: databaseNames(databaseId).volume, Target: "/data" },
        { Type: "bind", Source: socketDirOf(owner, databaseId), Target: "/socket" },
      ],
      RestartPolicy: { Name: "no" },
      AutoRemove: false,
      LogConfig: { Type: logOptions.type, Config: logOptions.options },
    },
  };
}
