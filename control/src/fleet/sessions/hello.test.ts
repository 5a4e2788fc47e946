import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { HelloSchema } from "@svc/proto/node";
import { expect, test } from "vitest";
import { helloFacts } from "./hello.ts";

const good = {
  instanceId: "i1",
  bootId: "b1",
  version: "0.1.0",
  address: "10.0.0.7",
  capacity: { memoryMb: 2048n, cpuMillicores: 2000n, pids: 4096n, diskMb: 10_000n },
  platform: { os: "linux", architecture: "amd64" },
  labels: { zone: "a" },
} satisfies MessageInitShape<typeof HelloSchema>;
type Fields = Partial<Record<keyof typeof good, unknown>>;
const facts = (overrides: Fields) => helloFacts(create(HelloSchema, { ...good, ...overrides } as typeof good));

test("a Hello gives the facts of the node", () => {
  expect(facts({})).toEqual({
    ...good,
    capacity: { memoryMb: 2048, cpuMillicores: 2000, pids: 4096, diskMb: 10_000 },
  });
});

test.each([
  { when: "the instance has no id", hello: { instanceId: "" }, problem: "instance_id" },
  { when: "the boot has no id", hello: { bootId: "" }, problem: "boot_id" },
  { when: "the version has a line break", hello: { version: "1\n2" }, problem: "version" },
  { when: "there is no address", hello: { address: "" }, problem: "address" },
  { when: "the address has a port", hello: { address: "10.0.0.7:80" }, problem: "address" },
  { when: "the address is a path", hello: { address: "10.0.0.7/../x" }, problem: "address" },
  {
    when: "there is no memory",
    hello: { capacity: { ...good.capacity, memoryMb: 0n } },
    problem: "capacity",
  },
  { when: "the capacity is absurd", hello: { capacity: { ...good.capacity, diskMb: 2n ** 63n } }, problem: "capacity" },
  { when: "the platform is missing", hello: { platform: { os: "", architecture: "" } }, problem: "platform" },
  { when: "a label's name is odd", hello: { labels: { "a b": "c" } }, problem: "labels" },
  { when: "a label is too long", hello: { labels: { a: "x".repeat(300) } }, problem: "labels" },
  {
    when: "there are too many labels",
    hello: { labels: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`l${i}`, "x"])) },
    problem: "labels",
  },
])("a Hello is refused when $when", ({ hello, problem }) => {
  expect(facts(hello)).toEqual({ problem });
});
