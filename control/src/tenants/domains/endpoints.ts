import { randomBytes } from "node:crypto";
import {
  addDomainInput,
  domainListReply,
  domainParams,
  domainReply,
  idParams,
  limits,
  routeDomainInput,
} from "@svc/proto";
import { readDomain } from "@svc/proto/domains";
import { loadCertificateFacts } from "../../fleet/certificates/facts.ts";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Config } from "../../settings/settings.ts";
import { databaseClock } from "../../stores/db/clock.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Domain, Plan, Project } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { certificateView } from "./certificate.ts";
import { edgeAddresses } from "./edge-addresses.ts";
import { ownHosts } from "./own-hosts.ts";
import { additionRefusal, type DomainPlan, type Refusal, routeRefusal } from "./rules.ts";
import { nextPendingCheck, windowEnd } from "./steps.ts";
import {
  countLooks,
  deleteDomain,
  findDomain,
  insertDomain,
  listClaims,
  listDomains,
  lockNames,
  lookLater,
  lookNow,
  openWindow,
  placeHosts,
  setTarget,
} from "./store.ts";
import { domainView } from "./view.ts";

const path = "/projects/:id/domains";
const onePath = `${path}/:domainId`;

const tokenBytes = 16;
const verifyAction = "domain.verify";
const minuteSeconds = 60;

function throwIf(refusal: Refusal | null): void {
  if (refusal !== null) throw new Refused(refusal.code, refusal.message);
}

const domainPlan = (plan: Plan): DomainPlan => ({
  ...{ maxCustomDomains: plan.max_custom_domains, maxDatabases: plan.max_databases },
  ...{ previewsEnabled: plan.previews_enabled, devSyncEnabled: plan.dev_sync_enabled },
});

/** Rows as their owner sees them. */
async function viewsOf(db: Db, config: Config, rows: readonly Domain[]) {
  const place = { host: config.domains.edgeHost, addresses: await edgeAddresses(db, config.domains) };
  if (config.acme === null) return rows.map((row) => domainView(row, place, null));
  const now = await databaseClock(db);
  const names = rows.map(({ domain }) => domain);
  const facts = await loadCertificateFacts(db, names);
  return rows.map((row) => domainView(row, place, certificateView(row, facts.get(row.domain) ?? null, now)));
}

/** What every change answers. */
async function changed(db: Db, config: Config, row: Domain) {
  const [domain] = await viewsOf(db, config, [row]);
  if (domain === undefined) throw new Error("a domain has no view");
  return { domain, queued: true as const };
}

/** The domain, its project and its name, all of them locked. Throws NOT_FOUND. */
async function lockDomain(
  tx: Db,
  caller: Parameters<typeof getProject>[1],
  { id, domainId }: { id: string; domainId: string },
): Promise<{ project: Project; domain: Domain }> {
  const project = await getProject(tx, caller, id, { lock: true });
  const known = await findDomain(tx, { projectId: project.id, domainId });
  if (known === null) throw new Refused("NOT_FOUND");
  await lockNames(tx, [known.domain]);
  const domain = await findDomain(tx, { projectId: project.id, domainId }, { lock: true });
  if (domain === null) throw new Refused("NOT_FOUND");
  return { project, domain };
}

const list = endpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "The project's custom domains, with the records that their owners write into DNS.",
  params: idParams,
  reply: domainListReply,
  async handle({ db, config }, { caller, params }) {
    const project = await getProject(db, caller, params.id);
    const { max_custom_domains: maxCustomDomains } = await planOfUser(db, project.owner_id);
    return { domains: await viewsOf(db, config, await listDomains(db, project.id)), maxCustomDomains };
  },
});

