import { expect, test } from "vitest";
import { judgeSiteCertificates, type SiteCertificate } from "./rules.ts";

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
