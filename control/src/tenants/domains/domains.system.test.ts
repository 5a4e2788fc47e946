import { randomUUID } from "node:crypto";
import type { CustomDomain } from "@svc/proto";
import { proofValue } from "@svc/proto/domains";
import { systemClock } from "@svc/runtime/system";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { createLog } from "../../log.ts";
import { createDb } from "../../stores/db/pool.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { createResolver } from "../../stores/dns/resolver.ts";
import { startDns, type TestDns } from "../../stores/dns/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { createRandom } from "../deployments/testing/virtual-fleet.ts";
import { requestTeardown } from "../projects/teardown/request.ts";
import { domainNoticeWorker } from "./notices.ts";
import { hostsOf } from "./rules.ts";
import { deleteDomain, lockNames, placeHosts } from "./store.ts";
import { newDomain } from "./testing.ts";
import { domainWorker } from "./worker.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const edge = "192.0.2.1";

let one: TestDns;
let other: TestDns;
let api: TestApi;
let user: TestUser;
/** What has passed by the database's clock, as far as workers ask it. */
let laterMs = 0;
/** Of zones whose servers are at 127.0.0.3. */
let zoneServer: string | null = null;
const mails: { to: string; subject: string; text: string }[] = [];

beforeAll(async () => {
  one = await startDns();
  other = await startDns("127.0.0.2");
  api = await testApi({
    config: {
      domains: {
        ...{ dnsServers: [one.server, other.server], edgeHost: "edge.svc.example" },
        ...{ edgeAddresses: [edge], cdnRanges: ["198.51.100.0/24"] },
      },
    },
  });
  user = await api.newUser();
});
afterEach(() => {
  laterMs = 0;
  zoneServer = null;
  mails.length = 0;
  for (const dns of [one, other]) dns.behave("answering");
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await one?.[Symbol.asyncDispose]();
  await other?.[Symbol.asyncDispose]();
});

const newProject = (owner = user) => api.newProject(owner, { type: "ssr" });
/** Another one each time. */
const newName = (suffix = "example") => `n${randomUUID().slice(0, 8)}.${suffix}`;
const pathOf = (projectId: string) => `/projects/${projectId}/domains`;
const add = (projectId: string, domain: string, by = user, headers = {}) =>
  api.call("POST", pathOf(projectId), { session: by.session, body: { domain }, headers });
const list = async (projectId: string, by = user): Promise<CustomDomain[]> =>
  (await api.call("GET", pathOf(projectId), { session: by.session })).body.domains;
const route = (projectId: string, id: string, routingTarget: string, by = user) =>
  api.call("PATCH", `${pathOf(projectId)}/${id}`, { session: by.session, body: { routingTarget } });
const change = (projectId: string, id: string, body: object, by = user) =>
  api.call("PATCH", `${pathOf(projectId)}/${id}`, { session: by.session, body });
const verify = (projectId: string, id: string, by = user) =>
  api.call("POST", `${pathOf(projectId)}/${id}/verify`, { session: by.session });
const remove = (projectId: string, id: string, by = user) =>
  api.call("DELETE", `${pathOf(projectId)}/${id}`, { session: by.session });
const told = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [status, body.error?.code];

const prove = (
  { domain, records }: { domain: string; records?: { txtValue: string } },
  servers = [one, other],
): void => {
  for (const dns of servers) {
    dns.set(domain, { A: [edge] });
    dns.set(`_svc.${domain}`, { TXT: ["something else", records?.txtValue ?? ""] });
  }
};
const unprove = (domain: string, servers = [one, other]): void => {
  for (const dns of servers) dns.remove(`_svc.${domain}`);
};

/** One look at the domain, `after` so long from now by the database's clock, which `meanwhile` may change. */
async function look(domainId: string, after = 0, meanwhile = async () => {}, db = api.db) {
  laterMs = after;
  const { config } = api.context;
  const resolver = createResolver({ clock: systemClock, servers: config.domains.dnsServers, timeoutMs: 3_000 });
  const work = domainWorker({
    ...{ db, log: createLog("silent"), settings: config.domains },
    resolver: {
      ...resolver,
      addresses: async (name) => {
        const answer = await resolver.addresses(name);
        await meanwhile();
        return answer;
      },
    },
    nameServerAt: (address) => (address === "127.0.0.3" ? zoneServer : null),
    clock: async () => new Date(Date.now() + laterMs),
  });
  const item = { id: 0, kind: "domain", key: "k", payload: { domainId }, attempt: 1, maxAttempts: 5, ageMs: 0 };
  return work(item, new AbortController().signal);
}

const hosts = (...names: string[]) =>
  api.db
    .selectFrom("site_host")
    .select(["host", "project_id", "channel", "redirect_to"])
    .where("host", "in", names)
    .orderBy("host")
    .execute();

