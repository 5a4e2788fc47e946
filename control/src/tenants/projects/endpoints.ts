import { hash } from "@node-rs/bcrypt";
import {
  createProjectInput,
  createProjectReply,
  deleteProjectReply,
  idParams,
  type PatchProjectInput,
  patchProjectInput,
  patchProjectReply,
  projectListReply,
} from "@svc/proto";
import type { Updateable } from "kysely";
import { routeTopic } from "../../fleet/cluster/topics.ts";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { notify } from "../../stores/db/notify.ts";
import type { ProjectTable } from "../../stores/db/tables.ts";
import { endpoint } from "../endpoint.ts";
import { createProject } from "./create.ts";
import { getProject, listProjects, updateProject } from "./store.ts";
import { requestTeardown } from "./teardown/request.ts";
import { createdProjectView, projectListView, projectView } from "./view.ts";

/** Work factor of site passwords: some 80 ms, off the event loop. */
const bcryptCost = 10;

const list = endpoint({
  method: "GET",
  path: "/projects",
  access: { scope: "projects:read" },
  summary: "The caller's projects, newest first.",
  reply: projectListReply,
  async handle({ db, config }, { caller }) {
    const projects = await listProjects(db, caller);
    return { projects: projects.map((project) => projectListView(project, config.content)) };
  },
});

const create = endpoint({
  method: "POST",
  path: "/projects",
  access: { scope: "projects:write" },
  summary: "Create a project.",
  body: createProjectInput,
  status: 201,
  reply: createProjectReply,
  errors: ["PLAN_FEATURE_UNAVAILABLE", "QUOTA_EXCEEDED", "SLUG_CONFLICT", "IDEMPOTENCY_CONFLICT"],
  async handle({ random, config, createOnce }, { caller, body, address, idempotencyKey }) {
    if (caller.projectIds !== null) {
      throw new ApiError("FORBIDDEN_SCOPE", { message: "A key that is limited to projects cannot create one." });
    }
    return createOnce({ caller, idempotencyKey, request: ["POST /projects", body], status: 201 }, async (tx) => {
      const project = await createProject(tx, {
        id: random.uuid(),
        ownerId: caller.userId,
        input: body,
        content: config.content,
      });
      await recordAudit(tx, {
        caller,
        address,
        action: "project.create",
        target: project.id,
        detail: { slug: project.slug, type: project.type },
      });
      return { project: createdProjectView(project, config.content) };
    });
  },
});

const patch = endpoint({
  method: "PATCH",
  path: "/projects/:id",
  access: { scope: "projects:write" },
  summary: "Change a project's repository link, branch, deploy mode or site password.",
  params: idParams,
  body: patchProjectInput,
  reply: patchProjectReply,
  async handle({ clock, db, config }, { caller, params, body, address }) {
    // Seen first, so that nobody makes us hash passwords for a project that is not theirs.
    await getProject(db, caller, params.id);
    const change = { ...(await columnsOf(body)), updated_at: clock.now() };
    return db.transaction().execute(async (tx) => {
      const { id } = await getProject(tx, caller, params.id, { lock: true });
      const project = await updateProject(tx, id, change);
      await recordAudit(tx, {
        caller,
        address,
        action: "project.update",
        target: id,
        detail: { fields: Object.keys(body) },
      });
      // Edges ask for the password by what is in the route table.
      if (body.password !== undefined) await notify(tx, routeTopic, id);
      return { project: projectView(project, config.content) };
    });
  },
});

async function columnsOf(body: PatchProjectInput): Promise<Updateable<ProjectTable>> {
  const { password } = body;
  return {
    ...(body.repoUrl !== undefined && { repo_url: body.repoUrl }),
    ...(body.repoId !== undefined && { repo_id: body.repoId }),
    ...(body.productionBranch !== undefined && { production_branch: body.productionBranch }),
    ...(body.deployMode !== undefined && { deploy_mode: body.deployMode }),
    ...(password !== undefined && { password_hash: password === null ? null : await hash(password, bcryptCost) }),
  };
}

const remove = endpoint({
  method: "DELETE",
  path: "/projects/:id",
  access: { scope: "projects:write" },
  summary: "Delete a project with everything that belongs to it.",
  params: idParams,
  reply: deleteProjectReply,
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const { id, slug } = await getProject(tx, caller, params.id, { lock: true });
      await requestTeardown(tx, [id]);
      await recordAudit(tx, { caller, address, action: "project.delete", target: id, detail: { slug } });
      return { id };
    }),
});

export const projectEndpoints = [list, create, patch, remove];
