import { normaliseRegistry, parseAddress } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import { describe, expect, test } from "vitest";
import { ownRegistry } from "./own.ts";
import { createReferencePolicy } from "./reference.ts";

const policy = (addresses: string[] | Error, allow: string[] = []) =>
  createReferencePolicy(systemClock, { allow, ownRegistry: ownRegistry("http://127.0.0.1:4500") }, async () => {
    if (addresses instanceof Error) throw addresses;
    return addresses;
  });

test("a public registry with public addresses is fine", async () => {
  expect(await policy(["93.184.215.14", "2606:2800:21f:cb07::1"]).problem("registry.example.test/shop:1")).toBeNull();
});

test("Docker Hub is looked up where its images are", async () => {
  const asked: string[] = [];
  const hub = createReferencePolicy(
    systemClock,
    { allow: [], ownRegistry: ownRegistry("http://127.0.0.1:4500") },
    async (name) => {
      asked.push(name);
      return ["93.184.215.14"];
    },
  );
  expect(await hub.problem("nginx:1")).toBeNull();
  expect(asked).toEqual(["registry-1.docker.io"]);
});

test("another project's artifact cannot be named, even where the cluster's registry is allowed", async () => {
  const allowed = policy(new Error("not asked"), ["127.0.0.1:4500"]);
  expect(await allowed.problem("127.0.0.1:4500/examples/shop:1")).toBeNull();
  expect(await allowed.problem("127.0.0.1:4500/svc/1b4e28ba-2fa1-11d2-883f-0016d3cca427/app:1")).not.toBeNull();
  expect(await allowed.problem("127.0.0.1:4500/bases/docker.io/library/node:1")).not.toBeNull();
});

describe("another project's artifact cannot be named by another name of the cluster's registry", () => {
  const artifact = "svc/1b4e28ba-2fa1-11d2-883f-0016d3cca427/app:1";
  /** A small world of names; an address is its own. */
  const resolve = async (name: string) =>
    ({
      "registry.test": ["10.0.0.5"],
      "other.test": ["10.0.0.6"],
      "alias.test": ["10.0.0.9", "10.0.0.5"],
      "mapped.test": ["::ffff:10.0.0.5"],
      "here.test": ["127.0.0.1"],
      "here6.test": ["::1"],
      "public.test": ["93.184.215.14"],
      "public-alias.test": ["93.184.215.14"],
      localhost: ["::1", "127.0.0.1"],
    })[name] ?? (parseAddress(name) === null ? [] : [name]);

  test.each([
    ...["127.0.0.1:4500", "localhost:4500", "LOCALHOST:4500", "127.0.0.1:04500", "127.1:4500", "127.0.0.2:4500"].map(
      (named) => ({ own: "http://127.0.0.1:4500", named }),
    ),
    ...["0.0.0.0:4500", "x.localhost:4500", "here.test:4500", "here6.test:4500", "0x7f000001:4500"].map((named) => ({
      own: "http://127.0.0.1:4500",
      named,
    })),
    { own: "http://localhost:4500", named: "127.0.0.1:4500" },
    { own: "http://localhost:4500", named: "here.test:4500" },
    { own: "http://[::1]:4500", named: "localhost:4500" },
    { own: "https://registry.test", named: "registry.test" },
    { own: "https://registry.test", named: "Registry.Test:443" },
    { own: "https://registry.test.", named: "registry.test" },
    { own: "http://registry.test", named: "registry.test" },
    { own: "http://registry.test", named: "registry.test:80" },
    { own: "https://registry.test:5000", named: "10.0.0.5:5000" },
    { own: "https://registry.test:5000", named: "alias.test:5000" },
    { own: "https://registry.test:5000", named: "mapped.test:5000" },
    { own: "https://10.0.0.5:5000", named: "registry.test:5000" },
    { own: "https://public.test", named: "public-alias.test" },
    { own: "https://registry-1.docker.io", named: "index.docker.io" },
  ])("$named for $own", async ({ own, named }) => {
    // The operator's list has each of them as it is compared.
    const host = normaliseRegistry(named) ?? named;
    const { problem } = createReferencePolicy(
      systemClock,
      { allow: [host, "not a host"], ownRegistry: ownRegistry(own) },
      resolve,
    );
    expect(await problem(`${named}/${artifact}`)).toMatch(/cannot be deployed by name/);
    // What else is there is for the operator to say.
    expect(await problem(`${named}/examples/shop:1`)).toBeNull();
  });

  test.each([
    { own: "http://127.0.0.1:4500", named: "localhost:5000" },
    { own: "https://registry.test:5000", named: "registry.test:5001" },
    { own: "https://registry.test:5000", named: "other.test:5000" },
    { own: "https://registry.test", named: "public.test" },
  ])("but $named is another one than $own, and may have a namespace of that name", async ({ own, named }) => {
    const { problem } = createReferencePolicy(systemClock, { allow: [named], ownRegistry: ownRegistry(own) }, resolve);
    expect(await problem(`${named}/${artifact}`)).toBeNull();
  });

  test("while names cannot be looked up it is not known, and not assumed", async () => {
    const away = () => Promise.reject(new Error("SERVFAIL"));
    const rules = { allow: ["alias.test:5000"], ownRegistry: ownRegistry("https://registry.test:5000") };
    const { problem } = createReferencePolicy(systemClock, rules, away);
    await expect(problem(`alias.test:5000/${artifact}`)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
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
