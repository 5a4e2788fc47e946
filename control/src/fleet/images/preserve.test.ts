import { ociManifestSchema } from "@svc/proto";
import { expect, test } from "vitest";
import { preserveManifest } from "./preserve.ts";

const earlier = ociManifestSchema.parse({
  version: 2,
  name: "Shop",
  type: "ociimage",
  port: 8080,
  image: { reference: "registry.test/shop:1" },
  health: { path: "/ready", timeoutSeconds: 90 },
  channel: "preview",
});
/** What a form with the fields name, port and image sends. */
const required = {
  version: 2,
  name: "Shop",
  type: "ociimage",
  port: 9090,
  image: { reference: "registry.test/shop:2" },
};

test.each([
  { when: "health is left out", written: {}, health: { path: "/ready", timeoutSeconds: 90 } },
  { when: "health is empty", written: { health: {} }, health: { path: "/ready", timeoutSeconds: 90 } },
  { when: "only the path changes", written: { health: { path: "/" } }, health: { path: "/", timeoutSeconds: 90 } },
  {
    when: "only the time changes",
    written: { health: { timeoutSeconds: 5 } },
    health: { path: "/ready", timeoutSeconds: 5 },
  },
  {
    when: "both change",
    written: { health: { path: "/up", timeoutSeconds: 5 } },
    health: { path: "/up", timeoutSeconds: 5 },
  },
])("what is named wins and the rest stays when $when", ({ written, health }) => {
  expect(preserveManifest({ ...required, ...written }, earlier)).toEqual({
    version: 2,
    name: "Shop",
    type: "ociimage",
    port: 9090,
    image: { reference: "registry.test/shop:2" },
    health,
  });
});

test.each([
  { when: "none is named", written: {}, channel: undefined },
  { when: "one is named", written: { channel: "production" }, channel: "production" },
])("the channel is never the earlier one: $when", ({ written, channel }) => {
  expect(preserveManifest({ ...required, ...written }, earlier).channel).toBe(channel);
});

test("nothing is kept from an earlier one that had the defaults", () => {
  const { health: _, channel: __, ...plain } = earlier;
  expect(preserveManifest(required, ociManifestSchema.parse(plain)).health).toEqual({ path: "/", timeoutSeconds: 60 });
});
