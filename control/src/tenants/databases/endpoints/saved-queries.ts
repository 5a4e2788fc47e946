import {
  deletedReply,
  idParams,
  savedQueriesReply,
  savedQueryInput,
  savedQueryParams,
  savedQueryReply,
} from "@svc/proto";
import { recordAudit } from "../../../http/audit.ts";
import { Refused } from "../../../stores/refused.ts";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { savedQueryRefusal } from "../rules.ts";
import {
  countSavedQueries,
  deleteSavedQuery,
  insertSavedQuery,
  listSavedQueries,
  type SavedQuery,
} from "../saved-queries.ts";
import { getDatabaseProject, projectErrors, throwIf } from "./access.ts";

const path = "/projects/:id/database/saved-queries";

const view = ({ id, name, sql, created_at, updated_at }: SavedQuery) => ({
  ...{ id, name, sql },
  createdAt: created_at.toISOString(),
  updatedAt: updated_at.toISOString(),
});

export const listQueries = endpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "The queries that the project keeps, by name.",
  params: idParams,
  reply: savedQueriesReply,
  errors: projectErrors,
  async handle({ db }, { caller, params }) {
    const { project } = await getDatabaseProject(db, caller, params.id);
    return { queries: (await listSavedQueries(db, project.id)).map(view) };
  },
});

export const saveQuery = endpoint({
  method: "POST",
  path,
  access: { scope: "projects:write" },
  summary: "Keep a query under a name.",
  params: idParams,
  body: savedQueryInput,
  status: 201,
  reply: savedQueryReply,
  errors: [...projectErrors, "QUOTA_EXCEEDED", "CONFLICT", "IDEMPOTENCY_CONFLICT"],
  handle({ random, createOnce }, { caller, params, body, address, idempotencyKey }) {
    const request = [`POST ${path}`, params.id, body];
    return createOnce({ caller, idempotencyKey, request, status: 201 }, async (tx) => {
      // The lock keeps the count exact.
      const { project } = await getDatabaseProject(tx, caller, params.id, { lock: true });
      throwIf(savedQueryRefusal(await countSavedQueries(tx, project.id)));
      const query = await insertSavedQuery(tx, { id: random.uuid(), project_id: project.id, ...body });
      if (query === null) throw new Refused("CONFLICT", "The project keeps a query of that name already.");
      // What it is called may tell as much as what it says.
      const detail = { queryId: query.id };
      await recordAudit(tx, { caller, address, action: "saved-query.create", target: project.id, detail });
      return { query: view(query) };
    });
  },
});

export const deleteQuery = endpoint({
  method: "DELETE",
  path: `${path}/:queryId`,
  access: { scope: "projects:write" },
  summary: "Delete a query that the project keeps.",
  params: savedQueryParams,
  reply: deletedReply,
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const project = await getProject(tx, caller, params.id);
      if (!(await deleteSavedQuery(tx, project.id, params.queryId))) throw new Refused("NOT_FOUND");
      const detail = { queryId: params.queryId };
      await recordAudit(tx, { caller, address, action: "saved-query.delete", target: project.id, detail });
      return { deleted: true as const };
    }),
});