/** A project with a name that it has proven. */
async function proven(domain = newName(), by = user, project?: { id: string; slug: string }) {
  project ??= await newProject(by);
  const { body } = await add(project.id, domain, by);
  prove(body.domain);
  await look(body.domain.id);
  return { project, domain, id: body.domain.id as string, records: body.domain.records };
}

test("a domain is added, proven, served, led elsewhere, disabled and removed", async () => {
  const domain = newName();
  const www = `www.${domain}`;
  const project = await newProject();
  const added = await add(project.id, domain.toUpperCase());
  expect([added.status, added.body]).toMatchObject([
    202,
    {
      ok: true,
      queued: true,
      domain: {
        ...{ domain, status: "pending", routingTarget: "production", dnsStatus: "unresolved", certificate: null },
        ...{ verifiedAt: null, lastCheckedAt: null, reason: null },
        records: {
          ...{ txtName: `_svc.${domain}`, txtValue: expect.stringMatching(/^svc-verify=[\w-]{22}$/) },
          ...{ cnameTarget: "edge.svc.example", aRecordIp: edge, aRecordIps: [edge], aaaaRecordIps: [], apex: true },
        },
      },
    },
  ]);
  const { id, createdAt, verifyUntil } = added.body.domain;
  expect(Date.parse(verifyUntil) - Date.parse(createdAt)).toBe(48 * hourMs);

  await look(id);
  expect(await list(project.id)).toMatchObject([
    { status: "pending", dnsStatus: "unresolved", reason: expect.stringContaining("_svc.") },
  ]);
  expect(await hosts(domain, www)).toEqual([]);

  prove(added.body.domain);
  await look(id);
  const [verified] = await list(project.id);
  expect(verified).toMatchObject({ status: "verified", dnsStatus: "direct", reason: null, verifyUntil: null });
  expect(verified?.records).toBeUndefined();
  expect(await hosts(domain, www)).toEqual([
    { host: domain, project_id: project.id, channel: "production", redirect_to: null },
    { host: www, project_id: project.id, channel: "production", redirect_to: domain },
  ]);

  expect((await route(project.id, id, "preview")).status).toBe(202);
  expect((await hosts(domain, www)).map(({ channel }) => channel)).toEqual(["preview", "preview"]);
  const disabled = await route(project.id, id, "disabled");
  expect(disabled.body.domain).toMatchObject({ status: "verified", routingTarget: "disabled" });
  expect(await hosts(domain, www)).toEqual([]);
  await route(project.id, id, "production");
  expect(await hosts(domain, www)).toHaveLength(2);

  expect((await remove(project.id, id)).status).toBe(202);
  expect([await hosts(domain, www), await list(project.id)]).toEqual([[], []]);
  expect(told(await remove(project.id, id))).toEqual([404, "NOT_FOUND"]);
});

test("the same request with an Idempotency-Key adds one domain", async () => {
  const project = await newProject();
  const headers = { "idempotency-key": randomUUID() };
  const domain = newName();
  const answers = await Promise.all([1, 2, 3].map(() => add(project.id, domain, user, headers)));
  expect(new Set(answers.map(({ body }) => body.domain.id)).size).toBe(1);
  expect(told(await add(project.id, newName(), user, headers))).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
});

