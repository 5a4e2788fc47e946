import { expect, test } from "vitest";
import { type IssuingEdge, judgeIssuingEdges, judgeSiteCertificates, type SiteCertificate } from "./rules.ts";

const at = (day: number) => new Date(Date.UTC(2030, 0, day));
const now = at(20);
const failure = { code: "caa", text: "Not allowed." };
const one = (changes: Partial<SiteCertificate> = {}): SiteCertificate => ({
  ...{ name: "shop.example", held: { notBefore: at(1), notAfter: at(91) }, failure: null, isTwin: false },
  ...changes,
});
const elsewhere = { code: "not-pointing", text: "It points at 192.0.2.9." };

test.each([
  { when: "nobody gets certificates", certificates: null, finds: [] },
  { when: "all is well", certificates: [one()], finds: ["ok"] },
  { when: "one is on its way", certificates: [one({ held: null })], finds: ["ok"] },
  { when: "one could not be had", certificates: [one({ held: null, failure })], finds: ["ok", "warn"] },
  {
    when: "a twin leads elsewhere",
    certificates: [one({ held: null, failure: elsewhere, isTwin: true })],
    finds: ["ok"],
  },
  { when: "a renewal failed early", certificates: [one({ failure })], finds: ["ok"] },
  {
    when: "one ends soon",
    certificates: [one({ held: { notBefore: at(1), notAfter: at(21) } })],
    finds: ["ok", "warn"],
  },
  {
    when: "one is over",
    certificates: [one({ held: { notBefore: at(1), notAfter: at(19) }, failure })],
    finds: ["ok", "fail"],
  },
])("when $when", ({ certificates, finds }) => {
  const found = judgeSiteCertificates(certificates, now);
  expect(found.map(({ status }) => status)).toEqual(finds);
  const worst = found.at(-1);
  if (worst === undefined || worst.status === "ok") return;
  expect(worst.text).toContain("shop.example");
  expect(worst.hint).toContain(certificates?.[0]?.failure?.text ?? "There was no attempt.");
});

const edge = (changes: Partial<IssuingEdge> = {}): IssuingEdge => ({
  ...{ name: "edge-1", isThere: true, lacks: 0, problem: null },
  ...changes,
});
test.each([
  { when: "nobody gets certificates", edges: null, finds: [] },
  { when: "every edge answers", edges: [edge(), edge({ name: "edge-2" })], finds: [] },
  { when: "one is silent", edges: [edge(), edge({ name: "edge-2", isThere: false, lacks: 3 })], finds: ["edge-2"] },
  { when: "the Caddy of one is away", edges: [edge({ lacks: 1 })], finds: ["wait for edge-1"] },
  {
    when: "one was told a certificate that makes no sense",
    edges: [edge({ problem: "shop.example: the key is another one's" })],
    finds: ["edge-1 has not all certificates: shop.example: the key is another one's."],
  },
])("when $when", ({ edges, finds }) => {
  const found = judgeIssuingEdges(edges);
  expect(found.map(({ text }) => text)).toEqual(finds.map((text) => expect.stringContaining(text)));
  expect(found.every(({ status }) => status === "warn")).toBe(true);
});
