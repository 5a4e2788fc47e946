import { leadsHere } from "@svc/proto";
import { apexOf, proofName, proofValue } from "@svc/proto/domains";
import { clearAlert, raiseAlert } from "../../fleet/alerts/raise.ts";
import { forgetFailures } from "../../fleet/certificates/store.ts";
import { addressSet } from "../../fleet/images/address-set.ts";
import { recordAudit } from "../../http/audit.ts";
import type { Log } from "../../log.ts";
import type { Config } from "../../settings/settings.ts";
import { type DatabaseClock, databaseClock } from "../../stores/db/clock.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Domain } from "../../stores/db/tables.ts";
import type { Answer } from "../../stores/dns/answer.ts";
import { agreed, type Questions, type Resolver } from "../../stores/dns/resolver.ts";
import { askZone, type ZoneOptions } from "../../stores/dns/zone.ts";
import { enqueue } from "../../stores/work/queue.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { edgeAddresses } from "./edge-addresses.ts";
import { type DomainNotice, noticeWork } from "./notices.ts";
import { pointingOf } from "./pointing.ts";
import { afterLook, type DomainState, isOutdated, type Look, type News } from "./steps.ts";
import { type DomainLook, listClaims, listFollowers, lockNames, lookLater, placeHosts, storeVerdict } from "./store.ts";

/** What came too late is looked at again; whoever overtook it may have the work by now. */
const againMs = 1_000;

export interface DomainWorkerDeps {
  db: Db;
  resolver: Resolver;
  settings: Config["domains"];
  log: Log;
  /** Where servers of zones are asked: see `ZoneOptions`. */
  nameServerAt?: ZoneOptions["serverAt"];
  /** The database's unless given. */
  clock?: DatabaseClock;
}

/** Work of kind `domain`: looks once at what DNS says of a domain, acts on it, and leaves the next look to the queue. */
export function domainWorker(deps: DomainWorkerDeps): WorkHandler {
  const { db, log, clock = databaseClock } = deps;
  return async (item) => {
    const { domainId } = item.payload as DomainLook;
    const known = await findById(db, domainId);
    if (known === null) return { state: "done" };
    const lookedAt = await clock(db);
    const look = await lookAt(deps, known);
    const isOver = await db.transaction().execute(async (tx) => {
      const project = await tx
        .selectFrom("project")
        .select("id")
        .where("id", "=", known.project_id)
        .where("deleting_at", "is", null)
        .forNoKeyUpdate()
        .executeTakeFirst();
      if (project === undefined) return true;
      const followers = (await listFollowers(tx, domainId)).map(({ domain }) => domain);
      await lockNames(tx, [known.domain, ...followers]);
      // Somebody may have asked for another window meanwhile, or detached it.
      const row = await findById(tx, domainId, { lock: true });
      if (row === null) return true;
      const now = await clock(tx);
      if (isOutdated(lookedAt, row.last_checked_at, now)) return false;
      const isHeld = (await listClaims(tx, row.domain)).some(
        (claim) => claim.status === "verified" && claim.project_id !== row.project_id,
      );
      const { nextCheckAt, news, ...verdict } = afterLook(row.domain, stateOf(row), look, isHeld, now);
      await storeVerdict(tx, row.id, verdict, lookedAt);
      if (verdict.status !== row.status) for (const name of [row.domain, ...followers]) await placeHosts(tx, name);
      const isLedHereNow = leadsHere(verdict.dnsStatus) && !leadsHere(row.dns_status);
      if (news === "verified" || (verdict.status === "verified" && isLedHereNow))
        await forgetFailures(tx, row.domain, now);
      if (news !== null) await tell(tx, row, news);
      await tellChange(tx, row, verdict, news);
      if (nextCheckAt !== null) await lookLater(tx, row.id, nextCheckAt);
      if (verdict.status !== row.status)
        log.info(
          { projectId: row.project_id, domain: row.domain, from: row.status, to: verdict.status, why: verdict.reason },
          "domain",
        );
      return true;
    });
    return isOver ? { state: "done" } : { retryAfterMs: againMs };
  };
}