describe("refused", () => {
  test.each(["*.example.net", "co.uk", "shop.svc.localhost", "shop.test", "10.0.0.1", "a_b.example", "аррӏе.example"])(
    "%s is no domain to attach",
    async (domain) => {
      const { id } = await newProject();
      expect(told(await add(id, domain))).toEqual([422, "VALIDATION"]);
    },
  );

  const withPlan = async (plan: NonNullable<Parameters<TestApi["newUser"]>[0]>["plan"] = {}) => {
    const owner = await api.newUser({ plan });
    return { owner, project: await newProject(owner) };
  };

  test("by a plan without databases, or without domains, whatever is asked for", async () => {
    for (const changes of [{ max_databases: 0 }, { max_custom_domains: 0 }]) {
      const { owner, project } = await withPlan(changes);
      for (const domain of [newName(), "co.uk"])
        expect(told(await add(project.id, domain, owner))).toEqual([403, "PLAN_FEATURE_UNAVAILABLE"]);
    }
  });

  test("beyond the plan's number, also when all come at once", async () => {
    const { owner, project } = await withPlan({ max_custom_domains: 2 });
    const answers = await Promise.all([1, 2, 3, 4].map(() => add(project.id, newName(), owner)));
    expect(answers.map(told).toSorted()).toEqual([
      [202, undefined],
      [202, undefined],
      [403, "QUOTA_EXCEEDED"],
      [403, "QUOTA_EXCEEDED"],
    ]);
    const { body } = await api.call("GET", pathOf(project.id), { session: owner.session });
    expect(body.maxCustomDomains).toBe(2);
  });

  test("by a plan without previews or the dev channel; everything else is left to a smaller plan", async () => {
    const { owner, project } = await withPlan({ previews_enabled: false, dev_sync_enabled: false, max_databases: 0 });
    const { id, domain } = await newDomain(api.db, project.id, newName(), { status: "verified" });
    for (const target of ["preview", "dev"])
      expect(told(await route(project.id, id, target, owner))).toEqual([403, "PLAN_FEATURE_UNAVAILABLE"]);
    expect((await route(project.id, id, "disabled", owner)).status).toBe(202);
    expect((await route(project.id, id, "production", owner)).status).toBe(202);
    expect(await hosts(domain)).toHaveLength(1);
    expect((await verify(project.id, id, owner)).status).toBe(202);
    expect((await remove(project.id, id, owner)).status).toBe(202);
  });

  test("a seventh look within a minute, of all domains of a project", async () => {
    const { id: projectId } = await newProject();
    const domains = await Promise.all([1, 2].map(() => newDomain(api.db, projectId, newName())));
    const answers = [];
    for (let at = 0; at < 7; at += 1) answers.push(told(await verify(projectId, domains[at % 2]?.id ?? "")));
    expect(answers.filter(([status]) => status === 202)).toHaveLength(6);
    expect(answers.at(-1)).toEqual([429, "RATE_LIMITED"]);
  });

  test("another's project, and another's domain", async () => {
    const { project, id } = await proven();
    const stranger = await api.newUser();
    const own = await newProject(stranger);
    for (const projectId of [project.id, own.id])
      for (const answer of [await route(projectId, id, "dev", stranger), await remove(projectId, id, stranger)])
        expect(told(answer)).toEqual([404, "NOT_FOUND"]);
  });
});

