import { createHmac, randomBytes } from "node:crypto";
import { combinableScopes, type Scope } from "@svc/proto";
import { sql } from "kysely";
import { signInCookieName } from "../sign-in-cookie.ts";
import type { CallOptions, TestApi, TestUser } from "../testing.ts";
import type { ContractRoute } from "./contract.ts";
import { allOtherScopes, type Proof, smallestGrant } from "./expected.ts";
import type { Target } from "./targets.ts";

/** A way to call a route: what is sent, and what that proves. */
export interface Presented {
  who: string;
  /** Null: it proves nothing. */
  proof: Proof | null;
  options: CallOptions;
  /** Added to the query. */
  query?: string;
}

/** A credential that may depend on what is called; null where it makes no sense. */
type Kind = (route: ContractRoute, target: Target) => Promise<Presented | null>;

/** Everybody who calls. Each has a user with a plan without limits. */
export interface People {
  owner: TestUser;
  stranger: TestUser;
  admin: TestUser;
  /** A project of the owner that no route is called for. */
  otherProjectId: string;
  strangersProjectId: string;
}

/** Somebody who has a password already: setting the first one would end the sessions that are tried here. */
async function newPerson(api: TestApi, facts: { admin?: boolean } = {}): Promise<TestUser> {
  const user = await api.newUser({ ...facts, plan: noLimits });
  await sql`insert into auth."account" ("accountId", "providerId", "userId", "password", "updatedAt")
    values (${user.id}, 'credential', ${user.id}, 'not a hash', now())`.execute(api.db);
  return user;
}

const fromNow = ({ context }: TestApi, ms: number) => new Date(context.clock.now().getTime() + ms);

const noLimits = { rate_limit_per_minute: null, max_projects: 100_000, max_deploys_per_hour: 100_000 };

export async function newPeople(api: TestApi): Promise<People> {
  const owner = await newPerson(api);
  const stranger = await newPerson(api);
  const admin = await newPerson(api, { admin: true });
  const other = await api.newProject(owner, { type: "ociimage" });
  const foreign = await api.newProject(stranger, { type: "ociimage" });
  return { owner, stranger, admin, otherProjectId: other.id, strangersProjectId: foreign.id };
}

/** The value of the session's cookie as sign-in sets it. */
export function signInCookie(api: TestApi, token: string, secret = api.context.config.authSecret): string {
  const signature = createHmac("sha256", secret).update(token).digest("base64");
  return `${signInCookieName(api.url)}=${encodeURIComponent(`${token}.${signature}`)}`;
}

const signedToken = (api: TestApi, token: string): string =>
  decodeURIComponent(signInCookie(api, token).slice(signInCookieName(api.url).length + 1));

const full = { kind: "key", scopes: null, reach: "every project", owner: true } as const satisfies Proof;
const aSession = { ...full, kind: "session" } as const satisfies Proof;

const always =
  (who: string, proof: Proof | null, options: CallOptions, query?: string): Kind =>
  async () => ({ who, proof, options, ...(query !== undefined && { query }) });

/** Everything that proves nothing. */
async function worthless(api: TestApi, { owner }: People): Promise<Kind[]> {
  const { db, url } = api;
  const { key } = await api.newKey(owner);
  const cookieName = signInCookieName(url);
  const ownPage = { origin: url };

  const banned = await api.newUser();
  const bannedKey = await api.newKey(banned);
  await db.updateTable("auth.user").set({ banned: true }).where("id", "=", banned.id).execute();
  const bannedForNow = await api.newUser();
  const bannedForNowKey = await api.newKey(bannedForNow);
  await db
    .updateTable("auth.user")
    .set({ banned: true, banExpires: fromNow(api, 3_600_000) })
    .where("id", "=", bannedForNow.id)
    .execute();

  const expired = await api.newKey(owner);
  await db
    .updateTable("api_token")
    .set({ expires_at: fromNow(api, -1000) })
    .where("id", "=", expired.id)
    .execute();
  const revoked = await api.newKey(owner);
  await db.deleteFrom("api_token").where("id", "=", revoked.id).execute();
  const late = await api.newUser();
  await db
    .updateTable("auth.session")
    .set({ expiresAt: fromNow(api, -1000) })
    .where("userId", "=", late.id)
    .execute();

  const nobody = (who: string, options: CallOptions, query?: string) => always(who, null, options, query);
  return [
    nobody("no credential", {}),
    nobody("a key that nobody has", { key: `svc_${randomBytes(36).toString("base64url")}` }),
    nobody("an empty key", { key: "" }),
    nobody("a key of 600 characters", { key: "k".repeat(600) }),
    nobody("half of a key", { key: key.slice(0, 20) }),
    nobody("a key with a space", { key: `${key.slice(0, 20)} ${key.slice(20)}` }),
    nobody("a key sent twice", { key: `${key}, ${key}` }),
    nobody("a key and a session at once", { key, session: owner.session }),
    nobody("a key as Bearer", { session: key }),
    nobody("a session as key", { key: owner.session }),
    nobody("Basic", { headers: { authorization: `Basic ${Buffer.from(`${owner.email}:x`).toString("base64")}` } }),
    nobody("Bearer of nothing", { headers: { authorization: "Bearer" } }),
    nobody("Bearer of two words", { headers: { authorization: `Bearer ${owner.session} x` } }),
    nobody("a session without Bearer", { headers: { authorization: owner.session } }),
    nobody("a session that nobody has", { session: randomBytes(24).toString("hex") }),
    nobody("a cookie without signature", { cookie: `${cookieName}=${owner.session}`, headers: ownPage }),
    nobody("a cookie that another signed", { cookie: signInCookie(api, owner.session, "another"), headers: ownPage }),
    nobody("two cookies", {
      cookie: `${signInCookie(api, owner.session)}; ${cookieName}=other`,
      headers: ownPage,
    }),
    nobody("a cookie of another name", {
      cookie: signInCookie(api, owner.session).replace(cookieName, "session"),
      headers: ownPage,
    }),
    nobody("a session in the address", {}, `token=${owner.session}`),
    nobody("a key in the address", {}, `x-api-key=${key}`),
    nobody("a banned user's key", { key: bannedKey.key }),
    nobody("a banned user's session", { session: banned.session }),
    nobody("a banned user's cookie", { cookie: signInCookie(api, banned.session), headers: ownPage }),
    nobody("a key of a user who is banned for an hour", { key: bannedForNowKey.key }),
    nobody("a session of a user who is banned for an hour", { session: bannedForNow.session }),
    nobody("an expired key", { key: expired.key }),
    nobody("a revoked key", { key: revoked.key }),
    nobody("an expired session", { session: late.session }),
    nobody("an expired session's cookie", { cookie: signInCookie(api, late.session), headers: ownPage }),
  ];
}

