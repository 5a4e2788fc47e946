import type { CustomDomain, Manifest, ProjectDetailReply } from "@svc/proto";
import { expect, test } from "vitest";
import { CliError } from "../errors.ts";
import { aDeployment, aProject, aUser } from "../testing/api.ts";
import { checkNames } from "./check.ts";
import { type Facts, judge } from "./judge.ts";

const manifest = (fields: object = {}): { found: Manifest } => ({
  found: { version: 2, app: { name: "Shop", type: "ssr" }, ...fields } as Manifest,
});
const project = (fields: object = {}, deployments: object[] = [aDeployment()]): Facts["project"] => ({
  found: { ok: true, project: aProject({ type: "ssr", ...fields }), deployments } as ProjectDetailReply,
});
const error = (code: ConstructorParameters<typeof CliError>[0]) => ({
  error: new CliError(code, "Said so", { hint: "Do that" }),
});
function aDomain(fields: Partial<CustomDomain> = {}): CustomDomain {
  return {
    ...{ id: "55555555-5555-4555-8555-555555555555", domain: "shop.example", status: "verified", reason: null },
    ...{
      routingTarget: "production",
      dnsStatus: "direct",
      redirectTo: null,
      hsts: null,
      verifyUntil: null,
      certificate: null,
    },
    ...{ verifiedAt: null, lastCheckedAt: null, createdAt: "2030-01-01T00:00:00.000Z" },
    ...fields,
  };
}
const chat = manifest({ app: { name: "Chat", type: "ssr", replicas: 2 } });
const withDatabase = manifest({ database: { enabled: true, engine: "postgres" } });

const well: Facts = {
  channel: "production",
  platform: { found: { apiUrl: "http://svc.test", answeredInMs: 3 } },
  caller: { found: { reply: { ok: true, user: aUser, scopes: null, projectIds: null }, source: "config" } },
  manifest: manifest(),
  project: project(),
  devSync: { found: true },
  branch: { found: { enabled: true, engine: "postgres", status: "ready" } },
  packages: ["express"],
  domains: { found: [aDomain()] },
};

/** Status of each check, in their order, as one word. */
const statuses = (facts: Partial<Facts>) => judge({ ...well, ...facts }).map(({ status }) => status);

test("the checks come in their order, whatever they find", () => {
  expect(judge(well).map(({ name }) => name)).toEqual([...checkNames]);
  expect(statuses({})).toEqual(["ok", "ok", "ok", "ok", "ok", "ok"]);
});