describe("whose a name is", () => {
  test("a pending claim takes nothing from anybody, and the first proof wins", async () => {
    const domain = newName();
    const [mine, theirs] = [await newProject(), await newProject()];
    const first = (await add(mine.id, domain)).body.domain;
    const second = (await add(theirs.id, domain)).body.domain;
    expect(first.records.txtValue).not.toBe(second.records.txtValue);
    prove(second);
    await look(first.id);
    await look(second.id);
    expect((await list(mine.id))[0]?.status).toBe("pending");
    expect((await list(theirs.id))[0]?.status).toBe("verified");
    // What stands in DNS now is the other one's: a name that is proven stays.
    prove(first);
    await look(first.id);
    expect((await list(mine.id))[0]).toMatchObject({ status: "pending", reason: expect.stringContaining("Another") });
    expect(await hosts(domain)).toMatchObject([{ project_id: theirs.id }]);
    expect(told(await add((await newProject()).id, domain))).toEqual([409, "CONFLICT"]);
  });

  test("an old record proves nothing to whoever adds the name anew", async () => {
    const { project, domain, id, records } = await proven();
    await remove(project.id, id);
    for (const owner of [project, await newProject()]) {
      const again = (await add(owner.id, domain)).body.domain;
      expect(again.records.txtValue).not.toBe(records.txtValue);
      await look(again.id);
      expect((await list(owner.id))[0]?.status).toBe("pending");
    }
    expect(await hosts(domain)).toEqual([]);
  });

  test("pointing here proves nothing", async () => {
    const project = await newProject();
    const { id, domain } = (await add(project.id, newName())).body.domain;
    for (const dns of [one, other]) dns.set(domain, { A: [edge] });
    await look(id);
    expect((await list(project.id))[0]).toMatchObject({ status: "pending", dnsStatus: "direct" });
    expect(await hosts(domain)).toEqual([]);
  });

  test("one server alone proves nothing, and servers that fail are evidence of nothing", async () => {
    const project = await newProject();
    const added = (await add(project.id, newName())).body.domain;
    prove(added, [one]);
    await look(added.id);
    expect((await list(project.id))[0]?.status).toBe("pending");
    prove(added);
    other.behave("failing");
    await look(added.id);
    expect((await list(project.id))[0]).toMatchObject({
      status: "pending",
      reason: expect.stringContaining("ESERVFAIL"),
    });
    other.behave("answering");
    await look(added.id);
    expect((await list(project.id))[0]?.status).toBe("verified");
    for (const dns of [one, other]) dns.behave("failing");
    for (let day = 1; day <= 9; day += 1) await look(added.id, day * dayMs);
    expect((await list(project.id))[0]).toMatchObject({ status: "verified", reason: null });
    expect(await hosts(added.domain)).toHaveLength(1);
  });

  test("the zone's own servers are believed where others remember that there was no proof, and take no name away", async () => {
    const project = await newProject();
    const added = (await add(project.id, newName())).body.domain;
    await using zone = await startDns("127.0.0.3");
    zoneServer = zone.server;
    for (const dns of [one, other]) {
      dns.set(added.domain, { A: [edge], NS: ["ns.example"] });
      dns.set("ns.example", { A: ["127.0.0.3"] });
    }
    await look(added.id);
    expect((await list(project.id))[0]?.status).toBe("pending");
    zone.set(`_svc.${added.domain}`, { TXT: [added.records.txtValue] });
    await look(added.id);
    expect((await list(project.id))[0]?.status).toBe("verified");
    prove(added);
    zone.remove(`_svc.${added.domain}`);
    await look(added.id);
    expect((await list(project.id))[0]).toMatchObject({ status: "verified", reason: null });
  });

  test("a CNAME at the place of the proof leads to it", async () => {
    const project = await newProject();
    const { id, domain, records } = (await add(project.id, newName())).body.domain;
    for (const dns of [one, other]) {
      dns.set(`_svc.${domain}`, { CNAME: `proofs.${domain}` });
      dns.set(`proofs.${domain}`, { TXT: [records.txtValue] });
    }
    await look(id);
    expect((await list(project.id))[0]?.status).toBe("verified");
  });

  test("who loses the proof is told twice and loses the name after seven days, to whoever proves it then", async () => {
    const { project, domain, id } = await proven();
    unprove(domain);
    const send = async () => {
      const notice = domainNoticeWorker({
        ...{ db: api.db, apiUrl: api.context.config.apiUrl },
        mailer: { send: async (to, message) => void mails.push({ to, ...message }), close: () => undefined },
      });
      const queued = await api.db
        .deleteFrom("work_item")
        .where("kind", "=", "domain-notice")
        .returning("payload")
        .execute();
      for (const { payload } of queued)
        await notice(
          { id: 0, kind: "domain-notice", key: "k", payload, attempt: 1, maxAttempts: 5, ageMs: 0 },
          new AbortController().signal,
        );
      return mails.length;
    };
    const told: number[] = [];
    for (let day = 1; day <= 7; day += 1) {
      await look(id, day * dayMs);
      told.push(await send());
    }
    expect(told).toEqual([1, 1, 1, 1, 1, 2, 2]);
    expect(mails[0]).toMatchObject({ to: user.email, subject: expect.stringContaining(domain) });
    const [failing] = await list(project.id);
    expect(failing).toMatchObject({ status: "verified", records: { txtName: `_svc.${domain}` } });
    expect(await hosts(domain)).toHaveLength(1);
    // Somebody else may wait for it meanwhile.
    const next = await newProject();
    const claim = (await add(next.id, domain)).body.domain;
    prove(claim);
    const verify_until = new Date(Date.now() + 9 * dayMs);
    await api.db.updateTable("custom_domain").set({ verify_until }).where("id", "=", claim.id).execute();
    await look(claim.id, 7 * dayMs);
    expect((await list(next.id))[0]?.status).toBe("pending");
    await look(id, 8 * dayMs);
    expect((await list(project.id))[0]).toMatchObject({ status: "failed", reason: expect.stringContaining("7 days") });
    expect(await hosts(domain)).toEqual([]);
    await look(claim.id, 8 * dayMs);
    expect(await hosts(domain)).toMatchObject([{ project_id: next.id }]);
  });

  test("a window ends after 48 hours, and another one is opened by asking", async () => {
    const project = await newProject();
    const added = (await add(project.id, newName())).body.domain;
    await look(added.id, 48 * hourMs + 1_000);
    expect((await list(project.id))[0]).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("48 hours"),
    });
    const asked = await verify(project.id, added.id);
    expect(asked.body.domain).toMatchObject({ status: "pending" });
    prove(added);
    await look(added.id, 48 * hourMs + 2_000);
    expect((await list(project.id))[0]?.status).toBe("verified");
    // Asking takes nothing back.
    unprove(added.domain);
    expect((await verify(project.id, added.id)).body.domain.status).toBe("verified");
    await look(added.id, 48 * hourMs + 3_000);
    expect((await list(project.id))[0]?.status).toBe("verified");
  });

  describe("a certificate that failed", () => {
    const reason = "It points at nothing.";
    /** As it is some hours after the fourth failure. */
    async function failing(name: string, changes: { ca_failures?: number } = {}) {
      const [since, next_at] = [-2 * hourMs, 22 * hourMs].map((ms) => new Date(Date.now() + ms));
      const values = { name, registered_domain: name, state: "failed", since, next_at, failures: 4, failure: reason };
      await api.db
        .insertInto("certificate")
        .values({ ...values, failure_code: "not-pointing", ...changes } as never)
        .execute();
    }
    const certificate = async (name: string) => {
      const of = api.db.selectFrom("certificate").selectAll().where("name", "=", name);
      const { next_at, failure, failures } = await of.executeTakeFirstOrThrow();
      return { isDue: next_at.getTime() <= Date.now() + 60_000, failure, failures };
    };

    test("is due when its owner asks for a look, its twin's too, but not what a CA keeps waiting", async () => {
      const { project, domain, id } = await proven();
      await failing(domain);
      await failing(`www.${domain}`);
      await verify(project.id, id);
      const due = { isDue: true, failure: reason, failures: 4 };
      expect([await certificate(domain), await certificate(`www.${domain}`)]).toEqual([due, due]);

      const kept = await proven();
      await failing(kept.domain, { ca_failures: 2 });
      await verify(kept.project.id, kept.id);
      expect(await certificate(kept.domain)).toMatchObject({ isDue: false });
    });

    test("is nothing that the next owner of the name hears of, or waits for", async () => {
      const name = newName();
      await failing(name);
      await failing(`www.${name}`);
      await proven(name);
      const fresh = { isDue: true, failure: null, failures: 0 };
      expect([await certificate(name), await certificate(`www.${name}`)]).toEqual([fresh, fresh]);
    });

    test("is due when the name leads here again", async () => {
      const { domain, id } = await proven();
      for (const dns of [one, other]) dns.set(domain, { A: ["203.0.113.9"] });
      await look(id, dayMs);
      await failing(domain);
      for (const dns of [one, other]) dns.set(domain, { A: [edge] });
      await look(id, 2 * dayMs);
      expect(await certificate(domain)).toMatchObject({ failure: null, failures: 0 });
    });
  });

  test("what a look found that was held up, or that another one overtook, changes nothing", async () => {
    const { project, domain, id, records } = await proven();
    unprove(domain);
    const late = await look(id, dayMs, async () => {
      laterMs = 3 * dayMs;
    });
    expect(late).toEqual({ retryAfterMs: 1_000 });
    expect((await list(project.id))[0]).toMatchObject({ status: "verified", reason: null });
    let isOvertaken = false;
    const overtaken = await look(id, dayMs, async () => {
      if (isOvertaken) return;
      isOvertaken = true;
      prove({ domain, records });
      await look(id, dayMs + 1_000);
    });
    expect(overtaken).toEqual({ retryAfterMs: 1_000 });
    expect((await list(project.id))[0]).toMatchObject({ status: "verified", reason: null });
  });

  test("a name goes with its project, and its www to whoever has the name above", async () => {
    const apex = await proven();
    const www = await proven(`www.${apex.domain}`);
    expect(await hosts(www.domain)).toMatchObject([{ project_id: www.project.id, redirect_to: null }]);
    await api.db.transaction().execute((tx) => requestTeardown(tx, [www.project.id]));
    expect(await hosts(www.domain)).toMatchObject([{ project_id: apex.project.id, redirect_to: apex.domain }]);
    await remove(apex.project.id, apex.id);
    expect(await hosts(apex.domain, www.domain)).toEqual([]);
    expect((await add((await newProject()).id, www.domain)).status).toBe(202);
  });

  test("a project that goes waits for whoever decides about one of its names, and not the other way round", async () => {
    const apex = await proven();
    const www = await proven(`www.${apex.domain}`);
    let going: Promise<void> = Promise.resolve();
    await api.db.transaction().execute(async (tx) => {
      await lockNames(tx, [www.domain]);
      going = api.db.transaction().execute((other) => requestTeardown(other, [apex.project.id]));
      going.catch(() => {});
      await until("it to wait", async () => (await lockWaits(api.db)) > 0);
      await deleteDomain(tx, www.id);
      await placeHosts(tx, www.domain);
    });
    await going;
    expect(await hosts(apex.domain, www.domain)).toEqual([]);
  });

  test("two that prove a name in one moment do not both have it", async () => {
    const domain = newName();
    const projects = [await newProject(), await newProject()];
    const claims = await Promise.all(projects.map(async ({ id }) => (await add(id, domain)).body.domain));
    for (const dns of [one, other]) {
      dns.set(domain, { A: [edge] });
      dns.set(`_svc.${domain}`, { TXT: claims.map(({ records }) => records.txtValue) });
    }
    await Promise.all(claims.map(({ id }) => look(id)));
    const statuses = await Promise.all(projects.map(async ({ id }) => (await list(id))[0]?.status));
    expect(statuses.toSorted()).toEqual(["pending", "verified"]);
  });
});

