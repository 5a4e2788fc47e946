import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { DatabaseTableSchema } from "@svc/proto/node";
import type { Journal } from "../journal/journal.ts";
import type { Told } from "./table.ts";

const tableSetting = "database-table";
const epochsSetting = "database-epochs";

/** What control told of databases in former lives of this agent; null when it never told anything. */
export function knownDatabases(journal: Pick<Journal, "findSetting">): Told | null {
  const table = journal.findSetting(tableSetting);
  if (table === null) return null;
  const epochs: Record<string, string> = JSON.parse(journal.findSetting(epochsSetting) ?? "{}");
  const { entries, goneIds } = fromBinary(DatabaseTableSchema, new Uint8Array(Buffer.from(table, "base64")));
  return {
    ...{ entries, goneIds },
    epochs: new Map(Object.entries(epochs).map(([id, epoch]) => [id, BigInt(epoch)])),
  };
}

export function saveDatabases(journal: Pick<Journal, "saveSetting">, { entries, epochs, goneIds }: Told): void {
  // First the epochs: what is refused by them must stay refused when the rest is not written.
  const texts = Object.fromEntries([...epochs].map(([id, epoch]) => [id, epoch.toString()]));
  journal.saveSetting(epochsSetting, JSON.stringify(texts));
  const table = toBinary(
    DatabaseTableSchema,
    create(DatabaseTableSchema, { entries: [...entries], goneIds: [...goneIds] }),
  );
  journal.saveSetting(tableSetting, Buffer.from(table).toString("base64"));
}
