import { describe, expect, test } from "vitest";
import { aProject, ok, projectId, type Routes, refusal, type Seen, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, type SvcOptions, svc } from "../testing/svc.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const project = { id: projectId, slug: "shop" };
const domainId = "55555555-5555-4555-8555-555555555555";
const at = "2030-01-01T00:00:00.000Z";
const base = `/api/v1/projects/${projectId}/domains`;
const one = `${base}/${domainId}`;

const records = {
  ...{ txtName: "_svc.shop.example", txtValue: "svc-verify=abc", cnameTarget: "edge.svc.example" },
  ...{ aRecordIp: "192.0.2.1", aRecordIps: ["192.0.2.1"], aaaaRecordIps: ["2001:db8::1"], apex: true },
};
const aDomain = (fields: object = {}) => ({
  ...{ id: domainId, domain: "shop.example", status: "pending", routingTarget: "production", dnsStatus: "unresolved" },
  ...{
    reason: null,
    verifyUntil: at,
    verifiedAt: null,
    lastCheckedAt: null,
    createdAt: at,
    certificate: null,
    redirectTo: null,
    hsts: null,
    records,
  },
  ...fields,
});
const listOf = (...domains: object[]) => ok({ domains, maxCustomDomains: 3 });
const changed = (fields: object = {}) => ok({ domain: aDomain(fields), queued: true }, 202);

async function run(args: string[], answers: Routes, more: Partial<SvcOptions> = {}) {
  const detail = ok({ project: aProject(project), deployments: [] });
  await using api = await startApi({ [`GET /api/v1/projects/${projectId}`]: detail, ...answers });
  await using directory = await aDirectory({ ".svc/state.json": state });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url, ...more.env };
  const ended = await svc(args, { cwd: directory.path, ...more, env });
  return { ...ended, seen: api.seen, calls: api.seen.map(({ method, path }) => `${method} ${path}`) };
}
const bodyOf = (seen: readonly Seen[], method: string) =>
  JSON.parse(String(seen.find((each) => each.method === method)?.body));