test("whatever two servers do with names at once, the hosts are those of who has proven them", async () => {
  const random = createRandom(41);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const apex = newName();
  const names = [apex, `www.${apex}`];
  const owner = await api.newUser({ plan: { max_projects: 1_000 } });
  const projects = await Promise.all([1, 2, 3].map(() => newProject(owner)));
  await using other = secondServer();
  const claims = () => other.db.selectFrom("custom_domain").selectAll().where("domain", "in", names).execute();
  /** What somebody does, whatever others do meanwhile; refusals are fine. */
  const acts: (() => Promise<{ status: number } | undefined>)[] = [
    () => add(pick(projects).id, pick(names), owner),
    async () => {
      const claim = pick(await claims());
      return claim && remove(claim.project_id, claim.id, owner);
    },
    async () => {
      const claim = pick(await claims());
      return claim && route(claim.project_id, claim.id, pick(["production", "disabled", "preview"]), owner);
    },
    async () => {
      const claim = pick(await claims());
      return claim && change(claim.project_id, claim.id, { redirectTo: pick([...names, null]) }, owner);
    },
    async () => {
      const at = Math.floor(random() * projects.length);
      const gone = projects[at];
      projects[at] = await newProject(owner);
      return gone && api.call("DELETE", `/projects/${gone.id}`, { session: owner.session });
    },
    ...Array.from({ length: 4 }, (_, at) => async () => {
      const claim = pick(await claims());
      if (claim === undefined) return undefined;
      if (random() < 0.8) prove({ domain: claim.domain, records: { txtValue: proofValue(claim.txt_token) } });
      await look(claim.id, 0, async () => {}, at % 2 === 0 ? api.db : other.db);
      return undefined;
    }),
  ];
  for (let round = 0; round < 25; round += 1) {
    const answers = await Promise.all(Array.from({ length: 8 }, () => pick(acts)()));
    expect(answers.map((answer) => answer?.status ?? 0).filter((status) => status >= 500)).toEqual([]);
    const proven = (await claims()).filter(({ status }) => status === "verified");
    const serving = proven.filter(({ routing_target: target }) => target !== "disabled");
    const redirectOf = (id: string | null) => serving.find((each) => each.id === id)?.domain ?? null;
    const wanted = hostsOf(
      proven.map((each) => ({
        ...{ ...each, projectId: each.project_id, target: each.routing_target },
        redirectTo: redirectOf(each.redirect_domain_id),
      })),
    ).map(({ host, projectId, channel, redirectTo }) => ({
      ...{ host, project_id: projectId, channel, redirect_to: redirectTo },
    }));
    expect(await hosts(...names)).toEqual(wanted.toSorted((a, b) => (a.host < b.host ? -1 : 1)));
  }
});

