import { hash } from "@node-rs/bcrypt";
import {
  createProjectInput,
  createProjectReply,
  deleteProjectReply,
  idParams,
  limits,
  type PatchProjectInput,
  patchProjectInput,
  patchProjectReply,
  projectDetailReply,
  projectListReply,
} from "@svc/proto";
import type { Updateable } from "kysely";
import type { ProjectTable } from "../db/tables.ts";
import { listDeployments } from "../deployments/listing.ts";
import { notify, routeChannel } from "../deployments/store.ts";
import { deploymentListView, viewFor } from "../deployments/view.ts";
import { recordAudit } from "../http/audit.ts";
import { endpoint } from "../http/endpoint.ts";
import { ApiError } from "../http/errors.ts";
import { createOnce } from "../http/idempotency.ts";
import { createProject } from "./create.ts";
import { rename } from "./rename/endpoint.ts";
import { requestTeardown } from "./request-teardown.ts";
import { getProject, listProjects, updateProject } from "./store.ts";
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
  async handle({ db, config, newId }, { caller, body, address, idempotencyKey }) {
    if (caller.projectIds !== null) {
      throw new ApiError("FORBIDDEN_SCOPE", { message: "A key that is limited to projects cannot create one." });
    }
    return createOnce(db, { caller, idempotencyKey, request: ["POST /projects", body], status: 201 }, async (tx) => {
      const project = await createProject(tx, {
        id: newId(),
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

const detail = endpoint({
  method: "GET",
  path: "/projects/:id",
  access: { scope: "projects:read" },
  summary: "One project with its newest production and dev deployments.",
  params: idParams,
  reply: projectDetailReply,
  async handle({ db, config, fleet }, { caller, params }) {
    const { id } = params;
    // Each looks itself whether the caller may see what it returns, so none waits for another.
    const [project, production, dev] = await Promise.all([
      getProject(db, caller, id),
      listDeployments(db, caller, id, { channel: "production" }, limits.productionDeploymentsInDetail),
      listDeployments(db, caller, id, { channel: "dev" }, limits.devDeploymentsInDetail),
    ]);
    const deployments = [...production, ...dev].sort((a, b) => b.number - a.number);
    return {
      project: projectView(project, config.content),
      deployments: deployments.map((each) => deploymentListView(each, viewFor(caller, { config, fleet }))),
    };
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
  async handle({ db, config, now }, { caller, params, body, address }) {
    // Seen first, so that nobody makes us hash passwords for a project that is not theirs.
    await getProject(db, caller, params.id);
    const change = { ...(await columnsOf(body)), updated_at: now() };
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
      if (body.password !== undefined) await notify(tx, routeChannel);
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

export const projectEndpoints = [list, create, detail, rename, patch, remove];
