import { expect, test } from "vitest";
import { certificateView } from "./certificate.ts";

const at = (day: number) => new Date(Date.UTC(2030, 0, day));
const served = { status: "verified", routing_target: "production", dns_status: "direct" } as const;
const held = { notBefore: at(1), notAfter: at(20) };
const failure = { code: "caa", text: "Not allowed." };
const facts = { name: "shop.example", held: null, failure: null };
const until = at(20).toISOString();

test.each([
  {
    when: "it is not proven",
    domain: { ...served, status: "pending" as const },
    facts: { ...facts, held },
    is: "none",
  },
  { when: "it is disabled", domain: { ...served, routing_target: "disabled" as const }, facts: null, is: "none" },
  { when: "it leads elsewhere", domain: { ...served, dns_status: "not-pointing" as const }, facts: null, is: "none" },
  { when: "a proxy leads here", domain: { ...served, dns_status: "proxied" as const }, facts: null, is: "pending" },
  { when: "nobody has begun", domain: served, facts: null, is: "pending" },
  { when: "it is on its way", domain: served, facts, is: "pending" },
  { when: "it could not be had", domain: served, facts: { ...facts, failure }, is: "failed", reason: "Not allowed." },
  { when: "there is one", domain: served, facts: { ...facts, held }, is: "issued", notAfter: until },
  {
    when: "there is one that is not renewed",
    ...{ domain: served, facts: { ...facts, held, failure }, is: "issued", notAfter: until, reason: "Not allowed." },
  },
  {
    when: "it has ended",
    ...{ domain: served, facts: { ...facts, held: { ...held, notAfter: at(9) }, failure }, is: "failed" },
    ...{ notAfter: at(9).toISOString(), reason: "Not allowed." },
  },
])("when $when", ({ domain, facts, is, notAfter = null, reason = null }) => {
  expect(certificateView(domain, facts, at(10))).toEqual({ status: is, notAfter, reason });
});
