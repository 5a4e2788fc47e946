import { webcrypto, X509Certificate } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { createAuthority, createClientCertificate, type KeyAndCertificate, readRequest } from "../ca/certificates.ts";
import { aCertificateRequest } from "../ca/testing.ts";
import { createLeafCheck } from "./leaf-check.ts";

const clusterId = "0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01";
const times = () => ({
  notBefore: new Date("2030-01-01T00:00:00Z"),
  notAfter: new Date("2030-01-31T00:00:00Z"),
  serial: webcrypto.getRandomValues(new Uint8Array(16)),
});

let older: KeyAndCertificate;
let newer: KeyAndCertificate;
beforeAll(async () => {
  older = await createAuthority(clusterId, times());
  newer = await createAuthority(clusterId, times());
});

async function aLeafOf(issuer: KeyAndCertificate): Promise<X509Certificate> {
  const key = await readRequest((await aCertificateRequest()).der);
  const about = { uri: "svc://cluster/node", subject: "CN=node" };
  return new X509Certificate(await createClientCertificate(issuer, key, { ...times(), ...about }));
}

/** What a replica knows of the authorities, and what it will know once it reads them again. */
function anAuthority(first: readonly KeyAndCertificate[], stored: readonly KeyAndCertificate[] = first) {
  const tell = (of: readonly KeyAndCertificate[]) => ({
    trusted: of.map(({ certificate }) => certificate).join("\n"),
    trust: of.map(({ certificate }) => new X509Certificate(certificate).fingerprint256).join(),
  });
  let told = tell(first);
  return {
    get trusted() {
      return told.trusted;
    },
    get trust() {
      return told.trust;
    },
    reads: 0,
    become: (next: readonly KeyAndCertificate[]) => {
      told = tell(next);
    },
    async refresh() {
      this.reads += 1;
      told = tell(stored);
      return true;
    },
  };
}

test("a leaf counts as long as the authority that signed it, whatever was remembered of it", async () => {
  const authority = anAuthority([newer, older], [newer]);
  const check = createLeafCheck(authority);
  const [before, after] = [await aLeafOf(older), await aLeafOf(newer)];
  await check.require(before);
  await check.require(after);
  expect(authority.reads).toBe(0);
  authority.become([newer]);
  expect([check.isInForce(before), check.isInForce(after)]).toEqual([false, true]);
  await expect(check.require(before)).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
});

test("a leaf of an authority that this replica has not heard of is let in once it has read it", async () => {
  const authority = anAuthority([older], [newer, older]);
  await createLeafCheck(authority).require(await aLeafOf(newer));
  expect(authority.reads).toBe(1);
});

test("a leaf of somebody else with the same name is refused", async () => {
  const stranger = await createAuthority(clusterId, times());
  const check = createLeafCheck(anAuthority([newer, older]));
  await expect(check.require(await aLeafOf(stranger))).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
});
