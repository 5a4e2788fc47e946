import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { isOwn } from "./containers.ts";
import { isDatabaseVolume } from "./database-volume.ts";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import { type DatabaseVolume, type Engine, labels, type Owner } from "./engine.ts";
import { EngineError } from "./errors.ts";

/** A volume by whom it is of. */
export type VolumeOf = Pick<DatabaseVolume, "of" | "id" | "name">;

/** The volumes of databases and of copies: nothing else makes or removes them. */
export type DatabaseVolumes = Pick<Engine, "listDatabaseVolumes" | "removeDatabaseVolume"> & {
  /** Makes it, or finds the one that is there: the engine gives back an existing volume as it is. */
  provide(volume: VolumeOf): Promise<void>;
  /** Throws `not-found` when it is not there. */
  requireVolume(volume: VolumeOf): Promise<void>;
};

const labelOf = { database: labels.database, copy: labels.copy } as const satisfies Record<
  DatabaseVolume["of"],
  string
>;

/**
 * @param whose.formerNodeIds what this machine was before. Labels of a volume cannot be changed, so what it left stays labelled as
 *   that node's; no other machine can have that node's id any more
 */
export function databaseVolumes(
  clock: Clock,
  docker: Docker,
  { owner, formerNodeIds }: { owner: Owner; formerNodeIds: readonly string[] },
): DatabaseVolumes {
  const ownLabels = { [labels.cluster]: owner.clusterId, [labels.node]: owner.nodeId };
  const owners: readonly Owner[] = [owner, ...formerNodeIds.map((nodeId) => ({ ...owner, nodeId }))];
  const isOurs = (found: Readonly<Record<string, string>> | null): boolean => owners.some((each) => isOwn(found, each));

  const requireVolume: DatabaseVolumes["requireVolume"] = async ({ of, id, name }) => {
    const found = await withDeadline(clock, "inspect volume", quickMs, () => docker.getVolume(name).inspect());
    if (!isOurs(found.Labels) || found.Labels[labelOf[of]] !== id) {
      throw new EngineError("foreign", `the volume ${name} belongs to somebody else`);
    }
  };

  return {
    requireVolume,

    async provide(volume) {
      const { of, id, name } = volume;
      await withDeadline(clock, "create volume", slowMs, () =>
        docker.createVolume({ Name: name, Labels: { ...ownLabels, [labelOf[of]]: id } }),
      );
      await requireVolume(volume);
    },

    async listDatabaseVolumes() {
      const filters = JSON.stringify({ label: [`${labels.cluster}=${owner.clusterId}`] });
      const { Volumes } = await withDeadline(clock, "list volumes", quickMs, () => docker.listVolumes({ filters }));
      return (Volumes ?? []).flatMap(({ Name: name, Labels, Mountpoint: path }): DatabaseVolume[] => {
        if (!isOurs(Labels)) return [];
        const { [labels.database]: databaseId, [labels.copy]: copyId } = Labels ?? {};
        if (copyId !== undefined) return [{ of: "copy", id: copyId, name, path }];
        return databaseId === undefined ? [] : [{ of: "database", id: databaseId, name, path }];
      });
    },

    async removeDatabaseVolume(name) {
      try {
        const volume = docker.getVolume(name);
        const { Labels } = await withDeadline(clock, "inspect volume", quickMs, () => volume.inspect());
        if (!isDatabaseVolume(name) || !isOurs(Labels)) {
          throw new EngineError("foreign", `the volume ${name} belongs to somebody else`);
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
