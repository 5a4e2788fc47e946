import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import type { Random } from "@svc/runtime/random";
import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { isHealthy } from "../../../fleet/cluster/keys.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { isBackingUp } from "../backups/store.ts";
import { findOpenChange, insertChange } from "../changes/store.ts";
import { lockBranch } from "../store.ts";
import { nextUpgrades, type UpgradableServer } from "./steps.ts";

export interface UpgradeDeps {
  db: Db;
  fleet: Pick<Fleet, "observation">;
  random: Random;
  /** What servers are to run in. */
  images: Readonly<Record<DatabaseEngine, string>>;
  log: Log;
}

interface Row {
  database_id: string;
  /** Of the server that is wanted; null: none is. */
  task_id: string | null;
  node_id: string | null;
  image: string | null;
  is_ready: boolean;
  /** Its project is off the air, or being deleted. */
  is_off: boolean;
  is_replaceable: boolean;
  is_backing_up: boolean;
  /** The kind of change that it is under. */
  changing: string | null;
  upgraded: "done" | "failed" | null;
}

/** One round: begins to replace servers of another image than the installation's. Safe to repeat and to lose at any point. */
export async function upgradeServers(deps: UpgradeDeps): Promise<void> {
  for (const engine of databaseEngines) {
    const { begin, haltedBy } = nextUpgrades(await readServers(deps, engine));
    if (haltedBy !== null) deps.log.warn({ databaseId: haltedBy, engine }, "upgrades of database servers are halted");
    for (const databaseId of begin) await beginUpgrade(deps, engine, databaseId);
  }
}

async function readServers({ db, fleet, images }: UpgradeDeps, engine: DatabaseEngine): Promise<UpgradableServer[]> {
  const image = images[engine];
  const { rows } = await sql<Row>`
    select database.id as database_id, server.id as task_id, server.node_id, server.spec ->> 'image' as image,
      database.status = 'ready' as is_ready,
      project.deleting_at is not null or (project.suspended_at is not null and project.resuming_at is null) as is_off,
      coalesce(node.lifecycle = 'active' and node.schedulable and node.drain = 'none' and node.quarantined_at is null
        and not node.disk_full and not node.memory_short and not node.engine_stalled, false) as is_replaceable,
      exists (
        select from database_backup where database_id = database.id and status in ('pending', 'running')) as is_backing_up,
      (select kind from database_change where database_id = database.id and ended_at is null) as changing,
      (select state from database_change
        where database_id = database.id and kind = 'upgrade' and ended_at is not null and database_change.image = ${image}
        order by created_at desc limit 1) as upgraded
    from database join project on project.id = database.project_id
      left join task server on server.owner_id = database.id and server.kind = 'database' and server.desired = 'running'
      left join node on node.id = server.node_id
    where database.engine = ${engine} order by database.id`.execute(db);
  return rows.map(({ task_id, node_id, changing, ...row }) => {
    const seen = task_id === null || node_id === null ? null : fleet.observation(node_id, task_id);
    return {
      databaseId: row.database_id,
      isCurrent: row.image === image,
      isMeant: row.is_ready && !row.is_off,
      isServing: row.is_ready && isHealthy(seen),
      isReplaceable: row.is_replaceable,
      isChanging: changing !== null || row.is_backing_up,
      isUpgrading: changing === "upgrade",
      upgraded: row.upgraded,
    };
  });
}

const beginUpgrade = ({ db, random, images, log }: UpgradeDeps, engine: DatabaseEngine, databaseId: string) =>
  db.transaction().execute(async (tx) => {
    const branch = await lockBranch(tx, databaseId);
    if (branch?.status !== "ready" || (await findOpenChange(tx, databaseId)) !== null) return;
    if (await isBackingUp(tx, databaseId)) return;
    const image = images[engine];
    await insertChange(tx, branch, {
      ...{ id: random.uuid(), kind: "upgrade", state: "stopping", requested_by: "svc", image },
      ...{ copy_id: null, until: null, to_node: null, covered_at: null },
    });
    log.info({ databaseId, engine, image }, "a database server gets another image");
  });
