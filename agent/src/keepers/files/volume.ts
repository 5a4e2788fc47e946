import { copyVolume } from "@svc/proto";
import { neededVolumes } from "../../databases/needed.ts";
import type { Engine } from "../../engine/engine.ts";
import type { PlacementRecord } from "../../journal/records.ts";
import type { CopyDirectory } from "./serve.ts";

/** The files of a copy in its volume on this node. */
export function copyDirectory(
  { engine, list }: { engine: Pick<Engine, "listDatabaseVolumes" | "provideCopyVolume">; list(): PlacementRecord[] },
  copyId: string,
): CopyDirectory {
  const find = async (): Promise<string> => {
    const found = (await engine.listDatabaseVolumes()).find(({ of, id }) => of === "copy" && id === copyId);
    if (found === undefined) throw new Error("The copy is not on this node.");
    return found.path;
  };
  return {
    find,
    async make() {
      if (neededVolumes(list()).has(copyVolume(copyId))) throw new Error("The copy is in use on this node.");
      await engine.provideCopyVolume(copyId);
      return find();
    },
  };
}
