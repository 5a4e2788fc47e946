import {
  lifecycleReply,
  limits,
  patchProjectReply,
  projectDetailReply,
  projectListReply,
  utf8Length,
} from "@svc/proto";
import { z } from "zod";
import type { Call } from "../call.ts";
import { countFitting } from "../fit.ts";
import { tool, untrusted } from "../tool.ts";
import { deploymentFields, deploymentOf, projectFields, projectOf, saidOf, saidOfDeployment, takes } from "./fields.ts";

const listProjects = tool({
  name: "list_projects",
  title: "List projects",
  description:
    "The projects that the other tools work on: what each is called, its address, whether it runs. One, unless the server was started with --all-projects.",
  effect: "reads",
  ofProject: false,
  input: { cursor: takes.cursor },
  output: {
    projects: z.array(projectFields.extend({ status: z.string().nullable() })),
    nextCursor: z.string().nullable().describe("Send it as cursor for more; null: that is all"),
  },
  async run(call, { cursor }) {
    const { projects } = await call.api.get("/projects", projectListReply);
    const meant = call.reach.allProjects ? null : (await call.target()).id;
    const all = projects
      .filter(({ id }) => meant === null || id === meant)
      .map((each) => ({ ...projectOf(each), status: each.status }));
    const from = Number(cursor ?? 0);
    const page = all.slice(from);
    const count = countFitting(page);
    return { projects: page.slice(0, count), nextCursor: count < page.length ? String(from + count) : null };
  },
});

const deploymentsShown = 5;

const getProject = tool({
  name: "get_project",
  title: "Show a project",
  description: "A project with its newest deployments on production and dev: what serves, and what was tried last.",
  effect: "reads",
  input: {},
  output: {
    project: projectFields,
    deployments: z.array(deploymentFields).describe("Newest first"),
    untrusted: untrusted({
      deployments: z.record(z.string(), z.looseObject(saidOfDeployment)).describe("By the ids of deployments"),
    }),
  },
  async run(call) {
    const { id } = await call.target();
    const { project, deployments } = await call.api.get(`/projects/${id}`, projectDetailReply);
    // What serves may have many later ones before it that failed.
    const shown = deployments.filter(({ status }, at) => at < deploymentsShown || status === "running");
    return {
      project: projectOf(project),
      deployments: shown.map(deploymentOf),
      untrusted: { deployments: Object.fromEntries(shown.map((each) => [each.id, saidOf(each)])) },
    };
  },
});

const passwordBytesMax = limits.sitePasswordBytesMax;

/** Sets or removes the site password. The project's slug was repeated by then. */
async function protect(call: Call, password: string | null) {
  if (password !== null) call.hide(password);
  const { id } = await call.target();
  const { project } = await call.api.patch(`/projects/${id}`, patchProjectReply, { body: { password } });
  return { project: projectOf(project) };
}

const setPassword = tool({
  name: "set_password",
  title: "Protect the site by a password",
  description:
    "Sets the password that every visitor of the site is asked for, on all channels, within moments. Everybody who is logged in there has to type the new one.",
  effect: "destroys",
  idempotent: true,
  input: {
    password: z
      .string()
      .min(1)
      .refine((text) => utf8Length(text) <= passwordBytesMax, `has more than ${passwordBytesMax} bytes`)
      .describe(`At most ${passwordBytesMax} bytes. No tool tells it again`),
  },
  output: { project: projectFields },
  run: (call, { password }) => protect(call, password),
});

const clearPassword = tool({
  name: "clear_password",
  title: "Open the site to everybody",
  description: "Removes the site password: everybody who knows the address sees the site, on all channels.",
  effect: "destroys",
  idempotent: true,
  input: {},
  output: { project: projectFields },
  run: (call) => protect(call, null),
});

const queued = {
  queued: z.literal(true),
  deploymentId: z.string().describe("The deployment that is stopped or started: look at it with deploy_status"),
};

/** Queues a stop or a start of production. */
async function move(call: Call, verb: "stop" | "start") {
  const { id } = await call.target();
  const { deploymentId, warnings } = await call.api.post(`/projects/${id}/${verb}`, lifecycleReply);
  return { queued: true as const, deploymentId, ...(warnings !== undefined && { warnings }) };
}

const stop = tool({
  name: "stop",
  title: "Stop production",
  description: "Takes the production deployment down: the site answers 503 until start. Previews and dev go on.",
  effect: "destroys",
  idempotent: true,
  input: {},
  output: queued,
  run: (call) => move(call, "stop"),
});

const start = tool({
  name: "start",
  title: "Start production",
  description: "Puts the production deployment up again that was stopped.",
  effect: "changes",
  idempotent: true,
  input: {},
  output: queued,
  run: (call) => move(call, "start"),
});

export const projectTools = [listProjects, getProject, setPassword, clearPassword, stop, start];
