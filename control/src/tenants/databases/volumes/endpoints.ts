import {
  databaseVolumeParams,
  databaseVolumesReply,
  deleteDatabaseVolumeInput,
  deleteDatabaseVolumeReply,
  keepDatabaseVolumeReply,
} from "@svc/proto";
import { type Actor, recordAudit } from "../../../http/audit.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { forgetSecrets } from "../dropped/store.ts";
import { throwIf } from "../endpoints/access.ts";
import { type FoundVolume, isReported, keepVolume, lockVolume, purgeVolume } from "./asked.ts";
import { readVolumes } from "./list.ts";
import { deleteRefusal, keepRefusal, unknownRefusal } from "./rules.ts";

const path = "/admin/databases/volumes";

async function getVolume(tx: Db, name: string): Promise<FoundVolume> {
  const found = await lockVolume(tx, name);
  if (found !== null) return found;
  const { code, message } = unknownRefusal(await isReported(tx, name));
  throw new Refused(code, message);
}

const audit = (
  tx: Db,
  { caller, address }: { caller: Actor; address: string },
  { volume: { of, id, generation }, nodeId, databaseId, projectId }: FoundVolume,
  { action, name }: { action: string; name: string },
) =>
  recordAudit(tx, {
    ...{ caller, address, action, target: projectId ?? databaseId },
    detail: { volume: name, databaseId, nodeId, ...(of === "copy" ? { copyId: id } : { generation }) },
  });

const list = endpoint({
  method: "GET",
  path,
  access: "admin",
  summary:
    "Volumes that databases had and copies that have ended, with why they are there and when they go; what machines have and nobody knows; databases that were dropped.",
  reply: databaseVolumesReply,
  handle: ({ db }) => readVolumes(db),
});

const keep = endpoint({
  method: "POST",
  path: `${path}/:volume/keep`,
  access: "admin",
  summary: "Keep a volume that a database had until somebody deletes it.",
  params: databaseVolumeParams,
  reply: keepDatabaseVolumeReply,
  errors: ["CONFLICT"],
  handle: ({ db }, { caller, params: { volume: name }, address }) =>
    db.transaction().execute(async (tx) => {
      const found = await getVolume(tx, name);
      throwIf(keepRefusal(found.volume));
      await keepVolume(tx, found.volume);
      await audit(tx, { caller, address }, found, { action: "database.volume.keep", name });
      return { name, kept: true as const };
    }),
});

const remove = endpoint({
  method: "DELETE",
  path: `${path}/:volume`,
  access: "admin",
  summary: "Have a volume that a database had removed now. What is in it is lost.",
  params: databaseVolumeParams,
  body: deleteDatabaseVolumeInput.default({}),
  reply: deleteDatabaseVolumeReply,
  errors: ["CONFLICT", "DESTRUCTIVE_CONFIRMATION_REQUIRED"],
  handle: ({ db }, { caller, params: { volume: name }, body, address }) =>
    db.transaction().execute(async (tx) => {
      const found = await getVolume(tx, name);
      throwIf(deleteRefusal(found.volume, { confirmed: body.confirm === true }));
      await purgeVolume(tx, found.volume);
      await forgetSecrets(tx, found.databaseId);
      await audit(tx, { caller, address }, found, { action: "database.volume.delete", name });
      return { name, deleted: true as const };
    }),
});

export const volumeEndpoints = [list, keep, remove];