/** What another control server has of its own. */
function secondServer() {
  const db = createDb({ url: api.context.config.databaseUrl, maxConnections: 10 });
  return { db, [Symbol.asyncDispose]: () => db.destroy() };
}

describe("whatever state a domain is in", () => {
  const past = new Date(Date.now() - 2 * dayMs);
  const states: Record<string, Parameters<typeof newDomain>[3]> = {
    pending: { status: "pending", verify_until: new Date(Date.now() + hourMs) },
    failed: { status: "failed", reason: "Not verified within 48 hours." },
    verified: { status: "verified", verified_at: past, dns_status: "direct" },
    "verified, and its proof is gone": { status: "verified", verified_at: past, failing_since: past },
    "verified and disabled": { status: "verified", verified_at: past, routing_target: "disabled" },
  };
  const all = Object.entries(states).map(([when, fields]) => ({ when, fields, status: when.split(/\W/)[0] }));

  test.each(all)("$when: asking opens a window of 48 hours, but takes nothing back", async ({ fields, status }) => {
    const { id: projectId } = await newProject();
    const { id } = await newDomain(api.db, projectId, newName(), fields);
    const { status: code, body } = await verify(projectId, id);
    expect([code, body.domain.status]).toEqual([202, status === "verified" ? "verified" : "pending"]);
    const leftMs = Date.parse(body.domain.verifyUntil ?? "") - Date.now();
    if (status === "verified") expect(body.domain.verifyUntil).toBeNull();
    else expect(Math.round(leftMs / hourMs)).toBe(48);
    const looks = await api.db.selectFrom("work_item").select("run_at").where("key", "=", `domain/${id}`).execute();
    expect(looks).toHaveLength(1);
  });

  test.each(all)("$when: it is led elsewhere, and serves there only with its proof", async ({ fields, status }) => {
    const { id: projectId } = await newProject();
    const { id, domain } = await newDomain(api.db, projectId, newName(), fields);
    for (const target of ["preview", "dev", "production", "disabled"] as const) {
      const { status: code, body } = await route(projectId, id, target);
      expect([code, body.domain.status, body.domain.routingTarget]).toEqual([202, status, target]);
      const serves = status === "verified" && target !== "disabled";
      expect((await hosts(domain)).map(({ channel }) => channel)).toEqual(serves ? [target] : []);
    }
  });

  test.each(all)("$when: it is listed as the contract names it, and removed", async ({ fields, status }) => {
    const { id: projectId } = await newProject();
    const { id, domain } = await newDomain(api.db, projectId, newName(), fields);
    const [listed] = await list(projectId);
    expect(listed).toMatchObject({ id, domain, status, dnsStatus: expect.stringMatching(/^(direct|unresolved)$/) });
    if (status !== "verified")
      expect(listed?.records).toMatchObject({ txtName: `_svc.${domain}`, cnameTarget: "edge.svc.example", apex: true });
    expect((await remove(projectId, id)).status).toBe(202);
    expect([await hosts(domain), await list(projectId)]).toEqual([[], []]);
  });
});

