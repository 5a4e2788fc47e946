import { prefix, serverValue } from "../../../fleet/cluster/keys.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import { sealedPlaces } from "./places.ts";
import { keyReport, keyRotationReport, type LiveServer, serversProblem } from "./report.ts";
import { rotate } from "./rotate.ts";
import { countByKey } from "./store.ts";

/** A control server that runs could not live with a rotation now. The message says what to do. */
export class KeyRotationRefused extends Error {
  override readonly name = "KeyRotationRefused";
}

/** Values between two lines about how far it is. */
const progressEvery = 1_000;

export interface RotateCommandOptions {
  db: Db;
  secrets: Secrets;
  etcd: Pick<Etcd, "range">;
  print(line: string): void;
}

/** Says which keys seal what; whether every value is sealed with the first one. Changes nothing. */
export async function checkKeys({ db, secrets, print }: Omit<RotateCommandOptions, "etcd">): Promise<boolean> {
  const { lines, done } = keyReport(await countByKey(db, sealedPlaces), secrets.keyIds);
  for (const line of lines) print(line);
  return done;
}

/**
 * Seals everything with the first key and says what became of it; whether nothing is left of the others.
 * Throws `KeyRotationRefused` while a control server runs that does not seal with that key.
 */
export async function rotateKeys({ db, secrets, etcd, print }: RotateCommandOptions): Promise<boolean> {
  const refuse = async () => {
    const problem = serversProblem(await listServers(etcd), secrets.keyIds);
    if (problem !== null) throw new KeyRotationRefused(problem);
  };
  await refuse();
  let told = 0;
  const onProgress = (place: string, resealed: number) => {
    if (resealed < told + progressEvery) return;
    told = resealed;
    print(`${resealed} values so far, now in ${place}`);
  };
  const rotation = await rotate({ db, secrets, onProgress });
  for (const line of keyRotationReport(rotation)) print(line);
  const isDone = await checkKeys({ db, secrets, print });
  // One that was started meanwhile with an older file would go on sealing with that.
  await refuse();
  return isDone;
}

async function listServers(etcd: Pick<Etcd, "range">): Promise<LiveServer[]> {
  const { entries } = await etcd.range(prefix.servers);
  return entries.map(({ value }) => {
    const { serverId, startedAt, masterKeyIds = null } = serverValue.parse(JSON.parse(value));
    return { serverId, startedAt, masterKeyIds };
  });
}