/** Sessions in every form that carries one. */
function sessions(api: TestApi, { owner, stranger, admin }: People): Kind[] {
  const cookie = signInCookie(api, owner.session);
  const own = { ...aSession, cookie: "own page" as const };
  const other = { ...aSession, cookie: "other page" as const };
  const adminAbroad = { ...aSession, admin: true, owner: false };
  return [
    always("a session", aSession, { session: owner.session }),
    always("a session in its signed form", aSession, { session: signedToken(api, owner.session) }),
    always("a cookie from our page", own, { cookie, headers: { origin: api.url } }),
    always("a cookie whose request says same-origin", own, { cookie, headers: { "sec-fetch-site": "same-origin" } }),
    always("a cookie without origin", other, { cookie }),
    always("a cookie from elsewhere", other, { cookie, headers: { origin: "https://evil.test" } }),
    always("a cookie from a page without origin", other, { cookie, headers: { origin: "null" } }),
    always("a cookie from a site beside ours", other, { cookie, headers: { "sec-fetch-site": "same-site" } }),
    always("a stranger's session", { ...aSession, owner: false }, { session: stranger.session }),
    always("an administrator's session", adminAbroad, { session: admin.session }),
    always(
      "an administrator's cookie from our page",
      { ...adminAbroad, cookie: "own page" },
      { cookie: signInCookie(api, admin.session), headers: { origin: api.url } },
    ),
    always(
      "an administrator's cookie from elsewhere",
      { ...adminAbroad, cookie: "other page" },
      { cookie: signInCookie(api, admin.session), headers: { origin: "https://evil.test" } },
    ),
  ];
}

