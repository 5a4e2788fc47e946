import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostProblem, isPublicAddress, parseAddress } from "./hosts.ts";

describe("public addresses", () => {
  test.each([
    "1.1.1.1",
    "8.8.8.8",
    "172.15.0.1",
    "172.32.0.1",
    "100.63.255.255",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450:4001::8a",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
  ])("%s", (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });
});

describe("addresses that are never contacted", () => {
  test.each([
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "ff02::1",
    "2001::1",
    "2001:db8::1",
    "2002:a9fe:a9fe::",
    "3fff::1",
    "4000::1",
  ])("%s", (address) => {
    expect(parseAddress(address)).not.toBeNull();
    expect(isPublicAddress(address)).toBe(false);
  });

  test.each([
    "",
    "1.1.1",
    "01.1.1.1",
    "0x8.8.8.8",
    "134744072",
    "8.8.8.8.",
    " 8.8.8.8",
    "1.1.1.256",
    "fe80::1%eth0",
    "[2606::1]",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8:9",
    ":1",
    "12345::",
    "::1.2.3",
    "::1.2.3.4:5",
    "example.test",
  ])("%j, which is no address", (text) => {
    expect(parseAddress(text)).toBeNull();
    expect(isPublicAddress(text)).toBe(false);
  });

  test("every spelling of an address has the same bytes", () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        const bytes = parseAddress(address);
        expect(bytes).toHaveLength(16);
        const host = new URL(`http://[${address}]/`).hostname.slice(1, -1);
        expect(parseAddress(host)).toEqual(bytes);
        expect(isPublicAddress(host)).toBe(isPublicAddress(address));
      }),
    );
    fc.assert(fc.property(fc.ipV4(), (address) => void expect(parseAddress(address)?.join(".")).toBe(address)));
  });
});

describe("host names of registries and webhooks", () => {
  test.each([
    "images.example.test",
    "registry-1.docker.io",
    "registry.example.test:5000",
    "a.b.c.test:443",
    "10.0.0.1.nip.test",
  ])("%s may be looked up", (host) => {
    expect(hostProblem(host)).toBeNull();
  });

  test.each([
    "localhost",
    "localhost.",
    "registry",
    "registry:5000",
    "127.0.0.1",
    "127.0.0.1:5000",
    "0x7f.1",
    "0x7f000001",
    "2130706433",
    "a.0x1",
    "[::1]",
    "registry.local",
    "metadata.internal",
    "svc.localhost",
    "printer.home.arpa",
    "registry.example.test:22",
    "registry.example.test:99999",
    "user@registry.example.test",
    "Registry.example.test",
    "-a.test",
    "a_b.test",
    `${"a".repeat(64)}.test`,
    "ⓛⓞⓒⓐⓛ.test",
    "",
  ])("%j may not", (host) => {
    expect(hostProblem(host)).toMatch(/\.$/);
  });

  test("what the operator allowed is allowed exactly as written", () => {
    const allowed = ["localhost:5000", "registry.internal"];
    expect(hostProblem("localhost:5000", allowed)).toBeNull();
    expect(hostProblem("registry.internal", allowed)).toBeNull();
    expect(hostProblem("localhost", allowed)).not.toBeNull();
    expect(hostProblem("localhost:5001", allowed)).not.toBeNull();
    expect(hostProblem("x.registry.internal", allowed)).not.toBeNull();
  });
});
