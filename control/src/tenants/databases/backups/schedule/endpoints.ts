import { databaseSettingsInput, databaseSettingsReply, idParams } from "@svc/proto";
import { recordAudit } from "../../../../http/audit.ts";
import { planOfUser } from "../../../../identity/plans/of-user.ts";
import type { Db } from "../../../../stores/db/pool.ts";
import { endpoint } from "../../../endpoint.ts";
import { getProject } from "../../../projects/store.ts";
import { refuseSuspended } from "../../../projects/suspended.ts";
import { projectErrors, throwIf } from "../../endpoints/access.ts";
import { scheduleRefusal } from "./rules.ts";
import { listSchedules, saveSchedule } from "./store.ts";
import { problemsView, scheduleView } from "./view.ts";

const path = "/projects/:id/database/settings";

async function settingsOf(db: Db, projectId: string) {
  const rows = await listSchedules(db, projectId);
  return { backups: scheduleView(rows), backupProblems: problemsView(rows) };
}

const read = endpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "Which databases of a project are backed up every night, and how many backups of each are kept.",
  params: idParams,
  reply: databaseSettingsReply,
  handle: async ({ db }, { caller, params }) => settingsOf(db, (await getProject(db, caller, params.id)).id),
});

const change = endpoint({
  method: "PUT",
  path,
  access: { scope: "projects:write" },
  summary: "Have databases backed up every night, or none any more. Backups that are there stay.",
  params: idParams,
  body: databaseSettingsInput,
  reply: databaseSettingsReply,
  errors: [...projectErrors, "QUOTA_EXCEEDED"],
  handle: ({ db }, { caller, params, body: { backups }, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id, { lock: true });
      // To end it is never refused, as no deletion is.
      if (backups !== null) {
        const plan = await planOfUser(tx, project.owner_id);
        throwIf(scheduleRefusal({ maxDatabases: plan.max_databases, maxBackups: plan.max_backups, ...backups }));
        refuseSuspended(project);
      }
      await saveSchedule(tx, project.id, backups);
      const detail = { backups };
      await recordAudit(tx, { caller, address, action: "database.settings", target: project.id, detail });
      return settingsOf(tx, project.id);
    }),
});

export const scheduleEndpoints = [read, change];
