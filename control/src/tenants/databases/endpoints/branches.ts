import {
  createDatabaseInput,
  createDatabaseReply,
  databaseBranchesReply,
  databaseChannels,
  databaseEngines,
  databaseQuery,
  databaseReply,
  deleteDatabaseReply,
  idParams,
} from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { lockCaller } from "../../../identity/accounts/store.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { readDurability } from "../copies/durability.ts";
import { decideCreation } from "../rules.ts";
import { countOtherProjects, dropBranches, insertBranch, listBranches, retryBranch, wakeBranch } from "../store.ts";
import { branchView } from "../view.ts";
import { getDatabaseProject, projectErrors } from "./access.ts";

const path = "/projects/:id/database";

export const create = endpoint({
  method: "POST",
  path,
  access: { scope: "projects:write" },
  summary: "Make the database of a channel, empty; poll until it is ready. Asked again, the same goes on.",
  params: idParams,
  query: databaseQuery,
  body: createDatabaseInput.default({}),
  status: 202,
  reply: createDatabaseReply,
  errors: [
    ...projectErrors,
    ...(["VALIDATION", "QUOTA_EXCEEDED", "DATABASE_NOT_READY"] as const),
    ...(["DATABASE_ENGINE_CONFLICT", "DATABASE_ENGINE_UNAVAILABLE"] as const),
  ],
  handle: ({ db, secrets, random, config }, { caller, params, query: { channel }, body, address }) =>
    db.transaction().execute(async (tx) => {
      // So that two projects cannot take the plan's last place.
      await lockCaller(tx, caller);
      const { project, plan } = await getDatabaseProject(tx, caller, params.id, { lock: true });
      const branches = await listBranches(tx, project.id);
      const branch = branches.find((each) => each.channel === channel);
      const decided = decideCreation({
        ...{ type: project.type, channel, asked: body.engine ?? null, fixed: project.db_engine },
        offered: databaseEngines.filter((engine) => engine !== "mariadb" || config.databases.mariadb),
        status: branch?.status ?? null,
        otherProjects: await countOtherProjects(tx, project.owner_id, project.id),
        hasBranch: branches.length > 0,
        maxDatabases: plan.max_databases,
      });
      if ("refusal" in decided) throw new Refused(decided.refusal.code, decided.refusal.message);
      const { engine } = decided;
      const databaseId = branch?.id ?? random.uuid();
      const told = { channel, engine, databaseId };
      if (decided.do === "keep") return { ...told, status: decided.status };
      if (decided.do === "retry") await retryBranch(tx, databaseId);
      else await insertBranch(tx, secrets, { id: databaseId, projectId: project.id, channel, engine });
      await wakeBranch(tx, databaseId);
      const detail = { channel, engine, databaseId };
      await recordAudit(tx, { caller, address, action: "database.create", target: project.id, detail });
      return { ...told, status: "provisioning" as const };
    }),
});

export const read = endpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "How far the database of a channel is, and what it may take.",
  params: idParams,
  query: databaseQuery,
  reply: databaseReply,
  async handle({ db }, { caller, params, query: { channel } }) {
    const project = await getProject(db, caller, params.id);
    const plan = await planOfUser(db, project.owner_id);
    const branches = await listBranches(db, project.id);
    const durability = await readDurability(
      db,
      branches.map(({ id }) => id),
    );
    const branch = branches.find((each) => each.channel === channel) ?? null;
    return branchView(channel, branch, { project, plan, durability });
  },
});

export const list = endpoint({
  method: "GET",
  path: `${path}/branches`,
  access: { scope: "projects:read" },
  summary: "The databases of all three channels, those that are missing included.",
  params: idParams,
  reply: databaseBranchesReply,
  async handle({ db }, { caller, params }) {
    const project = await getProject(db, caller, params.id);
    const plan = await planOfUser(db, project.owner_id);
    const branches = await listBranches(db, project.id);
    const durability = await readDurability(
      db,
      branches.map(({ id }) => id),
    );
    return {
      engine: project.db_engine,
      branches: databaseChannels.map((channel) =>
        branchView(channel, branches.find((each) => each.channel === channel) ?? null, { project, plan, durability }),
      ),
    };
  },
});

export const drop = endpoint({
  method: "DELETE",
  path,
  access: { scope: "projects:write" },
  summary: "Drop the database of a channel, with all that is in it. What runs there loses it.",
  params: idParams,
  query: databaseQuery,
  status: 202,
  reply: deleteDatabaseReply,
  handle: ({ db }, { caller, params, query: { channel }, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id, { lock: true });
      const branch = (await listBranches(tx, project.id)).find((each) => each.channel === channel);
      if (branch === undefined) throw new Refused("NOT_FOUND", "This channel has no database.");
      const { id: databaseId, engine } = branch;
      if (branch.status !== "dropping") {
        await dropBranches(tx, [project.id], channel);
        const detail = { channel, engine, databaseId };
        await recordAudit(tx, { caller, address, action: "database.drop", target: project.id, detail });
      }
      return { channel, engine, databaseId, status: "dropping" as const };
    }),
});