describe("a domain that redirects", () => {
  /** A project with two proven names, the first of which leads to the second one. */
  async function leading() {
    const to = await proven();
    const { project } = to;
    const from = await proven(newName(), user, project);
    const answer = await change(project.id, from.id, { redirectTo: to.domain.toUpperCase() });
    expect([answer.status, answer.body.domain]).toMatchObject([
      202,
      { redirectTo: to.domain, routingTarget: "production" },
    ]);
    return { project, from, to };
  }
  const leads = async (domain: string) => (await hosts(domain, `www.${domain}`)).map(({ redirect_to: to }) => to);

  test("leads to another one of its project, its www with it, and serves again when it is told to", async () => {
    const { project, from, to } = await leading();
    expect(await leads(from.domain)).toEqual([to.domain, to.domain]);
    expect(await leads(to.domain)).toEqual([null, to.domain]);
    const again = await change(project.id, from.id, { redirectTo: null });
    expect(again.body.domain.redirectTo).toBeNull();
    expect(await leads(from.domain)).toEqual([null, from.domain]);
  });

  test("serves while its target is disabled or has lost its proof, and for good when that is gone", async () => {
    const { project, from, to } = await leading();
    const serves = [null, from.domain];
    await route(project.id, to.id, "disabled");
    expect(await leads(from.domain)).toEqual(serves);
    await route(project.id, to.id, "preview");
    expect(await leads(from.domain)).toEqual([to.domain, to.domain]);
    await api.db.updateTable("custom_domain").set({ status: "failed" }).where("id", "=", to.id).execute();
    await verify(project.id, to.id);
    await route(project.id, to.id, "production");
    expect(await leads(from.domain)).toEqual(serves);
    await look(to.id);
    expect(await leads(from.domain)).toEqual([to.domain, to.domain]);
    await remove(project.id, to.id);
    expect(await leads(from.domain)).toEqual(serves);
    expect((await list(project.id))[0]).toMatchObject({ domain: from.domain, redirectTo: null });
  });

  test("leads to its own www, or that to it", async () => {
    const apex = await proven();
    const { project } = apex;
    const www = await proven(`www.${apex.domain}`, user, project);
    await change(project.id, apex.id, { redirectTo: www.domain });
    expect(await leads(apex.domain)).toEqual([www.domain, null]);
    await route(project.id, www.id, "disabled");
    expect(await leads(apex.domain)).toEqual([null]);
    await route(project.id, www.id, "production");
    await change(project.id, apex.id, { redirectTo: null });
    await change(project.id, www.id, { redirectTo: apex.domain });
    expect(await leads(apex.domain)).toEqual([null, apex.domain]);
    await remove(project.id, apex.id);
    expect(await leads(apex.domain)).toEqual([null]);
  });

  test("leads to the project's own host", async () => {
    const { project, domain, id } = await proven();
    const home = `${project.slug}.${api.context.config.content.domain}`;
    expect((await change(project.id, id, { redirectTo: home })).body.domain.redirectTo).toBe(home);
    expect(await leads(domain)).toEqual([home, home]);
  });

  test("is refused what is none of the project's, does not serve, or would lead in a circle", async () => {
    const { project, from, to } = await leading();
    const stranger = await proven();
    const pending = (await add(project.id, newName())).body.domain;
    const off = await proven(newName(), user, project);
    await route(project.id, off.id, "disabled");
    const to_ = (id: string, redirectTo: string) => change(project.id, id, { redirectTo }).then(told);
    for (const name of [stranger.domain, newName(), "no name", `www.${to.domain}`, off.domain.slice(1)])
      expect(await to_(from.id, name)).toEqual([422, "VALIDATION"]);
    expect(await to_(from.id, from.domain)).toEqual([422, "VALIDATION"]);
    for (const name of [pending.domain, off.domain]) expect(await to_(from.id, name)).toEqual([409, "CONFLICT"]);
    expect(await to_(to.id, from.domain)).toEqual([409, "CONFLICT"]);
    expect(await to_(off.id, from.domain)).toEqual([409, "CONFLICT"]);
    expect(told(await change(project.id, from.id, {}))).toEqual([422, "VALIDATION"]);
    expect(await leads(from.domain)).toEqual([to.domain, to.domain]);
  });
});

