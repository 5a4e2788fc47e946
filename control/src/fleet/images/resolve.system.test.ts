import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDns, type TestDns } from "../../stores/dns/testing.ts";
import { createSystemAddresses, type ResolveAddresses } from "./resolve.ts";

let dns: TestDns;
let dir: string;
let resolve: ResolveAddresses;
beforeAll(async () => {
  dns = await startDns();
  dir = await mkdtemp(join(tmpdir(), "svc-hosts-"));
  const hostsFile = join(dir, "hosts");
  await writeFile(
    hostsFile,
    "127.0.0.1\tlocalhost\n10.0.0.5 Hooks.Inside.test other # hooks.commented.test\nnot an.address hooks.test\n",
  );
  resolve = createSystemAddresses({ hostsFile, servers: [dns.server] });
  dns.set("both.test", { A: ["192.0.2.1", "192.0.2.2"], AAAA: ["2001:db8::1"] });
  dns.set("old.test", { A: ["192.0.2.3"] });
  dns.set("alias.test", { CNAME: "old.test" });
  dns.set("hooks.inside.test", { A: ["192.0.2.4"] });
  dns.set("hooks.commented.test", { A: ["192.0.2.5"] });
  dns.set("text.test", { TXT: ["nothing"] });
});
afterAll(async () => {
  await dns?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});
const never = () => new AbortController().signal;

test.each([
  { name: "both.test", is: ["192.0.2.1", "192.0.2.2", "2001:db8::1"] },
  { name: "old.test", is: ["192.0.2.3"] },
  { name: "alias.test", is: ["192.0.2.3"] },
  { name: "hooks.inside.test", is: ["10.0.0.5"] },
  { name: "hooks.commented.test", is: ["192.0.2.5"] },
  { name: "text.test", is: [] },
  { name: "nobody.test", is: [] },
])("$name is at $is", async ({ name, is }) => {
  expect(await resolve(name, never())).toEqual(is);
});

test("a name whose servers fail is not known, and one whose servers keep silent not either", async () => {
  dns.behave("failing");
  await expect(resolve("old.test", never())).rejects.toThrow();
  dns.behave("silent");
  const late = new AbortController();
  const many = Array.from({ length: 32 }, (_, n) => expect(resolve(`silent-${n}.test`, late.signal)).rejects.toThrow());
  // Whoever waits holds up nobody who asks somebody else.
  await using other = await startDns();
  other.set("both.test", { A: ["192.0.2.1"] });
  expect(await createSystemAddresses({ servers: [other.server] })("both.test", never())).toEqual(["192.0.2.1"]);
  late.abort(new Error("too late"));
  await Promise.all(many);
  dns.behave("answering");
  expect(await resolve("old.test", never())).toEqual(["192.0.2.3"]);
});