/** Keys that are the same for every route. */
async function keys(
  api: TestApi,
  { owner, stranger, admin, otherProjectId, strangersProjectId }: People,
): Promise<Kind[]> {
  const key = async (user: TestUser, grant: { scopes?: Scope[]; projectIds?: string[] } = {}) => ({
    key: (await api.newKey(user, grant)).key,
  });
  const single = combinableScopes.map(async (scope) =>
    always(`scope ${scope}`, { ...full, scopes: [scope] }, await key(owner, { scopes: [scope] })),
  );
  const damaged = ["null", "{}", '"*"', '"projects:read"', '["projects:read",7]', '["everything"]', "[]", "true"].map(
    async (stored) =>
      always(`stored scopes ${stored}`, { ...full, scopes: [] }, { key: await storedKey(api, owner, stored) }),
  );
  const ci = '["ci:deploy"]';
  const misshapen = [
    { stored: '["ci:deploy","deploy"]', projectIds: [otherProjectId] },
    { stored: ci, projectIds: null },
    { stored: ci, projectIds: [] },
    { stored: ci, projectIds: [otherProjectId, api.context.random.uuid()] },
  ].map(async ({ stored, projectIds }) =>
    always(
      `stored scopes ${stored} for ${projectIds?.length ?? "all"} projects`,
      { ...full, scopes: [], reach: projectIds === null ? "every project" : "another project" },
      { key: await storedKey(api, owner, stored, projectIds) },
    ),
  );

  const unbanned = await onceBannedUser(api);
  const elsewhere = { ...full, reach: "another project" } as const;
  const adminAbroad = { ...full, admin: true, owner: false };
  const all = { scopes: [...combinableScopes] };
  return [
    always("a full key", full, await key(owner)),
    always("every scope", { ...full, scopes: combinableScopes }, await key(owner, all)),
    ...(await Promise.all([...single, ...damaged, ...misshapen])),
    always("a key whose user's ban ran out", { ...full, owner: false }, await key(unbanned)),
    always("a session whose user's ban ran out", { ...aSession, owner: false }, { session: unbanned.session }),
    always("a key of another project", elsewhere, await key(owner, { projectIds: [otherProjectId] })),
    always("a key of a stranger's project", elsewhere, await key(owner, { projectIds: [strangersProjectId] })),
    always("a key of no project", elsewhere, { key: await storedKey(api, owner, null, []) }),
    always(
      "every scope on another project",
      { ...elsewhere, scopes: combinableScopes },
      await key(owner, { ...all, projectIds: [otherProjectId] }),
    ),
    always(
      "a CI key of another project",
      { ...elsewhere, scopes: ["ci:deploy"] },
      await key(owner, { scopes: ["ci:deploy"], projectIds: [otherProjectId] }),
    ),
    always("a stranger's key", { ...full, owner: false }, await key(stranger)),
    always("an administrator's key", adminAbroad, await key(admin)),
    always("an administrator's every scope", { ...adminAbroad, scopes: combinableScopes }, await key(admin, all)),
    always(
      "an administrator's key of one project",
      { ...adminAbroad, reach: "another project" },
      await key(admin, { projectIds: [otherProjectId] }),
    ),
  ];
}

/** Somebody whose ban has run out, with a session from after it: the ban itself ends sessions. */
async function onceBannedUser(api: TestApi): Promise<TestUser> {
  const user = await newPerson(api);
  await api.db
    .updateTable("auth.user")
    .set({ banned: true, banExpires: fromNow(api, -1000) })
    .where("id", "=", user.id)
    .execute();
  await sql`insert into auth."session" (token, "userId", "expiresAt", "updatedAt")
    values (${user.session}, ${user.id}, now() + interval '1 day', now()) on conflict do nothing`.execute(api.db);
  return user;
}

/** A key whose stored grant is `scopes` as jsonb, whatever that is. */
async function storedKey(
  api: TestApi,
  user: TestUser,
  scopes: string | null,
  projectIds: string[] | null = null,
): Promise<string> {
  const { id, key } = await api.newKey(user);
  await sql`update api_token set scopes = ${scopes}::jsonb, project_ids = ${projectIds}::uuid[] where id = ${id}`.execute(
    api.db,
  );
  return key;
}

/** Keys that are made for one route, or for what it is called for. */
function fitted(api: TestApi, { owner, stranger, otherProjectId }: People): Kind[] {
  const grant = async (user: TestUser, scopes: readonly Scope[] | null, projectIds: string[] | null) => ({
    key: (await api.newKey(user, { ...(scopes && { scopes: [...scopes] }), ...(projectIds && { projectIds }) })).key,
  });
  return [
    async (route) => {
      const scopes = smallestGrant(route);
      if (scopes === null) return null;
      return { who: "just what it needs", proof: { ...full, scopes }, options: await grant(owner, scopes, null) };
    },
    async (route) => {
      const scopes = allOtherScopes(route);
      return { who: "every scope but its own", proof: { ...full, scopes }, options: await grant(owner, scopes, null) };
    },
    async (route) => {
      const scopes = smallestGrant(route);
      if (scopes === null) return null;
      const proof = { ...full, scopes, owner: false };
      return { who: "a stranger's key with just what it needs", proof, options: await grant(stranger, scopes, null) };
    },
    async (_, { projectId }) => ({
      who: "a key of this project",
      proof: { ...full, reach: "this project" },
      options: await grant(owner, null, [projectId ?? otherProjectId]),
    }),
    async (route, { projectId }) => {
      const scopes = smallestGrant(route);
      if (scopes === null) return null;
      const options = await grant(owner, scopes, [projectId ?? otherProjectId]);
      return { who: "just what it needs on this project", proof: { ...full, scopes, reach: "this project" }, options };
    },
    async (_, { projectId }) => ({
      who: "a CI key of this project",
      proof: { ...full, scopes: ["ci:deploy"], reach: "this project" },
      options: await grant(owner, ["ci:deploy"], [projectId ?? otherProjectId]),
    }),
    async (_, { creatorKey }) =>
      creatorKey === null
        ? null
        : {
            who: "the CI key that created it",
            proof: { ...full, scopes: ["ci:deploy"], reach: "this project", creator: true },
            options: { key: creatorKey },
          },
  ];
}

/** Every kind of credential that there is. */
export const allCredentials = async (api: TestApi, people: People): Promise<Kind[]> => [
  ...(await worthless(api, people)),
  ...sessions(api, people),
  ...(await keys(api, people)),
  ...fitted(api, people),
];
