import { wwwTwinOf } from "@svc/proto/domains";
import type { Selectable } from "kysely";
import { sql } from "kysely";
import type { CertificateTable } from "../../stores/db/gen/tables.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { orderWindows, type SpentOrders, type Validity } from "./rules.ts";
import type { Certificate, CertificateState, Failure, Held } from "./steps.ts";

/** Topic on which the database itself announces what edges are told of certificates, and what decides about it. */
export const certificateTopic = "svc_certificates";

/** Where the sealed key of what is served for a name lives; see `Secrets`. */
export const keyAad = (name: string): string => `certificate/${name}/key`;
/** The same of the key that an order is for. */
export const orderKeyAad = (name: string): string => `certificate/${name}/order_key`;
/** The same of the key of the account at a CA. */
export const accountKeyAad = (directory: string): string => `acme_account/${directory}/key`;

type Row = Selectable<CertificateTable>;

function heldOf({ not_before, not_after, issuer, ari_id }: Row): Held | null {
  if (not_before === null || not_after === null || issuer === null) return null;
  return { notBefore: not_before, notAfter: not_after, issuer, ariId: ari_id };
}

const certificateOf = (row: Row): Certificate => ({
  name: row.name,
  state: row.state as CertificateState,
  held: heldOf(row),
  order:
    row.directory === null || row.order_url === null || row.ordered_at === null
      ? null
      : { directory: row.directory, url: row.order_url, orderedAt: row.ordered_at },
  since: row.since ?? row.next_at,
  renewAt: row.renew_at,
  askAt: row.ask_at,
  failures: row.failures,
  caFailures: row.ca_failures,
  nextAt: row.next_at,
});

/** Those below a registered domain, what is due first coming first. */
export async function listBelow(db: Db, registeredDomain: string): Promise<Certificate[]> {
  const rows = await db
    .selectFrom("certificate")
    .selectAll()
    .where("registered_domain", "=", registeredDomain)
    .orderBy("next_at")
    .orderBy("name")
    .execute();
  return rows.map(certificateOf);
}

/** Adds names that are not known yet; they are due at once. */
export async function addNames(
  db: Db,
  names: readonly { name: string; registeredDomain: string }[],
  now: Date,
): Promise<void> {
  if (names.length === 0) return;
  await db
    .insertInto("certificate")
    .values(
      names.map(({ name, registeredDomain }) => ({
        ...{ name, registered_domain: registeredDomain, state: "none", since: now, next_at: now },
      })),
    )
    .onConflict((conflict) => conflict.column("name").doNothing())
    .execute();
}

/** CAs take some five failed orders of a name in an hour. */
const apartMs = 12 * 60_000;

const ownAndTwin = (domain: string): string[] => [domain, wwwTwinOf(domain) ?? domain];

/** What came to nothing and was not its CA's fault, which says itself how long to wait, is due soon. */
const soon = (now: Date) => sql<Date>`
  case when ca_failures > 0 then next_at
  else least(next_at, greatest(${now}::timestamptz, since + ${apartMs} * interval '1 millisecond')) end`;

/** The owner of a domain says that what was in the way is put right: neither it nor its twin waits a day for the next try. */
export async function tryAgainSoon(tx: Db, domain: string, now: Date): Promise<void> {
  await tx
    .updateTable("certificate")
    .set({ next_at: soon(now) })
    .where("name", "in", ownAndTwin(domain))
    .where("state", "=", "failed")
    .execute();
}

/** Another one has proven a domain, or it leads here now: what failed before says nothing of it and of its twin any more. */
export async function forgetFailures(tx: Db, domain: string, now: Date): Promise<void> {
  await tx
    .updateTable("certificate")
    .set({
      state: sql`case when not_before is null then 'none' else 'issued' end`,
      ...{ failures: 0, failure_code: null, failure: null, next_at: soon(now) },
    })
    .where("name", "in", ownAndTwin(domain))
    .where("state", "=", "failed")
    .execute();
}

export interface KnownName {
  name: string;
  registeredDomain: string;
  nextAt: Date;
  isUnderWay: boolean;
  held: Validity | null;
}

