import {
  adminDatabaseReply,
  cancelDatabaseChangeReply,
  changeDatabaseReply,
  idParams,
  moveDatabaseInput,
  type RestoreDatabaseInput,
  restoreDatabaseInput,
} from "@svc/proto";
import { type Actor, recordAudit } from "../../../http/audit.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Change } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { throwIf } from "../endpoints/access.ts";
import { lockBranch } from "../store.ts";
import { beginMove, takesWork } from "./move.ts";
import { namesOf, readDatabase } from "./read.ts";
import { beginReopen, beginRestore } from "./restore.ts";
import { cancelRefusal } from "./rules.ts";
import { findOpenChange, lockChange, setCancelled, wakeChange } from "./store.ts";
import { changeView } from "./view.ts";

const path = "/admin/databases/:id";
const common = ["CONFLICT", "DATABASE_NOT_READY", "IDEMPOTENCY_CONFLICT"] as const;

async function getLocked(tx: Db, id: string): Promise<Branch> {
  const branch = await lockBranch(tx, id);
  if (branch === null) throw new Refused("NOT_FOUND");
  return branch;
}

/** The machine that has the branch's volume; null: it is lost, or there is none. */
async function homeOf(tx: Db, { node_id }: Branch): Promise<{ name: string; takesWork: boolean } | null> {
  const node = await tx
    .selectFrom("node")
    .select(["name", "lifecycle", "drain", "schedulable"])
    .where("id", "=", node_id)
    .where("lifecycle", "=", "active")
    .executeTakeFirst();
  return node === undefined ? null : { name: node.name, takesWork: takesWork(node) };
}

const audit = (
  tx: Db,
  { caller, address }: { caller: Actor; address: string },
  { channel, engine, id, project_id }: Branch,
  change: Pick<Change, "id" | "kind" | "until" | "covered_at" | "to_node" | "volume_generation">,
  action: string,
) =>
  recordAudit(tx, {
    ...{ caller, address, action, target: project_id },
    detail: {
      ...{ channel, engine, databaseId: id, changeId: change.id, kind: change.kind },
      ...(change.to_node !== null && { node: change.to_node }),
      ...(change.volume_generation !== null && { generation: change.volume_generation }),
      ...(change.until !== null && { until: change.until.toISOString() }),
      ...(change.covered_at !== null && { coveredAt: change.covered_at.toISOString() }),
    },
  });

const show = endpoint({
  method: "GET",
  path,
  access: "admin",
  summary:
    "All that is known of one database: its server, its volumes, its copies, and what was and is done with them.",
  params: idParams,
  reply: adminDatabaseReply,
  async handle({ db, fleet }, { params }) {
    const database = await readDatabase({ db, fleet }, params.id, await namesOf(db));
    if (database === null) throw new Refused("NOT_FOUND");
    return { database };
  },
});

const restore = endpoint({
  method: "POST",
  path: `${path}/restore`,
  access: "admin",
  summary:
    "Restore a database from a copy, to its end or to a moment, or from a volume that it had before. What was written after that is lost; its volume is kept for a week.",
  params: idParams,
  body: restoreDatabaseInput.default({}),
  status: 202,
  reply: changeDatabaseReply,
  errors: [...common, "DESTRUCTIVE_CONFIRMATION_REQUIRED"],
  handle({ random, createOnce }, { caller, params, body, address, idempotencyKey }) {
    const request = [`POST ${path}/restore`, params.id, body satisfies RestoreDatabaseInput];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      const branch = await getLocked(tx, params.id);
      const { volume, ...rest } = body;
      const asked = { ...rest, id: random.uuid(), requestedBy: caller.userId };
      const change =
        volume === undefined
          ? await beginRestore(tx, branch, asked)
          : await beginReopen(tx, branch, { ...asked, volume });
      await audit(tx, { caller, address }, branch, change, "database.restore");
      const view = changeView(change, await namesOf(tx));
      return { change: view, coveredAt: view.until ?? view.coveredAt };
    });
  },
});

const move = endpoint({
  method: "POST",
  path: `${path}/move`,
  access: "admin",
  summary:
    "Move a database to another machine. It is copied while it serves; nobody can write for a moment at the end.",
  params: idParams,
  body: moveDatabaseInput.default({}),
  status: 202,
  reply: changeDatabaseReply,
  errors: common,
  handle({ random, createOnce }, { caller, params, body, address, idempotencyKey }) {
    const request = [`POST ${path}/move`, params.id, body];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      const branch = await getLocked(tx, params.id);
      const change = await beginMove(tx, branch, {
        ...{ id: random.uuid(), requestedBy: caller.userId, to: body.to ?? null },
      });
      await audit(tx, { caller, address }, branch, change, "database.move");
      return { change: changeView(change, await namesOf(tx)), coveredAt: null };
    });
  },
});

const cancel = endpoint({
  method: "POST",
  path: `${path}/cancel`,
  access: "admin",
  summary: "End what a database is on its way to, as long as it has not its next volume: it is as it was before.",
  params: idParams,
  status: 202,
  reply: cancelDatabaseChangeReply,
  errors: common,
  handle({ createOnce }, { caller, params, address, idempotencyKey }) {
    const request = [`POST ${path}/cancel`, params.id];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      const branch = await getLocked(tx, params.id);
      const open = await findOpenChange(tx, branch.id);
      throwIf(cancelRefusal(open?.state ?? null, await homeOf(tx, branch)));
      // With its branch locked it is where it was.
      const change = open && (await lockChange(tx, open.id, open.state));
      if (change === null) throw new Refused("CONFLICT");
      await setCancelled(tx, change.id);
      await wakeChange(tx, change.id);
      await audit(tx, { caller, address }, branch, change, "database.cancel");
      return { change: changeView(change, await namesOf(tx)) };
    });
  },
});

export const changeEndpoints = [show, restore, move, cancel];
