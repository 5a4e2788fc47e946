import { describe, expect, test } from "vitest";
import {
  additionRefusal,
  type Claim,
  concernedNames,
  hostsOf,
  hstsRefusal,
  type ProvenDomain,
  redirectRefusal,
  routeRefusal,
} from "./rules.ts";

const plan = { maxCustomDomains: 2, previewsEnabled: true, devSyncEnabled: true };
const claim = (more: Partial<Claim> = {}): Claim => ({
  ...{ status: "pending", isOwn: false, isOfOwner: false, isFailing: false },
  ...more,
});

describe("a domain is attached", () => {
  test.each([
    { when: "nobody claims it", claims: [], count: 1, code: null },
    { when: "the plan has no domains", plan: { ...plan, maxCustomDomains: 0 }, code: "PLAN_FEATURE_UNAVAILABLE" },
    { when: "the project has as many as it may", count: 2, code: "QUOTA_EXCEEDED" },
    { when: "a downgraded plan allows fewer than there are", count: 5, code: "QUOTA_EXCEEDED" },
    { when: "the project has it already", claims: [claim({ isOwn: true })], code: "CONFLICT" },
    { when: "the project had it and it failed", claims: [claim({ isOwn: true, status: "failed" })], code: "CONFLICT" },
    { when: "another project claims it", claims: [claim()], code: null },
    { when: "another project's claim failed", claims: [claim({ status: "failed" })], code: null },
    { when: "another project has proven it", claims: [claim({ status: "verified" })], code: "CONFLICT" },
    {
      when: "another project's proof is gone",
      claims: [claim({ status: "verified", isFailing: true })],
      code: null,
    },
    { when: "twenty strangers claim it", claims: Array.from({ length: 20 }, () => claim()), code: null },
    {
      when: "twenty projects of the owner claim it",
      claims: Array.from({ length: 20 }, () => claim({ isOfOwner: true })),
      code: "CONFLICT",
    },
  ])("when $when: $code", ({ plan: given = plan, count = 0, claims = [], code }) => {
    expect(additionRefusal(given, count, claims)?.code ?? null).toBe(code);
  });
});

test.each([
  { target: "production", without: {}, code: null },
  { target: "disabled", without: { previewsEnabled: false, devSyncEnabled: false }, code: null },
  { target: "preview", without: { previewsEnabled: false }, code: "PLAN_FEATURE_UNAVAILABLE" },
  { target: "preview", without: { devSyncEnabled: false }, code: null },
  { target: "dev", without: { devSyncEnabled: false }, code: "PLAN_FEATURE_UNAVAILABLE" },
  { target: "dev", without: { previewsEnabled: false }, code: null },
] as const)("a domain led to $target by a plan without $without: $code", ({ target, without, code }) => {
  expect(routeRefusal({ ...plan, ...without }, target)?.code ?? null).toBe(code);
});

test.each([
  { maxAgeSeconds: 300, status: "issued", code: null },
  { maxAgeSeconds: 300, status: "pending", code: "CONFLICT" },
  { maxAgeSeconds: 300, status: "failed", code: "CONFLICT" },
  { maxAgeSeconds: 300, status: "none", code: "CONFLICT" },
  { maxAgeSeconds: 300, status: null, code: "CONFLICT" },
  { maxAgeSeconds: 0, status: "failed", code: null },
  { maxAgeSeconds: null, status: null, code: null },
] as const)(
  "TLS alone for $maxAgeSeconds s with a certificate that is $status: $code",
  ({ maxAgeSeconds, status, code }) => {
    const certificate = status === null ? null : { status, notAfter: null, reason: null };
    expect(hstsRefusal(maxAgeSeconds, certificate)?.code ?? null).toBe(code);
  },
);

describe("a domain redirects", () => {
  const target = { domain: "example.net", status: "verified", target: "production", isRedirect: false } as const;
  test.each([
    { when: "to another one", to: target, code: null },
    { when: "to one that leads to a preview", to: { ...target, target: "preview" }, code: null },
    { when: "to the project's own host", to: null, code: null },
    { when: "to itself", to: { ...target, domain: "old.example" }, code: "VALIDATION" },
    { when: "to one that waits for its proof", to: { ...target, status: "pending" }, code: "CONFLICT" },
    { when: "to one that is disabled", to: { ...target, target: "disabled" }, code: "CONFLICT" },
    { when: "to one that redirects", to: { ...target, isRedirect: true }, code: "CONFLICT" },
    { when: "while another one leads to it", to: target, isLedTo: true, code: "CONFLICT" },
    { when: "home while another one leads to it", to: null, isLedTo: true, code: "CONFLICT" },
  ] as const)("$when: $code", ({ to, code, ...more }) => {
    expect(redirectRefusal("old.example", to, "isLedTo" in more)?.code ?? null).toBe(code);
  });
});

test("a change of a name concerns its twin and no other name", () => {
  expect(concernedNames("example.net")).toEqual(["example.net", "www.example.net"]);
  expect(concernedNames("www.example.net")).toEqual(["www.example.net", "example.net"]);
  expect(concernedNames("shop.example.net")).toEqual(["shop.example.net"]);
  expect(concernedNames("www.shop.example.net")).toEqual(["www.shop.example.net"]);
});

describe("hosts", () => {
  const proven = (domain: string, more: Partial<ProvenDomain> = {}): ProvenDomain => ({
    ...{ id: `id of ${domain}`, projectId: "one", domain, target: "production", redirectTo: null },
    ...more,
  });
  const told = (domains: ProvenDomain[]) =>
    hostsOf(domains).map(({ host, projectId, channel, redirectTo }) => [host, projectId, channel, redirectTo]);

  test.each([
    { when: "nothing is proven", domains: [], hosts: [] },
    {
      when: "an apex is",
      domains: [proven("example.net")],
      hosts: [
        ["example.net", "one", "production", null],
        ["www.example.net", "one", "production", "example.net"],
      ],
    },
    {
      when: "a name below is",
      domains: [proven("shop.example.net", { target: "preview" })],
      hosts: [["shop.example.net", "one", "preview", null]],
    },
    { when: "an apex is disabled", domains: [proven("example.net", { target: "disabled" })], hosts: [] },
    {
      when: "another project has the www",
      domains: [proven("example.net"), proven("www.example.net", { projectId: "two", target: "dev" })],
      hosts: [
        ["example.net", "one", "production", null],
        ["www.example.net", "two", "dev", null],
      ],
    },
    {
      when: "another project has the www and disabled it",
      domains: [proven("example.net"), proven("www.example.net", { projectId: "two", target: "disabled" })],
      hosts: [["example.net", "one", "production", null]],
    },
    {
      when: "an apex redirects",
      domains: [proven("old.example", { redirectTo: "example.net" })],
      hosts: [
        ["old.example", "one", "production", "example.net"],
        ["www.old.example", "one", "production", "example.net"],
      ],
    },
    {
      when: "an apex redirects to its www",
      domains: [proven("example.net", { redirectTo: "www.example.net" }), proven("www.example.net")],
      hosts: [
        ["example.net", "one", "production", "www.example.net"],
        ["www.example.net", "one", "production", null],
      ],
    },
    {
      when: "one that redirects is disabled",
      domains: [proven("old.example", { redirectTo: "example.net", target: "disabled" })],
      hosts: [],
    },
    {
      when: "the www is proven alone",
      domains: [proven("www.example.net")],
      hosts: [["www.example.net", "one", "production", null]],
    },
  ])("when $when", ({ domains, hosts }) => {
    expect(told(domains)).toEqual(hosts);
  });
});
