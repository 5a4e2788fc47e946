import { expect, test } from "vitest";
import { createAuthority, createServerCertificate } from "../../ca/certificates.ts";
import { newKeyPem } from "./jws.ts";
import { ariIdFrom, BadChain, readLeaf } from "./leaf.ts";

const validity = { notBefore: new Date("2030-01-01T00:00:00Z"), notAfter: new Date("2030-04-01T00:00:00Z") };
const serial = Buffer.alloc(16, 7);

async function aCertificate(host: string) {
  const authority = await createAuthority("test", { ...validity, serial });
  const { certificate, privateKey } = await createServerCertificate(authority, { ...validity, serial, hosts: [host] });
  return { chain: `${certificate}\n${authority.certificate}`, privateKey };
}

test("a serial number that would be negative in DER has a zero before it, as in RFC 9773", () => {
  const keyId = "69885B6B87464041E1B37B847BA0AE2CDE01C8D4";
  expect(ariIdFrom(keyId, "87654321")).toBe("aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE");
  expect(ariIdFrom(keyId, "0087654321")).toBe("aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE");
});

test.each(["shop.test", "*.content.test"])("a certificate for %s tells how long it lasts", async (name) => {
  const { chain, privateKey } = await aCertificate(name);
  expect(readLeaf(chain, privateKey, name)).toMatchObject(validity);
});

test("what is not what was asked for is refused", async () => {
  const { chain, privateKey } = await aCertificate("shop.test");
  expect(() => readLeaf(chain, privateKey, "other.test")).toThrow(BadChain);
  expect(() => readLeaf(chain, privateKey, "*.shop.test")).toThrow(BadChain);
  expect(() => readLeaf(chain, newKeyPem(), "shop.test")).toThrow(BadChain);
  expect(() => readLeaf("nothing", privateKey, "shop.test")).toThrow(BadChain);
});
