import { expect, test } from "vitest";
import { contextOwner, rootOfContainers } from "./context-owner.ts";

const rootDir = "/var/lib/docker/100000.100001";

test.each([
  {
    when: "it does not remap users",
    engine: { version: "20.10.24", isRemapped: false, rootDir: "/var/lib/docker" },
    uid: 0,
  },
  {
    when: "it remaps them and the context's owners",
    engine: { version: "26.1.5+dfsg1", isRemapped: true, rootDir },
    uid: 0,
  },
  {
    when: "it remaps them, and not the context's owners",
    engine: { version: "20.10.24", isRemapped: true, rootDir },
    uid: 100_000,
  },
  { when: "it runs without root", engine: { version: "25.0.5", isRemapped: true, rootDir: "/home/a/docker" }, uid: 0 },
])("$when: what $uid owns is root's", ({ engine, uid }) => {
  expect(contextOwner(engine)).toEqual({ uid, gid: uid === 0 ? 0 : 100_001 });
});

test("the root of containers is known by the directory of an engine that remaps users, whatever its version", () => {
  expect(rootOfContainers({ isRemapped: true, rootDir })).toEqual({ uid: 100_000, gid: 100_001 });
  expect(rootOfContainers({ isRemapped: false, rootDir: "/var/lib/docker" })).toEqual({ uid: 0, gid: 0 });
});