test.each<[what: string, facts: Partial<Facts>, check: (typeof checkNames)[number], status: string, says: RegExp]>([
  ["no login", { caller: error("CLOUD_NOT_LOGGED_IN") }, "auth", "failed", /Said so/],
  ["a key that is refused", { caller: error("CLOUD_UNAUTHORIZED") }, "auth", "failed", /Said so/],
  ["a key that only deploys", { caller: error("CLOUD_FORBIDDEN_SCOPE") }, "auth", "ok", /only deploys/],
  ["a platform that is away", { caller: error("CLOUD_UNAVAILABLE") }, "auth", "skipped", /does not answer/],
  ["a platform that is away", { platform: error("CLOUD_UNAVAILABLE") }, "api", "failed", /Said so/],
  ["no manifest", { manifest: null }, "manifest", "warning", /no manifest/],
  ["a manifest that is wrong", { manifest: error("MANIFEST_INVALID") }, "manifest", "failed", /Said so/],
  ["no project", { project: null }, "project", "warning", /no project yet/],
  ["a project that is gone", { project: error("CLOUD_NOT_FOUND") }, "project", "failed", /Said so/],
  [
    "a suspended project",
    { project: project({ suspendedAt: "2030-01-01T00:00:00.000Z", suspendReason: "quota" }) },
    "project",
    "failed",
    /suspended \(quota\)/,
  ],
  [
    "a failed deployment above one that serves",
    { project: project({}, [aDeployment({ status: "failed" }), aDeployment()]) },
    "project",
    "warning",
    /an earlier one serves/,
  ],
  ["a static site", { project: project({ type: "static" }) }, "dev-channel", "skipped", /static/],
  ["a plan without it", { devSync: { found: false } }, "dev-channel", "warning", /does not include/],
  ["a key that may not see the plan", { devSync: error("CLOUD_FORBIDDEN_SCOPE") }, "dev-channel", "skipped", /cannot/],
  ["verified domains", {}, "project", "ok", /^shop, production running, 1 domain verified$/],
  ["no domains", { domains: { found: [] } }, "project", "ok", /^shop, production running$/],
  [
    "domains of an older platform",
    { domains: error("CLOUD_NOT_FOUND") },
    "project",
    "ok",
    /^shop, production running$/,
  ],
  [
    "a domain that waits beside a failed deployment",
    {
      project: project({}, [aDeployment({ status: "failed" })]),
      domains: { found: [aDomain({ status: "pending" })] },
    },
    "project",
    "warning",
    /deployment of shop failed/,
  ],
  [
    "a domain that was lost among others",
    {
      domains: {
        found: [aDomain(), aDomain({ status: "pending" }), aDomain({ status: "failed", reason: "It went." })],
      },
    },
    "project",
    "failed",
    /shop.example: It went/,
  ],
  ["a domain that waits", { domains: { found: [aDomain({ status: "pending" })] } }, "project", "warning", /waits for/],
  [
    "a domain that leads elsewhere",
    { domains: { found: [aDomain({ dnsStatus: "not-pointing", reason: "It leads elsewhere." })] } },
    "project",
    "warning",
    /leads elsewhere/,
  ],
  [
    "a domain whose certificate is not renewed",
    { domains: { found: [aDomain({ certificate: { status: "failed", notAfter: null, reason: "The CA is away." } })] } },
    "project",
    "warning",
    /The CA is away/,
  ],
  [
    "no database, and none wanted",
    { branch: { found: { enabled: false, engine: "postgres", status: null } } },
    "database",
    "skipped",
    /has none/,
  ],
  [
    "a database that is wanted and missing",
    { manifest: withDatabase, branch: { found: { enabled: false, engine: "postgres", status: null } } },
    "database",
    "failed",
    /wants one/,
  ],
  [
    "a database that is being made",
    { branch: { found: { enabled: true, engine: "mariadb", status: "provisioning" } } },
    "database",
    "warning",
    /still being created/,
  ],
  [
    "a database in trouble",
    { branch: { found: { enabled: true, engine: "mariadb", status: "error" } } },
    "database",
    "failed",
    /mariadb, error/,
  ],
  [
    "events of one replica that others do not hear of",
    {
      manifest: chat,
      packages: ["@svc/realtime"],
      branch: { found: { enabled: false, engine: "postgres", status: null } },
    },
    "database",
    "warning",
    /only the visitors of the replica/,
  ],
  [
    "the same before there is a project",
    { manifest: chat, packages: ["@svc/realtime"], branch: null, project: null },
    "database",
    "warning",
    /only the visitors of the replica/,
  ],
  [
    "events that a database carries",
    { manifest: chat, packages: ["@svc/realtime"] },
    "database",
    "ok",
    /postgres, ready/,
  ],
  ["no databases at all", { branch: error("CLOUD_NOT_FOUND") }, "database", "skipped", /offers no/],
  [
    "no databases at all, though wanted",
    { manifest: withDatabase, branch: error("CLOUD_NOT_FOUND") },
    "database",
    "failed",
    /offers no/,
  ],
])("%s: %o", (_what, facts, name, status, says) => {
  const check = judge({ ...well, ...facts }).find((each) => each.name === name);
  expect(check).toMatchObject({ status, detail: expect.stringMatching(says) });
});
