import { expect, test } from "vitest";
import { createReferencePolicy } from "./reference.ts";

const policy = (addresses: string[] | Error, allow: string[] = []) =>
  createReferencePolicy({ allow, ownRegistry: "127.0.0.1:4500" }, async () => {
    if (addresses instanceof Error) throw addresses;
    return addresses;
  });

test("a public registry with public addresses is fine", async () => {
  expect(await policy(["93.184.215.14", "2606:2800:21f:cb07::1"]).problem("registry.example.test/shop:1")).toBeNull();
});

test("Docker Hub is looked up where its images are", async () => {
  const asked: string[] = [];
  const hub = createReferencePolicy({ allow: [], ownRegistry: "127.0.0.1:4500" }, async (name) => {
    asked.push(name);
    return ["93.184.215.14"];
  });
  expect(await hub.problem("nginx:1")).toBeNull();
  expect(asked).toEqual(["registry-1.docker.io"]);
});

test("another project's artifact cannot be named, even where the cluster's registry is allowed", async () => {
  const allowed = policy(new Error("not asked"), ["127.0.0.1:4500"]);
  expect(await allowed.problem("127.0.0.1:4500/examples/shop:1")).toBeNull();
  expect(await allowed.problem("127.0.0.1:4500/svc/1b4e28ba-2fa1-11d2-883f-0016d3cca427/app:1")).not.toBeNull();
});

test("an allowed registry is not looked up at all", async () => {
  const allowed = policy(new Error("not asked"), ["10.0.0.5:5000", "localhost:5000"]);
  expect(await allowed.problem("10.0.0.5:5000/shop:1")).toBeNull();
  expect(await allowed.problem("localhost:5000/shop:1")).toBeNull();
  expect(await allowed.problem("localhost:5001/shop:1")).not.toBeNull();
});

test.each([
  { when: "one address of many is private", addresses: ["93.184.215.14", "192.168.1.1"] },
  { when: "it is the metadata service", addresses: ["169.254.169.254"] },
  { when: "it is a cloud's own host", addresses: ["168.63.129.16"] },
  { when: "a private address is wrapped in IPv6", addresses: ["::ffff:10.0.0.1"] },
  { when: "a private address is translated into IPv6", addresses: ["64:ff9b::a9fe:a9fe"] },
  { when: "it has no address", addresses: [] },
  { when: "what the resolver says is no address", addresses: ["registry.example.test"] },
])("refused when $when", async ({ addresses }) => {
  expect(await policy(addresses).problem("registry.example.test/shop:1")).toMatch(/\.$/);
});

test("a resolver that is away is nobody's mistake", async () => {
  const asked = policy(new Error("SERVFAIL")).problem("registry.example.test/shop:1");
  await expect(asked).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test("a reference without a tag is refused before any lookup", async () => {
  expect(await policy(new Error("not asked")).problem("registry.example.test/shop")).toMatch(/tag/);
});

test.each([
  "127.0.0.1/x:1",
  "0x7f.1/x:1",
  "0x7f000001:5000/x:1",
  "2130706433:5000/x:1",
  "0177.0.0.1/x:1",
  "8.8.8.8/x:1",
  "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/x:1",
  "localhost./x:1",
  "localhost/x:1",
  "[::1]:5000/x:1",
  "[::ffff:10.0.0.1]/x:1",
  "user@registry.example.test/x:1",
  "registry.example.test:22/x:1",
  "registry.example.test:80/x:1",
  "registry.local/x:1",
  "metadata.google.internal/x:1",
  "a.localhost/x:1",
  "nas.home.arpa/x:1",
])("%s is refused before any lookup", async (reference) => {
  expect(await policy(new Error("not asked")).problem(reference)).not.toMatch(/looked up/);
});

test("a name that spells a private address means it", async () => {
  expect(await policy(["10.0.0.1"]).problem("10.0.0.1.nip.test/x:1")).toMatch(/not on the public internet/);
});

test.each(["", ":443", ":5000", ":5050", ":8443"])("the registry port %j is one that registries use", async (port) => {
  expect(await policy(["93.184.215.14"]).problem(`registry.example.test${port}/x:1`)).toBeNull();
});

test("a credential's registry is judged like a reference's, and the cluster's own takes none", async () => {
  expect(await policy(["93.184.215.14"]).registryProblem("registry.example.test")).toBeNull();
  expect(await policy(["93.184.215.14", "10.0.0.1"]).registryProblem("registry.example.test")).not.toBeNull();
  expect(await policy(new Error("not asked")).registryProblem("10.0.0.5:5000")).not.toMatch(/looked up/);
  const allowed = policy(new Error("not asked"), ["10.0.0.5:5000", "127.0.0.1:4500"]);
  expect(await allowed.registryProblem("10.0.0.5:5000")).toBeNull();
  expect(await allowed.registryProblem("127.0.0.1:4500")).not.toBeNull();
});