/** Every name that is known, with what decides whether somebody has to look at it. */
export async function listDue(db: Db): Promise<KnownName[]> {
  const rows = await db
    .selectFrom("certificate")
    .select(["name", "registered_domain as registeredDomain", "next_at as nextAt", "order_url as orderUrl"])
    .select(["not_before as notBefore", "not_after as notAfter"])
    .execute();
  return rows.map(({ orderUrl, notBefore, notAfter, ...row }) => ({
    ...row,
    isUnderWay: orderUrl !== null,
    held: notBefore === null || notAfter === null ? null : { notBefore, notAfter },
  }));
}

/** What a step adds to the change of a certificate. */
export interface SaveMore {
  /** Sealed. */
  orderKey?: Buffer;
  /** The new certificate: PEM, and its key, sealed. */
  chain?: { pem: string; fingerprint: string; key: Buffer };
  failure?: Pick<Failure, "code" | "text">;
}

/** Writes what became of a certificate. */
export async function saveCertificate(db: Db, after: Certificate, more: SaveMore = {}): Promise<void> {
  const { held, order, state } = after;
  await db
    .updateTable("certificate")
    .set({
      state,
      not_before: held?.notBefore ?? null,
      not_after: held?.notAfter ?? null,
      issuer: held?.issuer ?? null,
      ari_id: held?.ariId ?? null,
      renew_at: after.renewAt,
      ask_at: after.askAt,
      directory: order?.directory ?? null,
      order_url: order?.url ?? null,
      ordered_at: order?.orderedAt ?? null,
      since: after.since,
      failures: after.failures,
      ca_failures: after.caFailures,
      next_at: after.nextAt,
      ...(order === null && { order_key: null }),
      ...(more.orderKey && { order_key: more.orderKey }),
      ...(more.chain && { chain: more.chain.pem, fingerprint: more.chain.fingerprint, key: more.chain.key }),
      ...(state === "issued" && { failure_code: null, failure: null }),
      ...(more.failure && { failure_code: more.failure.code, failure: more.failure.text }),
    })
    .where("name", "=", after.name)
    .execute();
}

/** The key that a name's order is for: PEM. Throws `CannotOpen`. */
export async function getOrderKey(db: Db, secrets: Secrets, name: string): Promise<string> {
  const { order_key } = await db
    .selectFrom("certificate")
    .select("order_key")
    .where("name", "=", name)
    .executeTakeFirstOrThrow();
  if (order_key === null) throw new Error("a certificate without an order has no key for it");
  return secrets.open(order_key, orderKeyAad(name)).toString("utf8");
}

export interface StoredChallenge {
  token: string;
  name: string;
  kind: "http-01" | "dns-01";
  answer: string;
}

/** The answer that a CA looks for is known from now on, for as long as the order is under way. */
export async function addChallenge(db: Db, challenge: StoredChallenge): Promise<void> {
  await db
    .insertInto("acme_challenge")
    .values(challenge)
    .onConflict((conflict) => conflict.column("token").doUpdateSet({ remove_after: null }))
    .execute();
}

/** A CA may look once more, some time after it has decided. */
const keptMinutes = 10;

/** The order of a name is over. */
export async function endChallenges(db: Db, name: string, now: Date): Promise<void> {
  await db
    .updateTable("acme_challenge")
    .set({ remove_after: new Date(now.getTime() + keptMinutes * 60_000) })
    .where("name", "=", name)
    .where("remove_after", "is", null)
    .execute();
}

export async function findChallenge(db: Db, name: string): Promise<StoredChallenge | null> {
  const row = await db
    .selectFrom("acme_challenge")
    .select(["token", "name", "kind", "answer"])
    .where("name", "=", name)
    .where("remove_after", "is", null)
    .executeTakeFirst();
  return row === undefined ? null : { ...row, kind: row.kind as StoredChallenge["kind"] };
}

