import { EgressBlocked } from "@svc/registry";
import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { addressSet } from "./address-set.ts";
import { createEgress, createWebhookEgress } from "./egress.ts";

const publicName = async () => ["93.184.215.14", "2606:2800:21f:cb07::1"];
const unasked = () => Promise.reject(new Error("nobody should ask"));

test("a public host is dialled at the addresses that were judged", async () => {
  const egress = createEgress(systemClock, publicName, []);
  expect(await egress(new URL("https://registry.example.test"))).toEqual([
    { address: "93.184.215.14", family: 4 },
    { address: "2606:2800:21f:cb07::1", family: 6 },
  ]);
  expect(await egress(new URL("https://registry.example.test:5000"))).toHaveLength(2);
});

test("what the operator allows is dialled as it is, over http too, and exactly that", async () => {
  const egress = createEgress(systemClock, unasked, ["10.0.0.5:5000", "registry.internal"]);
  expect(await egress(new URL("http://10.0.0.5:5000"))).toBeNull();
  expect(await egress(new URL("https://registry.internal"))).toBeNull();
  for (const other of ["http://10.0.0.5:5001", "https://10.0.0.5", "https://x.registry.internal"])
    await expect(egress(new URL(other))).rejects.toThrow(EgressBlocked);
});

test.each([
  "http://registry.example.test",
  "https://registry.example.test:22",
  "https://127.0.0.1",
  "https://8.8.8.8",
  "https://0x7f000001",
  "https://2130706433",
  "https://0177.0.0.1",
  "https://[::1]",
  "https://[::ffff:169.254.169.254]",
  "https://localhost",
  "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
  "https://registry.example.test.",
  "https://registry",
  "https://metadata.internal",
  "https://printer.local",
  "https://svc.localhost",
  "https://nas.home.arpa",
])("%s is not even looked up", async (origin) => {
  await expect(createEgress(systemClock, unasked, [])(new URL(origin))).rejects.toThrow(EgressBlocked);
});

test.each([
  ["10.0.0.1"],
  ["93.184.215.14", "10.0.0.1"],
  ["168.63.129.16"],
  ["100.64.0.1"],
  ["192.0.0.192"],
  ["fd00:ec2::254"],
  ["::7f00:1"],
  ["::ffff:10.0.0.1"],
  ["64:ff9b::a9fe:a9fe"],
  ["2002:a9fe:a9fe::"],
  ["2001:db8::1"],
  ["fe80::1%eth0"],
  ["not an address"],
])("a name that means %j is blocked", async (...addresses) => {
  const egress = createEgress(systemClock, async () => addresses, []);
  await expect(egress(new URL("https://10.0.0.1.nip.test"))).rejects.toThrow(EgressBlocked);
});

test("a name that has no address, or none that is known, is not blocked but not there", async () => {
  expect(await createEgress(systemClock, async () => [], [])(new URL("https://gone.example.test"))).toEqual([]);
  await expect(createEgress(systemClock, unasked, [])(new URL("https://gone.example.test"))).rejects.not.toThrow(
    EgressBlocked,
  );
});

test.each([
  { to: "https://hooks.example.test", at: ["93.184.215.14"], is: "dialled" },
  { to: "https://hooks.example.test:8443", at: ["93.184.215.14"], is: "dialled" },
  { to: "https://hooks.inside.test:9000", at: ["10.20.0.7"], is: "dialled" },
  { to: "http://hooks.inside.test", at: ["10.20.0.7", "fd00:20::7"], is: "dialled" },
  { to: "http://10.20.0.7:8080", at: [], is: "dialled" },
  { to: "http://[fd00:20::7]:8080", at: [], is: "dialled" },
  { to: "http://[::ffff:10.20.0.7]", at: [], is: "dialled" },
  { to: "http://hooks.example.test", at: ["93.184.215.14"], is: "refused" },
  { to: "https://hooks.example.test:9000", at: ["93.184.215.14"], is: "refused" },
  { to: "https://hooks.inside.test", at: ["10.21.0.7"], is: "refused" },
  { to: "https://hooks.inside.test", at: ["10.20.0.7", "10.21.0.7"], is: "refused" },
  { to: "https://hooks.inside.test", at: ["10.20.0.7", "93.184.215.14"], is: "refused" },
  { to: "http://10.21.0.7", at: [], is: "refused" },
  { to: "http://[::1]", at: [], is: "refused" },
  { to: "https://169.254.169.254", at: [], is: "refused" },
])("a webhook to $to at $at is $is", async ({ to, at, is }) => {
  const egress = createWebhookEgress(systemClock, async () => at, addressSet(["10.20.0.0/16", "fd00:20::/48"]));
  const judged = egress(new URL(to));
  if (is === "refused") await expect(judged).rejects.toThrow(EgressBlocked);
  else expect((await judged)?.length).toBe(Math.max(at.length, 1));
});
