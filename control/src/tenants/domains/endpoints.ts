import { randomBytes } from "node:crypto";
import {
  addDomainInput,
  type ChangeDomainInput,
  changeDomainInput,
  domainListReply,
  domainParams,
  domainReply,
  idParams,
  limits,
} from "@svc/proto";
import { readDomain } from "@svc/proto/domains";
import { dropAlert } from "../../fleet/alerts/raise.ts";
import { tryAgainSoon } from "../../fleet/certificates/store.ts";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { databaseClock } from "../../stores/db/clock.ts";
import type { Domain } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { changed, viewsOf } from "./endpoints/answer.ts";
import { changeOf } from "./endpoints/change.ts";
import { lockDomain, placeAll } from "./endpoints/locked.ts";
import { loadDomainPlan, throwIf } from "./endpoints/refuse.ts";
import { ownHosts } from "./own-hosts.ts";
import { additionRefusal } from "./rules.ts";
import { nextPendingCheck, windowEnd } from "./steps.ts";
import {
  changeDomain,
  countLooks,
  deleteDomain,
  insertDomain,
  listClaims,
  listDomains,
  lockNames,
  lookLater,
  lookNow,
  openWindow,
} from "./store.ts";

const path = "/projects/:id/domains";
const onePath = `${path}/:domainId`;

const tokenBytes = 16;
const verifyAction = "domain.verify";
const minuteSeconds = 60;

const list = endpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "The project's custom domains, with the records that their owners write into DNS.",
  params: idParams,
  reply: domainListReply,
  async handle({ db, config }, { caller, params }) {
    const project = await getProject(db, caller, params.id);
    const { maxCustomDomains } = await loadDomainPlan(db, project.owner_id);
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
      const plan = await loadDomainPlan(tx, project.owner_id);
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

/** What the audit says of a change: each thing that was changed by its name. */
function changesOf(
  { domain, routing_target: from }: Domain,
  { routingTarget: to, redirectTo, hsts }: ChangeDomainInput,
): { action: string; detail: Record<string, unknown> }[] {
  return [
    ...(to === undefined ? [] : [{ action: "domain.route", detail: { domain, from, to } }]),
    ...(redirectTo === undefined ? [] : [{ action: "domain.redirect", detail: { domain, redirectTo } }]),
    ...(hsts === undefined ? [] : [{ action: "domain.hsts", detail: { domain, hsts } }]),
  ];
}

const change = endpoint({
  method: "PATCH",
  path: onePath,
  access: { scope: "projects:write" },
  summary:
    "Lead a domain to another channel, which may have no deployment yet, nowhere, or on to another host of the project; and say whether browsers are to use TLS alone.",
  params: domainParams,
  body: changeDomainInput,
  status: 202,
  reply: domainReply,
  errors: ["PLAN_FEATURE_UNAVAILABLE", "VALIDATION", "CONFLICT"],
  handle: ({ db, config }, { caller, params, body, address }) =>
    db.transaction().execute(async (tx) => {
      const locked = await lockDomain(tx, caller, params);
      const { project, domain } = locked;
      const row = await changeDomain(tx, domain.id, await changeOf(tx, config, locked, body));
      await placeAll(tx, locked);
      for (const { action, detail } of changesOf(domain, body))
        await recordAudit(tx, { caller, address, action, target: project.id, detail });
      return changed(tx, config, row);
    }),
});

const verify = endpoint({
  method: "POST",
  path: `${onePath}/verify`,
  access: { scope: "projects:write" },
  summary:
    "Look at DNS now, and, unless the domain is verified, for another 48 hours. A certificate that failed is tried again soon.",
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
      const now = await databaseClock(tx);
      const row = domain.status === "verified" ? domain : await openWindow(tx, domain.id, windowEnd(now));
      await lookNow(tx, domain.id);
      if (domain.status === "verified") await tryAgainSoon(tx, domain.domain, now);
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
      const locked = await lockDomain(tx, caller, params);
      const { project, domain } = locked;
      await deleteDomain(tx, domain.id);
      for (const event of ["domainFailing", "certificateFailing"] as const)
        await dropAlert(tx, { projectId: project.id, event, subject: domain.domain });
      await placeAll(tx, locked);
      const detail = { domain: domain.domain };
      await recordAudit(tx, { caller, address, action: "domain.delete", target: project.id, detail });
      return changed(tx, config, domain);
    }),
});

export const domainEndpoints = [list, add, change, verify, remove];