/** Of those that nobody needs any more. Returns what they were. */
export async function removeChallenges(db: Db, now: Date): Promise<StoredChallenge[]> {
  const rows = await db
    .deleteFrom("acme_challenge")
    .where("remove_after", "<", now)
    .returning(["token", "name", "kind", "answer"])
    .execute();
  return rows.map((row) => ({ ...row, kind: row.kind as StoredChallenge["kind"] }));
}

/** Whoever counts orders and then adds one does it alone. */
const orderLock = 0x61636d65;

/**
 * Notes an order before the CA hears of it, unless `decide` puts it off by what was spent. Returns null, or the moment that it is put
 * off to.
 */
export async function spendOrder(
  db: Db,
  order: {
    directory: string;
    name: string;
    registeredDomain: string;
    ownerId: string | null;
    isRenewal: boolean;
    now: Date;
  },
  decide: (spent: SpentOrders) => Date,
): Promise<{ until: Date } | null> {
  return db.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(${orderLock})`.execute(tx);
    const until = decide(await countSpent(tx, order));
    if (until > order.now) return { until };
    await tx
      .insertInto("acme_order")
      .values({
        directory: order.directory,
        name: order.name,
        registered_domain: order.registeredDomain,
        is_renewal: order.isRenewal,
        at: order.now,
      })
      .execute();
    return null;
  });
}

/** Who has a name now, as its own or as the twin of an apex. */
const ownerOfName = sql`
  select names.name, owner_id from custom_domain join project on project.id = project_id,
    lateral (values (domain), ('www.' || domain)) names (name)
  where custom_domain.status = 'verified'`;

/** Orders for new names by their users, of all CAs, since a moment. */
export async function countPlaced(db: Db, since: Date): Promise<Map<string, number>> {
  const { rows } = await sql<{ owner_id: string; count: number }>`
    select owner_id, count(*)::int as count from acme_order join (${ownerOfName}) named using (name)
    where at > ${since} and not is_renewal group by owner_id`.execute(db);
  return new Map(rows.map(({ owner_id, count }) => [owner_id, count]));
}

async function countSpent(
  db: Db,
  {
    directory,
    name,
    registeredDomain,
    ownerId,
    now,
  }: { directory: string; name: string; registeredDomain: string; ownerId: string | null; now: Date },
): Promise<SpentOrders> {
  const ordered = new Date(now.getTime() - orderWindows.orderedMs);
  const issued = new Date(now.getTime() - orderWindows.issuedMs);
  const { rows } = await sql<{ kind: keyof SpentOrders; count: number; oldest: Date | null }>`
    select 'ordered' as kind, count(*)::int as count, min(at) as oldest
      from acme_order where directory = ${directory} and at > ${ordered}
    union all select 'orderedNew', count(*)::int, min(at)
      from acme_order where directory = ${directory} and at > ${ordered} and not is_renewal
    union all select 'orderedNewOfOwner', count(*)::int, min(at)
      from acme_order join (${ownerOfName}) named using (name)
      where directory = ${directory} and at > ${ordered} and not is_renewal and owner_id = ${ownerId}
    union all select 'issuedBelow', count(*)::int, min(issued_at)
      from acme_order where directory = ${directory} and at > ${issued} and issued_at is not null and not is_renewal
        and registered_domain = ${registeredDomain}
    union all select 'issuedFor', count(*)::int, min(issued_at)
      from acme_order where directory = ${directory} and at > ${issued} and issued_at is not null and name = ${name}`.execute(
    db,
  );
  const none = { count: 0, oldest: null };
  const of = (kind: keyof SpentOrders) => rows.find((row) => row.kind === kind) ?? none;
  return {
    ordered: of("ordered"),
    orderedNew: of("orderedNew"),
    orderedNewOfOwner: of("orderedNewOfOwner"),
    issuedBelow: of("issuedBelow"),
    issuedFor: of("issuedFor"),
  };
}

/** A certificate came of the last order of a name. */
export async function noteIssued(db: Db, directory: string, name: string, now: Date): Promise<void> {
  await sql`
    update acme_order set issued_at = ${now} where id = (
      select id from acme_order where directory = ${directory} and name = ${name} and issued_at is null
      order by at desc limit 1)`.execute(db);
}