async function findById(db: Db, id: string, { lock = false } = {}): Promise<Domain | null> {
  const row = await db
    .selectFrom("custom_domain")
    .selectAll()
    .where("id", "=", id)
    .$if(lock, (query) => query.forUpdate())
    .executeTakeFirst();
  return row ?? null;
}

async function lookAt(deps: DomainWorkerDeps, { domain, txt_token }: Domain): Promise<Look> {
  const { db, resolver, settings } = deps;
  const [proof, addresses, ours] = await Promise.all([
    readProof(deps, domain, proofValue(txt_token)),
    resolver.addresses(domain),
    ourAddresses(db, resolver, settings),
  ]);
  const dns =
    addresses.kind === "unknown"
      ? null
      : pointingOf(
          domain,
          addresses.kind === "found" ? addresses.values : [],
          addressSet(ours),
          addressSet(settings.cdnRanges),
        );
  return { proof: proof.kind === "unknown" ? { unknown: proof.reason } : proof.kind, dns };
}

/**
 * Whether the proof is there. Who looked before it was written has made recursors remember that there is none, for as long as
 * the zone says: then its own servers are asked. They add what recursors do not know yet, and take nothing away.
 */
async function readProof({ resolver, nameServerAt }: DomainWorkerDeps, domain: string, wanted: string) {
  const name = proofName(domain);
  const ask = async (server: Questions): Promise<Answer<string>> => {
    const texts = await server.txt(name);
    if (texts.kind !== "found") return texts;
    // Servers may differ in whatever else stands there.
    return texts.values.includes(wanted) ? { kind: "found", values: [wanted] } : { kind: "absent" };
  };
  const remembered = await agreed(resolver, ask);
  if (remembered.kind === "found") return remembered;
  const zone = { resolver, ...(nameServerAt && { serverAt: nameServerAt }) };
  const said = await askZone(zone, name, apexOf(domain), ask);
  return said.kind === "found" ? said : remembered;
}

/** Where edges are, also those that only the name says which CNAMEs lead to. */
async function ourAddresses(db: Db, resolver: Resolver, settings: Config["domains"]): Promise<string[]> {
  const [known, named] = await Promise.all([edgeAddresses(db, settings), resolver.addresses(settings.edgeHost)]);
  return [...known, ...(named.kind === "found" ? named.values : [])];
}

const stateOf = (row: Domain): DomainState => ({
  ...{ status: row.status, reason: row.reason, dnsStatus: row.dns_status, verifyUntil: row.verify_until },
  ...{ verifiedAt: row.verified_at, failingSince: row.failing_since },
  ...{ warnings: row.warnings, warnedAt: row.warned_at },
});

/** That the proof of a name is gone is an alert from the first warning on, and over when it is back. */
async function tellChange(
  tx: Db,
  { project_id: projectId, domain: subject, failing_since: before }: Domain,
  { failingSince, reason, status }: Pick<DomainState, "failingSince" | "reason" | "status">,
  news: News | null,
): Promise<void> {
  const alert = { projectId, event: "domainFailing", subject } as const;
  if (news === "warned" || news === "lost") await raiseAlert(tx, { ...alert, detail: reason ?? "" });
  else if (status === "verified" && failingSince === null && (before !== null || news === "verified"))
    await clearAlert(tx, alert);
}

async function tell(tx: Db, { id, project_id: projectId, domain }: Domain, news: News): Promise<void> {
  if (news === "warned") {
    const payload: DomainNotice = { domainId: id };
    await enqueue(tx, { kind: noticeWork, key: `${noticeWork}/${id}`, payload });
    return;
  }
  const action = `domain.${news}`;
  await recordAudit(tx, { caller: null, address: "", action, target: projectId, detail: { domain } });
}