describe.concurrent("svc domains", () => {
  test("ls tells the domains and how many there may be", async () => {
    const ended = await run(["domains", "ls", "--json"], { [`GET ${base}`]: listOf(aDomain()) });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, domains: [aDomain()], maxCustomDomains: 3 });
    const text = await run(["domains", "ls"], {
      [`GET ${base}`]: listOf(
        aDomain(),
        aDomain({ domain: "b.example", status: "failed", reason: "It was not there." }),
      ),
    });
    expect(text.stdout).toMatch(/shop\.example +pending +production/);
    expect(text.stdout).toMatch(/_svc\.shop\.example +svc-verify=abc/);
    expect(text.stdout).toContain("It was not there.");
    expect(text.stdout).toContain("2 of 3 domains");
  });

  test("add prints the TXT record, and addresses for an apex or a CNAME for other names", async () => {
    const apex = await run(["domains", "add", "shop.example"], { [`POST ${base}`]: changed() });
    expect(bodyOf(apex.seen, "POST")).toEqual({ domain: "shop.example" });
    expect(apex.stdout).toMatch(/TXT +_svc\.shop\.example +svc-verify=abc/);
    expect(apex.stdout).toMatch(/A +shop\.example +192\.0\.2\.1/);
    expect(apex.stdout).toMatch(/AAAA +shop\.example +2001:db8::1/);
    expect(apex.stdout).not.toContain("CNAME");
    const below = await run(["domains", "add", "www.shop.example"], {
      [`POST ${base}`]: changed({ domain: "www.shop.example", records: { ...records, apex: false } }),
    });
    expect(below.stdout).toMatch(/CNAME +www\.shop\.example +edge\.svc\.example/);
  });

  test("add says why a name is refused", async () => {
    const ended = await run(["domains", "add", "co.uk", "--json"], {
      [`POST ${base}`]: refusal(422, "VALIDATION", "domain: That is a public suffix."),
    });
    expect(envelopeOf(ended)).toMatchObject({
      ok: false,
      error: { message: expect.stringContaining("public suffix") },
    });
    expect(ended.status).not.toBe(0);
  });

  test("route leads it elsewhere, and takes the four targets alone", async () => {
    const ended = await run(["domains", "route", "SHOP.example.", "disabled", "--json"], {
      [`GET ${base}`]: listOf(aDomain()),
      [`PATCH ${one}`]: changed({ routingTarget: "disabled" }),
    });
    expect(bodyOf(ended.seen, "PATCH")).toEqual({ routingTarget: "disabled" });
    expect(envelopeOf(ended)).toMatchObject({ ok: true, domain: { routingTarget: "disabled" } });
    const wrong = await run(["domains", "route", "shop.example", "staging", "--json"], {});
    expect([wrong.status, wrong.calls]).toEqual([2, []]);
  });

  test("redirect sends visitors on, which route leaves as it is, until it is off", async () => {
    const answers = (redirectTo: string | null) => ({
      [`GET ${base}`]: listOf(aDomain({ redirectTo })),
      [`PATCH ${one}`]: changed({ redirectTo }),
    });
    const on = await run(["domains", "redirect", "shop.example", "example.net"], answers("example.net"));
    expect(bodyOf(on.seen, "PATCH")).toEqual({ redirectTo: "example.net" });
    expect(on.stdout).toContain("shop.example redirects to example.net");
    expect((await run(["domains", "ls"], answers("example.net"))).stdout).toMatch(/pending +example\.net/);
    const routed = await run(["domains", "route", "shop.example", "production"], answers("example.net"));
    expect(routed.stdout).toContain("svc domains redirect shop.example off");
    const off = await run(["domains", "redirect", "shop.example", "off"], answers(null));
    expect(bodyOf(off.seen, "PATCH")).toEqual({ redirectTo: null });
    expect(off.stdout).toContain("shop.example leads to production");
  });

  test.each([
    { args: [], hsts: { maxAgeSeconds: 31_536_000, includeSubdomains: false }, says: "for 365 days" },
    {
      args: ["--days", "2", "--include-subdomains"],
      hsts: { maxAgeSeconds: 172_800, includeSubdomains: true },
      says: "all below it",
    },
    { args: ["--days", "0"], hsts: { maxAgeSeconds: 0, includeSubdomains: false }, says: "forget" },
    { args: ["off"], hsts: null, says: "nothing" },
  ])("hsts $args", async ({ args, hsts, says }) => {
    const ended = await run(["domains", "hsts", "shop.example", ...args], {
      [`GET ${base}`]: listOf(aDomain()),
      [`PATCH ${one}`]: changed({ hsts }),
    });
    expect(bodyOf(ended.seen, "PATCH")).toEqual({ hsts });
    expect(ended.stdout).toContain(says);
  });

  test.each([["on"], ["off", "--days", "3"], ["--days", "731"]])(
    "hsts refuses %s %s before it asks anybody",
    async (...args) => {
      const ended = await run(["domains", "hsts", "shop.example", ...args, "--json"], {});
      expect([envelopeOf(ended)["error"], ended.calls]).toMatchObject([{ code: "CLI_INVALID_USAGE" }, []]);
    },
  );

  test("verify asks for a look, and a name that the project has not is not found", async () => {
    const answers = { [`GET ${base}`]: listOf(aDomain()), [`POST ${one}/verify`]: changed() };
    const ended = await run(["domains", "verify", "shop.example"], answers);
    expect(ended.calls).toContain(`POST ${one}/verify`);
    const none = await run(["domains", "verify", "other.example", "--json"], answers);
    expect(envelopeOf(none)).toMatchObject({ error: { code: "CLOUD_NOT_FOUND" } });
  });

  test("rm wants to be sure, and says so before it asks anybody", async () => {
    const answers = { [`GET ${base}`]: listOf(aDomain()), [`DELETE ${one}`]: changed() };
    const unsure = await run(["domains", "rm", "shop.example", "--json"], answers);
    expect(envelopeOf(unsure)).toMatchObject({ error: { code: "DESTRUCTIVE_CONFIRMATION_REQUIRED" } });
    expect(unsure.calls).toEqual([]);
    const sure = await run(["domains", "rm", "shop.example", "--yes", "--json"], answers);
    expect(envelopeOf(sure)).toMatchObject({
      ok: true,
      deleted: true,
      domain: { id: domainId, domain: "shop.example" },
    });
    expect(sure.calls).toContain(`DELETE ${one}`);
  });
});