const add = endpoint({
  method: "POST",
  path,
  access: { scope: "projects:write" },
  summary: "Attach a domain. It serves once its TXT record was found, which is looked for over 48 hours.",
  params: idParams,
  body: addDomainInput,
  status: 202,
  reply: domainReply,
  errors: ["PLAN_FEATURE_UNAVAILABLE", "VALIDATION", "CONFLICT", "QUOTA_EXCEEDED", "IDEMPOTENCY_CONFLICT"],
  handle({ random, config, createOnce }, { caller, params, body, address, idempotencyKey }) {
    const request = [`POST ${path}`, params.id, body];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      // The lock keeps the count exact.
      const project = await getProject(tx, caller, params.id, { lock: true });
      const plan = domainPlan(await planOfUser(tx, project.owner_id));
      const own = await listDomains(tx, project.id);
      const read = readDomain(body.domain, ownHosts(config));
      // What the plan says of domains at all comes first, and of this one last.
      if ("problem" in read) {
        throwIf(additionRefusal(plan, 0, []));
        throw new Refused("VALIDATION", `domain: ${read.problem}`);
      }
      const { domain } = read;
      await lockNames(tx, [domain]);
      const claims = (await listClaims(tx, domain)).map((claim) => ({
        ...{ status: claim.status, isFailing: claim.failing_since !== null },
        ...{ isOwn: claim.project_id === project.id, isOfOwner: claim.owner_id === project.owner_id },
      }));
      throwIf(additionRefusal(plan, own.length, claims));
      const now = await databaseClock(tx);
      const row = await insertDomain(tx, {
        ...{ id: random.uuid(), project_id: project.id, domain, status: "pending", routing_target: "production" },
        ...{ txt_token: randomBytes(tokenBytes).toString("base64url"), created_at: now, verify_until: windowEnd(now) },
      });
      // Nobody can have written the record yet.
      await lookLater(tx, row.id, nextPendingCheck(windowEnd(now), now));
      await recordAudit(tx, { caller, address, action: "domain.create", target: project.id, detail: { domain } });
      return changed(tx, config, row);
    });
  },
});

const route = endpoint({
  method: "PATCH",
  path: onePath,
  access: { scope: "projects:write" },
  summary: "Lead a domain to another channel, which may have no deployment yet, or nowhere.",
  params: domainParams,
  body: routeDomainInput,
  status: 202,
  reply: domainReply,
  errors: ["PLAN_FEATURE_UNAVAILABLE"],
  handle: ({ db, config }, { caller, params, body: { routingTarget }, address }) =>
    db.transaction().execute(async (tx) => {
      const { project, domain } = await lockDomain(tx, caller, params);
      throwIf(routeRefusal(domainPlan(await planOfUser(tx, project.owner_id)), routingTarget));
      const row = await setTarget(tx, domain.id, routingTarget);
      await placeHosts(tx, domain.domain);
      const detail = { domain: domain.domain, from: domain.routing_target, to: routingTarget };
      await recordAudit(tx, { caller, address, action: "domain.route", target: project.id, detail });
      return changed(tx, config, row);
    }),
});

const verify = endpoint({
  method: "POST",
  path: `${onePath}/verify`,
  access: { scope: "projects:write" },
  summary: "Look at DNS now, and, unless the domain is verified, for another 48 hours.",
  params: domainParams,
  status: 202,
  reply: domainReply,
  errors: ["RATE_LIMITED", "IDEMPOTENCY_CONFLICT"],
  handle({ config, createOnce }, { caller, params, address, idempotencyKey }) {
    const request = [`POST ${onePath}/verify`, params.id, params.domainId];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      const { project, domain } = await lockDomain(tx, caller, params);
      if ((await countLooks(tx, project.id, verifyAction)) >= limits.domainVerifiesPerMinute)
        throw new ApiError("RATE_LIMITED", {
          message: "Domains of this project were looked at often just now. Try again in a minute.",
          retryAfterSeconds: minuteSeconds,
        });
      // What is verified stays so: whatever this look finds, the days of grace are the owner's.
      const row =
        domain.status === "verified" ? domain : await openWindow(tx, domain.id, windowEnd(await databaseClock(tx)));
      await lookNow(tx, domain.id);
      const detail = { domain: domain.domain };
      await recordAudit(tx, { caller, address, action: verifyAction, target: project.id, detail });
      return changed(tx, config, row);
    });
  },
});

const remove = endpoint({
  method: "DELETE",
  path: onePath,
  access: { scope: "projects:write" },
  summary: "Detach a domain. It stops serving at once, and what was proven of it is void.",
  params: domainParams,
  status: 202,
  reply: domainReply,
  handle: ({ db, config }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const { project, domain } = await lockDomain(tx, caller, params);
      await deleteDomain(tx, domain.id);
      await placeHosts(tx, domain.domain);
      const detail = { domain: domain.domain };
      await recordAudit(tx, { caller, address, action: "domain.delete", target: project.id, detail });
      return changed(tx, config, domain);
    }),
});

export const domainEndpoints = [list, add, route, verify, remove];
