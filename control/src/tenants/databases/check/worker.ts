import { databaseNames, keeperUser } from "@svc/proto";
import { sql, type UpdateObject } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { openKeeperPassword, openTenantPassword } from "../../../fleet/databases/secrets.ts";
import { verifierOf } from "../../../fleet/databases/verifier.ts";
import { recordAudit } from "../../../http/audit.ts";
import type { Log } from "../../../log.ts";
import type { Database } from "../../../stores/db/gen/tables.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import type { Secrets } from "../../../stores/secrets.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { type FoundBranch, readBranchFacts } from "../facts.ts";
import { loginsOf } from "../find-ready.ts";
import { holdPlanOfBranch, removeOutgrown } from "../servers.ts";
import { insertSizeSample } from "../sizes.ts";
import type { OpenLine } from "../sql/line.ts";
import type { SqlRunner, SqlTarget } from "../sql/runner.ts";
import { doubted, lockBranch, wakeBranch } from "../store.ts";
import { isDueTonight } from "./nights.ts";
import { checkSteps, readOnlyTonight } from "./steps.ts";

export interface CheckDeps {
  db: Db;
  fleet: Pick<Fleet, "observation">;
  secrets: Secrets;
  openLine: OpenLine;
  sql: Pick<SqlRunner, "ask">;
  log: Log;
}

/**
 * Work of kind `database-check`: measures a branch, decides whether it may be written to, as its owner's plan says, and sees to
 * it that its password is the one that control knows. Nothing waits for it: what does not answer is looked at another time.
 */
export function checkWorker(deps: CheckDeps): WorkHandler {
  const { db, log } = deps;
  return async (item) => {
    const { databaseId } = item.payload as { databaseId: string };
    const found = await readBranchFacts(deps, databaseId);
    if (found === null || found.address === null || found.branch.status !== "ready") return { state: "done" };
    // What it would write there may not come along.
    if (found.facts.changing) return { state: "done" };
    try {
      await check(deps, found);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      log.warn({ err: error, databaseId }, "a database could not be looked at");
    }
    return { state: "done" };

    async function check({ secrets, openLine, sql: runner }: CheckDeps, { branch, address, facts }: FoundBranch) {
      if (address === null) return;
      const isServerReadOnly = facts.servers.some(({ wanted, readOnly }) => wanted && readOnly);
      const { admin } = loginsOf(secrets, branch);
      const target = {
        ...{ projectId: branch.project_id, ownerId: null, engine: branch.engine, tenant: null, admin },
        openLine: (signal: AbortSignal) => openLine(address, signal),
      };
      const { database, role } = databaseNames(branch.id);
      const { sizeBytes } = (await runner.ask(target, "usage", { database, role })).given;
      const { verifier } = (await runner.ask(target, "readVerifier", { role })).given;
      const expected = expectedVerifier(secrets, branch);
      const { hold, restorePassword } = checkSteps({
        ...{ sizeBytes, knownBytes: branch.size_bytes, readOnly: branch.read_only, isServerReadOnly },
        ...{ standsBy: facts.standsBy, verifier, expected },
      });
      if (restorePassword !== null && expected !== null && (await hasSamePassword(db, branch))) {
        if (restorePassword === "now") await runner.ask(target, "setVerifier", { role, verifier: expected });
        await noteRestored(db, branch, restorePassword);
        log.warn(
          { databaseId: branch.id, projectId: branch.project_id, when: restorePassword },
          "a password was changed outside, and is restored",
        );
      }
      await checkKeeper(runner, target, secrets, branch);
      const held = hold && (await runner.ask(target, "holdReadOnly", { database, role, ...hold })).given;
      await db.transaction().execute(async (tx) => {
        const plan = await holdPlanOfBranch(tx, branch.id);
        const now = await lockBranch(tx, branch.id);
        if (plan === null || now === null) return;
        // What a server said is about the time since it was decided last.
        const found = held === null || !now.read_only ? {} : { read_only_soft: held.isSoft };
        const measured = { size_bytes: sizeBytes, sized_volume_bytes: sql<number>`volume_bytes` };
        await update(tx, now, { ...measured, ...found });
        // Only nights decide about what takes another server, so that nobody's app is stopped in the middle of the day.
        if (!(await isDueTonight(tx, now.id))) return;
        await insertSizeSample(tx, now.id, sizeBytes);
        // By the plan of this moment, not by the one from before it was measured: what is decided holds until the next night.
        const readOnly = readOnlyTonight({ sizeBytes, sizeLimitMb: plan.db_size_mb, readOnly: now.read_only });
        // Either way it gets a server by the plan of now.
        if (readOnly !== null) await update(tx, now, { read_only: readOnly, read_only_soft: null });
        else if (!(await removeOutgrown(tx, now, plan))) return;
        await wakeBranch(tx, now.id);
        log.info({ databaseId: now.id, projectId: now.project_id, readOnly: readOnly ?? now.read_only }, "database");
      });
    }
  };
}

/** Sees to it that whoever keeps copies is let in by the password that control knows, once it was let in at all. */
async function checkKeeper(
  runner: CheckDeps["sql"],
  target: SqlTarget,
  secrets: Secrets,
  branch: Branch,
): Promise<void> {
  if (branch.keeper_secret === null || branch.keeper_at === null) return;
  const expected = verifierOf(branch.engine, branch.id, openKeeperPassword(secrets, branch));
  const { verifier } = (await runner.ask(target, "readVerifier", { role: keeperUser })).given;
  if (verifier !== expected) await runner.ask(target, "bringKeeper", { verifier: expected });
}

/** What the server should keep of the tenant's password; null while another takes its place. */
const expectedVerifier = (secrets: Secrets, branch: Branch): string | null =>
  branch.pending_secret === null && branch.tenant_at !== null
    ? verifierOf(branch.engine, branch.id, openTenantPassword(secrets, branch))
    : null;

const isSame = (now: Branch | null, branch: Branch): boolean =>
  now !== null && now.status === "ready" && now.pending_secret === null && now.secret.equals(branch.secret);

/** Whether nobody has begun to replace its password meanwhile. */
async function hasSamePassword(db: Db, branch: Branch): Promise<boolean> {
  const now = await db.selectFrom("database").selectAll().where("id", "=", branch.id).executeTakeFirst();
  return isSame(now ?? null, branch);
}

const update = (tx: Db, { id }: Branch, change: UpdateObject<Database, "database">) =>
  tx.updateTable("database").set(change).where("id", "=", id).execute();

const doubt = async (tx: Db, branch: Branch): Promise<void> => {
  await update(tx, branch, doubted);
  await wakeBranch(tx, branch.id);
};

/**
 * Where another password was on its way meanwhile, the server is given that one again; and `later` by one that takes it.
 */
const noteRestored = (db: Db, branch: Branch, restored: "now" | "later"): Promise<void> =>
  db.transaction().execute(async (tx) => {
    const now = await lockBranch(tx, branch.id);
    if (now === null) return;
    if (restored === "later" || !isSame(now, branch)) await doubt(tx, now);
    if (isSame(now, branch)) {
      const detail = { channel: branch.channel, engine: branch.engine, databaseId: branch.id };
      const action = "database.password-restored";
      await recordAudit(tx, { caller: null, address: "", action, target: branch.project_id, detail });
    }
  });
