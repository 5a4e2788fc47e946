/**
 * The API with two benchmark endpoints that differ in nothing but who may call them, on a Postgres of its own, where
 * the first account has a project with deployments. Prints one line of JSON, a `BenchServer`, and serves until its
 * standard input ends.
 *
 * Run by test/bench/api-server.ts.
 */
import { success } from "@svc/proto";
import pino from "pino";
import { z } from "zod";
import { createLog } from "../log.ts";
import { endpointFor } from "./endpoint.ts";
import { cookieOf, testApi } from "./testing.ts";

const endpoint = endpointFor<unknown>();

const connectionsMax = 1000;
const deploymentsCount = 20;

const reply = success({ at: z.string(), items: z.array(z.object({ id: z.string(), name: z.string() })) });
const items = Array.from({ length: 3 }, (_, at) => ({ id: `item-${at}`, name: `Item ${at}` }));
const handle = async () => ({ at: "2026-01-01T00:00:00.000Z", items });
const common = { method: "GET", summary: "Measured.", reply, handle } as const;

/** What is measured, and the credentials to measure it with: one of each kind per account. */
interface BenchServer {
  url: string;
  open: string;
  closed: string;
  project: string;
  deployment: string;
  deployments: string;
  accounts: { key: string; session: string; cookie: string }[];
}

const count = Math.min(connectionsMax, Number(process.argv[2] ?? 200));
await using api = await testApi({
  // As installed: reads are not worth a line, but the logger is there.
  log: createLog("info", "control", pino.destination(2)),
  endpoints: [
    endpoint({ ...common, path: "/bench/open", access: "none" }),
    endpoint({ ...common, path: "/bench/closed", access: "any" }),
  ],
});

const accounts: BenchServer["accounts"] = [];
const owner = await api.newUser();
for (let at = 0; at < count; at += 1) {
  const user = at === 0 ? owner : await api.newUser();
  const { key } = await api.newKey(user);
  accounts.push({ key, session: user.session, cookie: cookieOf(api.context.config, user.session) });
}
const project = await api.newProject(owner);
for (let at = 1; at < deploymentsCount; at += 1) await api.newDeployment(project, { status: "superseded" });
const newest = await api.newDeployment(project, { status: "running" });
const prefix = "/api/v1";
const server: BenchServer = {
  url: api.url,
  open: `${prefix}/bench/open`,
  closed: `${prefix}/bench/closed`,
  project: `${prefix}/projects/${project.id}`,
  deployment: `${prefix}/deployments/${newest.id}`,
  deployments: `${prefix}/projects/${project.id}/deployments`,
  accounts,
};
console.log(JSON.stringify(server));
process.stdin.resume();
await new Promise((resolve) => process.stdin.once("end", resolve));