test("where a name leads is told and decides nothing", async () => {
  const { project, domain, id } = await proven();
  for (const [addresses, dnsStatus] of [
    [["192.0.2.99"], "not-pointing"],
    [["198.51.100.9"], "proxied"],
    [[edge], "direct"],
  ] as const) {
    for (const dns of [one, other]) dns.set(domain, { A: [...addresses] });
    await look(id);
    expect((await list(project.id))[0]).toMatchObject({ status: "verified", dnsStatus });
  }
});

test("each look leaves the next one to the queue, and a domain that is gone leaves none", async () => {
  const project = await newProject();
  const added = (await add(project.id, newName())).body.domain;
  const queued = () =>
    api.db.selectFrom("work_item").select("run_at").where("key", "=", `domain/${added.id}`).execute();
  expect(await queued()).toHaveLength(1);
  await look(added.id);
  expect(await queued()).toHaveLength(1);
  await verify(project.id, added.id);
  const [now] = await queued();
  expect(now?.run_at.getTime()).toBeLessThanOrEqual(Date.now() + 1_000);
  await remove(project.id, added.id);
  await look(added.id);
  expect(await list(project.id)).toEqual([]);
});

test("a domain tells how far its certificate is, where there is a CA", async () => {
  const { db, config } = api.context;
  const project = await newProject();
  const { id, domain } = (await add(project.id, newName())).body.domain;
  const told = async () => (await list(project.id))[0]?.certificate;
  expect(await told()).toBeNull();
  const acme = {
    directories: ["https://ca.test/dir"],
    email: null,
    rootPem: null,
    profile: "tlsserver",
    wildcard: null,
  };
  Object.assign(config, { acme });
  try {
    expect(await told()).toEqual({ status: "none", notAfter: null, reason: null });
    const changes = { status: "verified", dns_status: "direct" } as const;
    await db.updateTable("custom_domain").set(changes).where("id", "=", id).execute();
    expect(await told()).toMatchObject({ status: "pending" });
    const now = systemClock.now();
    const failure = { state: "failed", failure_code: "caa", failure: "Not allowed." } as const;
    const row = { name: domain, registered_domain: domain, next_at: now, ...failure };
    await db.insertInto("certificate").values(row).execute();
    expect(await told()).toEqual({ status: "failed", notAfter: null, reason: "Not allowed." });
    const notAfter = new Date(now.getTime() + dayMs);
    const shown = { chain: "chain", key: Buffer.from("key"), fingerprint: "f", issuer: "https://ca.test/dir" };
    const issued = { ...shown, state: "issued", not_before: now, not_after: notAfter } as const;
    await db
      .updateTable("certificate")
      .set({ ...issued, failure_code: null, failure: null })
      .where("name", "=", domain)
      .execute();
    expect(await told()).toEqual({ status: "issued", notAfter: notAfter.toISOString(), reason: null });
    // And with one browsers may be told to use TLS alone.
    const hsts = { maxAgeSeconds: 300 };
    const { status, body } = await change(project.id, id, { hsts });
    expect([status, body.domain.hsts]).toEqual([202, { ...hsts, includeSubdomains: false }]);
    expect((await change(project.id, id, { hsts, routingTarget: "disabled" })).body.error?.code).toBe("CONFLICT");
    await db.deleteFrom("certificate").where("name", "=", domain).execute();
    expect((await change(project.id, id, { hsts })).body.error?.code).toBe("CONFLICT");
    for (const maxAgeSeconds of [-1, 1.5, 63_072_001])
      expect((await change(project.id, id, { hsts: { maxAgeSeconds } })).status).toBe(422);
    expect((await change(project.id, id, { hsts: { ...hsts, preload: true } })).status).toBe(422);
    expect((await change(project.id, id, { hsts: { maxAgeSeconds: 0 } })).body.domain.hsts.maxAgeSeconds).toBe(0);
    expect((await change(project.id, id, { hsts: null })).body.domain.hsts).toBeNull();
    const audited = await db
      .selectFrom("audit")
      .select(["action", "detail"])
      .where("target", "=", project.id)
      .execute();
    expect(audited).toContainEqual({ action: "domain.hsts", detail: { domain, hsts: null } });
    expect(audited.filter(({ action }) => action === "domain.route")).toEqual([]);
  } finally {
    Object.assign(config, { acme: null });
  }
});
